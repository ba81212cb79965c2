/// A stack of pages whose transitions can take time, and a swipe back that can be cancelled.
///
///     (nothing) --push, present--> settled --push, present, pop, root--> settled
///     settled --push, present, pop that take time--> transitioning --finish, time over--> settled
///     settled --swipe that may begin--> transitioning --finish--> settled, one page less
///     transitioning --cancel; for a swipe, timeout--> settled, as before
///     any --dismiss, the last page closed--> (nothing)
///
/// After will-appear, a page either appears or disappears again; conversely after will-disappear. A
/// page's bar applies from its did-appear on, so a cancelled transition never changes the bar. A
/// page whose bar is nil leaves the bar unchanged.
package struct NavigationStack: Equatable, Sendable {
  package enum Bar: String, CaseIterable, Sendable { case shown, hidden }

  /// How a page entered the stack.
  package enum Style: String, CaseIterable, Sendable { case pushed, presented }

  /// How long a push, present or pop takes.
  package enum Pace: Equatable, Sendable {
    case atOnce
    case lasting(Interval)
    /// Until the transition is finished or cancelled.
    case untilFinished
  }

  package struct Page: Equatable, Sendable {
    /// The scope of the page, which closes with the page and cancels what it owns.
    package var scope: OwnerName
    /// How far from the edge a swipe back may begin, in points; 0 for anywhere.
    package var edge: Double
    /// Whether the page may be swiped away at all.
    package var pops: Bool
    /// The bar that the page wants; nil for any.
    package var bar: Bar?
    package var style: Style

    package init(
      scope: OwnerName, edge: Double, pops: Bool, bar: Bar?, style: Style = .pushed
    ) {
      self.scope = scope
      self.edge = edge
      self.pops = pops
      self.bar = bar
      self.style = style
    }
  }

  /// Changes to the options of a page; nil leaves an option unchanged.
  package struct Change: Equatable, Sendable {
    package var edge: Double?
    package var pops: Bool?
    /// The bar that the page wants; an inner nil for any.
    package var bar: Bar??

    package init() {}
  }

  /// A transition between the page on top and the one below.
  package struct Transition: Equatable, Sendable {
    package enum Kind: String, CaseIterable, Sendable {
      case push, present, pop, swipe

      /// Whether the page on top enters the stack; otherwise it leaves.
      var adds: Bool { self == .push || self == .present }
    }

    package var kind: Kind
    package var fraction = 0.0
    /// The time without progress after which a swipe is cancelled; nil for others.
    package var timeout: Interval?
    /// When the transition ends by itself; nil if it does not.
    package var until: Instant?
  }

  package enum Event: Equatable, Sendable {
    case willAppear, didAppear, willDisappear, didDisappear
    case swiping, progress, finished, cancelled, timedOut
    /// EDGE, POP or BAR of a page has changed.
    case updated
    /// No page is left.
    case dismissed
  }

  /// An event and the stack after it. One input can cause several events.
  package struct Occurrence: Equatable, Sendable {
    package var event: Event
    package var stack: NavigationStack
    /// The page that the event concerns; for a swipe, the one on top.
    package var page: [UInt8]
    /// Whether the page enters the stack (appearing) or leaves it (disappearing), instead of only
    /// being uncovered or covered.
    package var isMoving = false
    /// The style of the page that enters or leaves.
    package var style: Style
    package var bar: Bar
    /// Whether the event changes the bar.
    package var changesBar = false
    package var due: Instant?
  }

  package internal(set) var pages: [Page]
  package internal(set) var transition: Transition?
  /// The bar in effect. Pages that want one set it when they appear.
  package internal(set) var bar = Bar.shown

  package init(_ page: Page, _ emit: (Occurrence) -> Void) {
    pages = [page]
    appear(page, isMoving: true, emit)
  }

  package var top: Page? { pages.last }
  package var nextExpiry: Instant? { transition?.until }
  /// The scope of the page that a POP in progress removes.
  var poppedScope: OwnerName? { transition?.kind == .pop ? top?.scope : nil }

  // MARK: Inputs

  /// Pushes a page, or presents it.
  package mutating func push(
    _ page: Page, _ pace: Pace = .atOnce, at now: Instant, _ emit: (Occurrence) -> Void
  ) -> Reason? {
    guard transition == nil else { return .transitioning }
    let covered = pages.last!
    pages.append(page)
    guard let kind = begin(page.style == .pushed ? .push : .present, pace, at: now) else {
      change(from: covered, leaving: false, to: page, coming: true, emit)
      return nil
    }
    transition = kind
    emit(occurrence(.willDisappear, covered, by: page))
    emit(occurrence(.willAppear, page, isMoving: true))
    return nil
  }

  /// Pops the top page of `pages`.
  package mutating func pop(
    _ pace: Pace = .atOnce, at now: Instant, _ emit: (Occurrence) -> Void
  ) -> Reason? {
    guard transition == nil else { return .transitioning }
    guard pages.count > 1 else { return .root }
    guard let pop = begin(.pop, pace, at: now) else {
      let popped = pages.removeLast()
      change(from: popped, leaving: true, to: pages.last!, coming: false, emit)
      return nil
    }
    transition = pop
    emitLeaving(emit)
    return nil
  }

  /// Returns the transition, or nil if it takes no time.
  private func begin(_ kind: Transition.Kind, _ pace: Pace, at now: Instant) -> Transition? {
    switch pace {
    case .atOnce, .lasting(.zero): nil
    case .lasting(let duration): Transition(kind: kind, until: now + duration)
    case .untilFinished: Transition(kind: kind)
    }
  }

  /// Changes the options of a page. Without a transition, the bar of the page on top applies at
  /// once.
  package mutating func set(
    _ page: [UInt8], _ change: Change, _ emit: (Occurrence) -> Void
  ) -> Reason? {
    guard let index = pages.firstIndex(where: { $0.scope.key == page }) else { return .noPage }
    if let edge = change.edge { pages[index].edge = edge }
    if let pops = change.pops { pages[index].pops = pops }
    if let bar = change.bar { pages[index].bar = bar }
    let isShown = transition == nil && index == pages.count - 1
    let before = bar
    if isShown { bar = pages[index].bar ?? bar }
    var reported = occurrence(.updated, pages[index])
    reported.changesBar = bar != before
    emit(reported)
    return nil
  }

  /// Pops all pages but the first. Pages in between were not visible, so they have no events.
  package mutating func popToRoot(_ emit: (Occurrence) -> Void) -> Reason? {
    guard transition == nil else { return .transitioning }
    guard pages.count > 1 else { return .root }
    let top = pages.removeLast()
    pages.removeSubrange(1...)
    change(from: top, leaving: true, to: pages[0], coming: false, emit)
    return nil
  }

  /// Cancels a transition, pops to the root, and removes the root.
  package mutating func dismiss(_ emit: (Occurrence) -> Void) {
    _ = cancel(emit)
    _ = popToRoot(emit)
    disappear(pages[0], isMoving: true, emit)
    end(emit)
  }

  /// Returns the first reason why a swipe back may not begin, or nil if it may.
  ///
  /// - Parameters:
  ///   - x: where the swipe begins, in points from the edge.
  ///   - dx: how far it has moved; positive is back.
  package func refusal(ofSwipeAt x: Double, dx: Double) -> Reason? {
    guard transition == nil else { return .transitioning }
    guard pages.count > 1, let top else { return .root }
    guard top.style == .pushed else { return .presented }
    guard top.pops else { return .disabled }
    guard top.edge <= 0 || x <= top.edge else { return .outsideEdge }
    return dx > 0 ? nil : .direction
  }

  /// Begins a swipe back, if it may begin.
  package mutating func swipe(
    x: Double, dx: Double, timeout: Interval, at now: Instant, _ emit: (Occurrence) -> Void
  ) -> Reason? {
    if let refusal = refusal(ofSwipeAt: x, dx: dx) { return refusal }
    let top = pages[pages.count - 1]
    transition = Transition(kind: .swipe, timeout: timeout, until: now + timeout)
    emit(occurrence(.swiping, top))
    emitLeaving(emit)
    return nil
  }

  package mutating func progress(
    _ fraction: Double, at now: Instant, _ emit: (Occurrence) -> Void
  ) -> Reason? {
    guard var transition else { return .notTransitioning }
    transition.fraction = fraction
    if let timeout = transition.timeout { transition.until = now + timeout }
    self.transition = transition
    emit(occurrence(.progress, pages.last!))
    return nil
  }

  /// Finishes the transition: the page on top has entered the stack, or leaves it.
  package mutating func finish(_ emit: (Occurrence) -> Void) -> Reason? {
    guard transition != nil else { return .notTransitioning }
    complete(due: nil, emit)
    return nil
  }

  /// Cancels the transition: the stack returns to its previous state.
  package mutating func cancel(_ emit: (Occurrence) -> Void) -> Reason? {
    guard transition != nil else { return .notTransitioning }
    undo(.cancelled, due: nil, emit)
    return nil
  }

  /// Ends a transition whose time is over by `now`: cancels a swipe, finishes any other.
  package mutating func expire(at now: Instant, _ emit: (Occurrence) -> Void) {
    guard let transition, let until = transition.until, until <= now else { return }
    if transition.kind == .swipe {
      undo(.timedOut, due: until, emit)
    } else {
      complete(due: until, emit)
    }
  }

  /// Removes pages whose scopes have closed, by position. First ends a transition that involves one
  /// of them: cancels a swipe, finishes any other.
  package mutating func remove(_ gone: Set<Int>, _ emit: (Occurrence) -> Void) {
    guard !gone.isEmpty else { return }
    var gone = gone
    let index = pages.count - 1
    if let transition, gone.contains(index) || gone.contains(index - 1) {
      if transition.kind == .swipe {
        undo(.cancelled, due: nil, emit)
      } else {
        complete(due: nil, emit)
        if !transition.kind.adds { gone.remove(index) }
      }
    }
    let last = pages.count - 1
    let top = pages[last]
    pages = pages.enumerated().filter { !gone.contains($0.offset) }.map(\.element)
    guard gone.contains(last) else { return }
    guard let uncovered = pages.last else {
      disappear(top, isMoving: true, emit)
      return end(emit, after: top)
    }
    change(from: top, leaving: true, to: uncovered, coming: false, emit)
  }

  // MARK: Steps

  /// Emits that the page on top will leave.
  private func emitLeaving(_ emit: (Occurrence) -> Void) {
    let top = pages[pages.count - 1]
    emit(occurrence(.willDisappear, top, isMoving: true))
    emit(occurrence(.willAppear, pages[pages.count - 2], by: top))
  }

  /// Finishes the transition. There must be one, as for `undo`.
  private mutating func complete(due: Instant?, _ emit: (Occurrence) -> Void) {
    let adds = transition!.kind.adds
    transition = nil
    let moving = pages[pages.count - 1]
    if !adds { pages.removeLast() }
    var reported = occurrence(.finished, moving)
    reported.due = due
    emit(reported)
    let other = pages[pages.count - (adds ? 2 : 1)]
    if adds {
      emit(occurrence(.didDisappear, other, by: moving))
      settle(moving, isMoving: true, by: moving, emit)
    } else {
      emit(occurrence(.didDisappear, moving, isMoving: true))
      settle(other, isMoving: false, by: moving, emit)
    }
  }

  /// Reverts the transition: the disappearing page stays, and the appearing one disappears.
  private mutating func undo(_ why: Event, due: Instant?, _ emit: (Occurrence) -> Void) {
    let adds = transition!.kind.adds
    transition = nil
    let moving = pages[pages.count - 1]
    let other = pages[pages.count - 2]
    if adds { pages.removeLast() }
    var reported = occurrence(why, moving)
    reported.due = due
    emit(reported)
    let (stays, goes) = adds ? (other, moving) : (moving, other)
    emit(occurrence(.willDisappear, goes, isMoving: adds, by: moving))
    emit(occurrence(.willAppear, stays, by: moving))
    emit(occurrence(.didDisappear, goes, isMoving: adds, by: moving))
    settle(stays, isMoving: false, by: moving, emit)
  }

  private mutating func change(
    from old: Page, leaving: Bool, to new: Page, coming: Bool, _ emit: (Occurrence) -> Void
  ) {
    let moving = leaving ? old : new
    emit(occurrence(.willDisappear, old, isMoving: leaving, by: moving))
    emit(occurrence(.willAppear, new, isMoving: coming, by: moving))
    emit(occurrence(.didDisappear, old, isMoving: leaving, by: moving))
    settle(new, isMoving: coming, by: moving, emit)
  }

  private mutating func appear(_ page: Page, isMoving: Bool, _ emit: (Occurrence) -> Void) {
    emit(occurrence(.willAppear, page, isMoving: isMoving))
    settle(page, isMoving: isMoving, by: page, emit)
  }

  private func disappear(_ page: Page, isMoving: Bool, _ emit: (Occurrence) -> Void) {
    emit(occurrence(.willDisappear, page, isMoving: isMoving))
    emit(occurrence(.didDisappear, page, isMoving: isMoving))
  }

  /// Emits that a page has appeared, and applies its bar.
  private mutating func settle(
    _ page: Page, isMoving: Bool, by moving: Page, _ emit: (Occurrence) -> Void
  ) {
    let changesBar = page.bar.map { $0 != bar } ?? false
    bar = page.bar ?? bar
    var reported = occurrence(.didAppear, page, isMoving: isMoving, by: moving)
    reported.changesBar = changesBar
    emit(reported)
  }

  private mutating func end(_ emit: (Occurrence) -> Void, after last: Page? = nil) {
    let last = last ?? pages[0]
    pages = []
    emit(occurrence(.dismissed, last))
  }

  /// - Parameter moving: the page that enters or leaves the stack, if it is not `page`.
  private func occurrence(
    _ event: Event, _ page: Page, isMoving: Bool = false, by moving: Page? = nil
  ) -> Occurrence {
    Occurrence(
      event: event, stack: self, page: page.scope.key, isMoving: isMoving,
      style: (moving ?? page).style, bar: page.bar ?? bar)
  }
}
