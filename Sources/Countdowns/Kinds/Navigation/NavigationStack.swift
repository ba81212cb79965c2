/// A stack of pages with a swipe back that can be cancelled.
///
///     (nothing) --push--> settled --push, pop, root--> settled
///     settled --swipe that may begin--> transitioning --finish--> settled, one page less
///     transitioning --cancel, time over--> settled, as it was
///     any --dismiss, the last page closed--> (nothing)
///
/// A page that will appear then either appears, or disappears again; the same
/// for disappearing. A page's bar applies from its did-appear on: a swipe that is cancelled
/// never changes it.
package struct NavigationStack: Equatable, Sendable {
  package enum Bar: String, CaseIterable, Sendable { case shown, hidden }

  package struct Page: Equatable, Sendable {
    /// What it owns ends with it.
    package var scope: OwnerName
    /// How far from the edge a swipe back may begin, in points; 0 for anywhere.
    package var edge: Double
    /// Whether it may be swiped away at all.
    package var pops: Bool
    package var bar: Bar

    package init(scope: OwnerName, edge: Double, pops: Bool, bar: Bar) {
      self.scope = scope
      self.edge = edge
      self.pops = pops
      self.bar = bar
    }
  }

  /// Why a request is refused. Nothing has changed then.
  package enum Refusal: Equatable, Sendable {
    case transitioning, root, disabled, outsideEdge, direction
    case notTransitioning
  }

  package struct Transition: Equatable, Sendable {
    package var fraction: Double
    /// It is cancelled after this time without progress.
    package var timeout: Interval
    package var until: Instant
  }

  package enum Event: Equatable, Sendable {
    case willAppear, didAppear, willDisappear, didDisappear
    case swiping, progress, finished, cancelled, timedOut
    /// No page is left.
    case dismissed
  }

  /// An event, and the stack as the event left it. One input can cause several.
  package struct Occurrence: Equatable, Sendable {
    package var event: Event
    package var stack: NavigationStack
    /// The page that it is about: for a swipe the one on top.
    package var page: [UInt8]
    /// Whether it comes to the stack (appearing) or leaves it (disappearing), and is not only
    /// uncovered or covered.
    package var isMoving = false
    package var bar: Bar
    /// Whether the bar changes with this.
    package var changesBar = false
    package var due: Instant?
  }

  package private(set) var pages: [Page]
  package private(set) var transition: Transition?
  /// As the page that appeared last requests it.
  package private(set) var bar = Bar.shown

  package init(_ page: Page, _ emit: (Occurrence) -> Void) {
    pages = [page]
    appear(page, isMoving: true, emit)
  }

  package var top: Page? { pages.last }
  package var nextExpiry: Instant? { transition?.until }

  // MARK: Inputs

  package mutating func push(_ page: Page, _ emit: (Occurrence) -> Void) -> Refusal? {
    guard transition == nil else { return .transitioning }
    let covered = pages.last!
    pages.append(page)
    change(from: covered, leaving: false, to: page, coming: true, emit)
    return nil
  }

  /// Pops the top page of `pages`.
  package mutating func pop(_ emit: (Occurrence) -> Void) -> Refusal? {
    guard transition == nil else { return .transitioning }
    guard pages.count > 1 else { return .root }
    let popped = pages.removeLast()
    change(from: popped, leaving: true, to: pages.last!, coming: false, emit)
    return nil
  }

  /// Pops all pages but the first. Those between were not visible, so they have no events.
  package mutating func popToRoot(_ emit: (Occurrence) -> Void) -> Refusal? {
    guard transition == nil else { return .transitioning }
    guard pages.count > 1 else { return .root }
    let top = pages.removeLast()
    pages.removeSubrange(1...)
    change(from: top, leaving: true, to: pages[0], coming: false, emit)
    return nil
  }

  /// Pops to the root, then removes it: each page leaves as if it had been popped.
  package mutating func dismiss(_ emit: (Occurrence) -> Void) {
    _ = cancel(emit)
    _ = popToRoot(emit)
    disappear(pages[0], isMoving: true, emit)
    end(emit)
  }

  /// Returns why a swipe back may not begin, in this order; nil if it may.
  ///
  /// - Parameters:
  ///   - x: where, in points from the edge.
  ///   - dx: which way; to the right is back.
  package func refusal(ofSwipeAt x: Double, dx: Double) -> Refusal? {
    guard transition == nil else { return .transitioning }
    guard pages.count > 1, let top else { return .root }
    guard top.pops else { return .disabled }
    guard top.edge <= 0 || x <= top.edge else { return .outsideEdge }
    return dx > 0 ? nil : .direction
  }

  /// Begins a swipe back, if it may begin.
  package mutating func swipe(
    x: Double, dx: Double, timeout: Interval, at now: Instant, _ emit: (Occurrence) -> Void
  ) -> Refusal? {
    if let refusal = refusal(ofSwipeAt: x, dx: dx) { return refusal }
    let top = pages[pages.count - 1]
    transition = Transition(fraction: 0, timeout: timeout, until: now + timeout)
    emit(occurrence(.swiping, top))
    emit(occurrence(.willDisappear, top, isMoving: true))
    emit(occurrence(.willAppear, pages[pages.count - 2]))
    return nil
  }

  package mutating func progress(
    _ fraction: Double, at now: Instant, _ emit: (Occurrence) -> Void
  ) -> Refusal? {
    guard var transition else { return .notTransitioning }
    transition.fraction = fraction
    transition.until = now + transition.timeout
    self.transition = transition
    emit(occurrence(.progress, pages.last!))
    return nil
  }

  /// The swipe went through: the top page leaves the stack.
  package mutating func finish(_ emit: (Occurrence) -> Void) -> Refusal? {
    guard transition != nil else { return .notTransitioning }
    transition = nil
    let popped = pages.removeLast()
    emit(occurrence(.finished, popped))
    emit(occurrence(.didDisappear, popped, isMoving: true))
    settle(pages.last!, isMoving: false, emit)
    return nil
  }

  /// Cancels the swipe: the top page stays.
  package mutating func cancel(_ emit: (Occurrence) -> Void) -> Refusal? {
    guard transition != nil else { return .notTransitioning }
    cancelSwipe(.cancelled, due: nil, emit)
    return nil
  }

  /// Time has passed to `now`.
  package mutating func expire(at now: Instant, _ emit: (Occurrence) -> Void) {
    guard let until = transition?.until, until <= now else { return }
    cancelSwipe(.timedOut, due: until, emit)
  }

  /// Removes pages whose scopes have closed, by their place. A swipe that one of them is part of is
  /// cancelled.
  package mutating func remove(_ gone: Set<Int>, _ emit: (Occurrence) -> Void) {
    guard !gone.isEmpty else { return }
    let last = pages.count - 1
    if transition != nil, gone.contains(last) || gone.contains(last - 1) {
      cancelSwipe(.cancelled, due: nil, emit)
    }
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

  private mutating func cancelSwipe(_ why: Event, due: Instant?, _ emit: (Occurrence) -> Void) {
    transition = nil
    let top = pages[pages.count - 1]
    let under = pages[pages.count - 2]
    var told = occurrence(why, top)
    told.due = due
    emit(told)
    emit(occurrence(.willDisappear, under))
    emit(occurrence(.willAppear, top))
    emit(occurrence(.didDisappear, under))
    settle(top, isMoving: false, emit)
  }

  private mutating func change(
    from old: Page, leaving: Bool, to new: Page, coming: Bool, _ emit: (Occurrence) -> Void
  ) {
    emit(occurrence(.willDisappear, old, isMoving: leaving))
    emit(occurrence(.willAppear, new, isMoving: coming))
    emit(occurrence(.didDisappear, old, isMoving: leaving))
    settle(new, isMoving: coming, emit)
  }

  private mutating func appear(_ page: Page, isMoving: Bool, _ emit: (Occurrence) -> Void) {
    emit(occurrence(.willAppear, page, isMoving: isMoving))
    settle(page, isMoving: isMoving, emit)
  }

  private func disappear(_ page: Page, isMoving: Bool, _ emit: (Occurrence) -> Void) {
    emit(occurrence(.willDisappear, page, isMoving: isMoving))
    emit(occurrence(.didDisappear, page, isMoving: isMoving))
  }

  /// The page has appeared; its bar applies from now on.
  private mutating func settle(_ page: Page, isMoving: Bool, _ emit: (Occurrence) -> Void) {
    let changesBar = page.bar != bar
    bar = page.bar
    var told = occurrence(.didAppear, page, isMoving: isMoving)
    told.changesBar = changesBar
    emit(told)
  }

  private mutating func end(_ emit: (Occurrence) -> Void, after last: Page? = nil) {
    let last = last ?? pages[0]
    pages = []
    emit(occurrence(.dismissed, last))
  }

  private func occurrence(_ event: Event, _ page: Page, isMoving: Bool = false) -> Occurrence {
    Occurrence(
      event: event, stack: self, page: page.scope.key, isMoving: isMoving, bar: page.bar)
  }
}
