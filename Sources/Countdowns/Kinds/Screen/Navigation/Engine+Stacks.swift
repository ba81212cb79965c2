import TimerWheel

/// Navigation stacks.
enum NavigationKind: TableKind {
  static let kind = EntityKind.nav
  static let name: StaticString = "nav"
  static let keyName = "stack"
  static let noun = "stack"
  static let hasOwners = false
  static let stateOfNothing: StaticString = "empty"

  static func store(of engine: Engine) -> EntityTable<StackEntity> { engine.stacks }

  static func view(_ index: UInt32, in engine: Engine, at now: Moment) -> StackView {
    StackView(engine.stacks[index], at: now)
  }

  static let partBytes = 80

  static func runDue(_ index: UInt32, in engine: Engine, at now: Moment) -> Bool {
    engine.runDue(stack: index, at: now)
  }

  /// Does nothing: stacks have no owners.
  static func ownerGone(
    _ index: UInt32, _ owner: Owner, in engine: Engine, at now: Moment
  ) {}
}

/// Navigation stacks. Each page has its own scope, which closes when the page leaves the stack; and
/// a page leaves the stack when its scope closes for another reason. A page that was pushed with a
/// load appears and disappears with the stack.
extension Engine {
  package typealias StackAnswer = (refusal: Reason?, view: StackView)

  // MARK: Commands

  package func pushPage(
    _ key: Span<UInt8>, _ push: PagePush, by client: Client, at now: Moment
  ) throws(EngineError) -> StackAnswer {
    let index = current(NavigationKind.self, key, at: now)
    if let index {
      if stacks[index].machine.transition != nil {
        return (.transitioning, StackView(stacks[index], at: now))
      }
      let maximum = settings.limits.stackPages
      guard stacks[index].machine.pages.count < maximum else {
        throw .limit(name: "max-stack-pages", value: maximum)
      }
    }
    let added = index == nil ? 2 : 1
    try checkLimits(client, adding: added)
    try checkPushedPage(push, by: client, adding: added, at: now)
    let opening = index.map { self.opening(push.opening, above: $0) } ?? push.opening
    let scope = try openPage(push.page, opening, by: client, at: now)
    // Load before the page below disappears, so that a HUD on a screen that both use stays.
    try loadPushedPage(push, scope, by: client, at: now)
    let page = NavigationStack.Page(
      scope: scope, edge: push.edge, pops: push.pops, bar: push.bar, style: push.style)
    guard let index else { return (nil, insertStack(Array(key), page, by: client, at: now)) }
    scopes.table[scope.index].stack = index
    if push.pace != .atOnce { stacks[index].generation = newGeneration() }
    return changeStack(index, at: now) { $0.push(page, push.pace, at: now.boot, $1) }
  }

  /// Pops the top page. Its scope closes, and what it owns is cancelled, after the transition.
  package func popPage(
    _ key: Span<UInt8>, _ pace: NavigationStack.Pace = .atOnce, generation: Generation?,
    at now: Moment
  ) throws(EngineError) -> StackAnswer {
    guard let index = current(NavigationKind.self, key, at: now) else { throw .notFound }
    try check(generation, against: stacks[index].generation)
    let canBegin = stacks[index].machine.transition == nil && stacks[index].machine.pages.count > 1
    if canBegin, pace != .atOnce { stacks[index].generation = newGeneration() }
    defer { closeLittle(at: now) }
    return changeStack(index, at: now) { $0.pop(pace, at: now.boot, $1) }
  }

  /// Changes EDGE, POP and BAR of a page.
  package func setPage(
    _ key: Span<UInt8>, _ page: [UInt8], _ change: NavigationStack.Change, at now: Moment
  ) throws(EngineError) -> StackAnswer {
    try self.change(key, nil, at: now) { $0.set(page, change, $1) }
  }

  /// Pops all pages but the first.
  package func popToRoot(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> StackAnswer {
    try change(key, generation, at: now) { $0.popToRoot($1) }
  }

  /// Removes all pages, the top first. Returns false if there was no such stack.
  package func dismissStack(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = current(NavigationKind.self, key, at: now) else { return false }
    try check(generation, against: stacks[index].generation)
    _ = changeStack(index, at: now) { machine, emit in
      machine.dismiss(emit)
      return nil
    }
    closeLittle(at: now)
    return true
  }

  /// Begins a swipe back if it may begin. A `timeout` of nil means `settings.swipeTimeout`.
  package func swipe(
    _ key: Span<UInt8>, x: Double, dx: Double, timeout: Interval?, at now: Moment
  ) throws(EngineError) -> StackAnswer {
    guard let index = current(NavigationKind.self, key, at: now) else { throw .notFound }
    let timeout = timeout ?? settings.swipeTimeout
    if let refusal = stacks[index].machine.refusal(ofSwipeAt: x, dx: dx) {
      return (refusal, StackView(stacks[index], at: now))
    }
    // The events of the swipe carry the generation that can finish it.
    stacks[index].generation = newGeneration()
    return changeStack(index, at: now) {
      $0.swipe(x: x, dx: dx, timeout: timeout, at: now.boot, $1)
    }
  }

  package func progressTransition(
    _ key: Span<UInt8>, _ fraction: Double, generation: Generation?, at now: Moment
  ) throws(EngineError) -> StackAnswer {
    try change(key, generation, at: now) { $0.progress(fraction, at: now.boot, $1) }
  }

  package func finishTransition(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> StackAnswer {
    try change(key, generation, at: now) { $0.finish($1) }
  }

  package func cancelTransition(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> StackAnswer {
    try change(key, generation, at: now) { $0.cancel($1) }
  }

  // MARK: Time and scopes

  /// Removes the page of a closing scope from its stack.
  func leaveStack(_ scope: UInt32, at now: Moment) {
    guard let index = scopes.table[scope].stack else { return }
    _ = runDue(stack: index, at: now)
    scopes.table[scope].stack = nil
  }

  /// Runs what is due for a stack, and removes pages whose scopes are closed. Returns false if
  /// there is no stack afterwards. O(pages).
  func runDue(stack index: UInt32, at now: Moment) -> Bool {
    guard stacks.contains(index) else { return false }
    if let until = stacks[index].machine.nextExpiry, until <= now.boot {
      statistics.record(late: (now.boot - until).microseconds)
      _ = changeStack(index, at: now) { machine, emit in
        machine.expire(at: now.boot, emit)
        return nil
      }
    }
    var gone: Set<Int> = []
    for (index, page) in stacks[index].machine.pages.enumerated()
    where !scopes.isOpen(page.scope, at: now.boot, connections) {
      gone.insert(index)
    }
    guard !gone.isEmpty else { return true }
    _ = changeStack(index, at: now) { machine, emit in
      machine.remove(gone, emit)
      return nil
    }
    return stacks.contains(index)
  }

  // MARK: Steps

  private func change(
    _ key: Span<UInt8>, _ generation: Generation?, at now: Moment,
    _ body: (inout NavigationStack, (NavigationStack.Occurrence) -> Void)
      -> Reason?
  ) throws(EngineError) -> StackAnswer {
    guard let index = current(NavigationKind.self, key, at: now) else { throw .notFound }
    try check(generation, against: stacks[index].generation)
    defer { closeLittle(at: now) }
    return changeStack(index, at: now, body)
  }

  /// Applies a change and publishes its events. Closes the pages that have left the stack, the top
  /// first, and removes a stack without pages.
  private func changeStack(
    _ index: UInt32, at now: Moment,
    _ body: (inout NavigationStack, (NavigationStack.Occurrence) -> Void)
      -> Reason?
  ) -> StackAnswer {
    let before = stacks[index].machine
    var occurrences: [NavigationStack.Occurrence] = []
    let refusal = body(&stacks[index].machine) { occurrences.append($0) }
    publish(occurrences, ofStack: index, at: now)
    let view = StackView(stacks[index], at: now)
    let after = Set(stacks[index].machine.pages.map(\.scope))
    let gone = before.pages.filter { !after.contains($0.scope) }
    limitPoppedScope(before, stacks[index].machine)
    arm(NavigationKind.self, index)
    if stacks[index].machine.pages.isEmpty { remove(NavigationKind.self, index) }
    // The scope that begins to close last, the top one, finishes first.
    for page in gone where ends(page.scope, of: before, at: now) {
      scopes.table[page.scope.index].stack = nil
      beginClosing(page.scope.index, .closed, at: now)
    }
    return (refusal, view)
  }

  /// Gives the scope of a page being popped a lease until the end of the transition, so that it
  /// closes on time even if the daemon is late.
  private func limitPoppedScope(_ before: NavigationStack, _ after: NavigationStack) {
    if before.transition == after.transition { return }
    if let popped = before.poppedScope, scopes.isAlive(popped), after.top?.scope == popped {
      scopes.tree.renew(popped.index, until: nil)
    }
    if let popped = after.poppedScope, let until = after.transition?.until {
      scopes.tree.renew(popped.index, until: until)
    }
  }

  /// Returns whether a page closes because it left its stack, and not for another reason.
  private func ends(_ scope: OwnerName, of stack: NavigationStack, at now: Moment) -> Bool {
    if scopes.isOpen(scope, at: now.boot, connections) { return true }
    return scope == stack.poppedScope && scopes.isAlive(scope)
      && isFirstToEnd(scope.index, at: now)
  }

  /// Returns `opening` with the parent and owner of the page below, unless it has its own.
  private func opening(_ opening: ScopeOpening, above stack: UInt32) -> ScopeOpening {
    guard opening.parent == nil, opening.owner == nil,
      let below = stacks[stack].machine.top?.scope.index
    else { return opening }
    var opening = opening
    opening.parent = parentKey(of: below)
    opening.owner = scopes.table[below].owner
    return opening
  }

  private func insertStack(
    _ key: [UInt8], _ page: NavigationStack.Page, by client: Client, at now: Moment
  ) -> StackView {
    var occurrences: [NavigationStack.Occurrence] = []
    let machine = NavigationStack(page) { occurrences.append($0) }
    let index = insert(
      NavigationKind.self,
      StackEntity(key: key, machine: machine, generation: newGeneration(), uid: client.uid))
    scopes.table[page.scope.index].stack = index
    publish(occurrences, ofStack: index, at: now)
    return StackView(stacks[index], at: now)
  }

  private func publish(
    _ occurrences: [NavigationStack.Occurrence], ofStack index: UInt32, at now: Moment
  ) {
    let (key, generation) = (stacks[index].key, stacks[index].generation)
    for occurrence in occurrences {
      let head = Event.Head(
        occurrence.event.name, generation, due: occurrence.due,
        reason: occurrence.event == .timedOut ? .timedOut : nil, at: now)
      publish(.nav, key, head) {
        StackView(key, occurrence.stack, generation, occurrence, at: now)
      }
      switch occurrence.event {
      case .didAppear: pushedPageAppears(occurrence.page, at: now)
      case .didDisappear: pushedPageDisappears(occurrence.page, at: now)
      default: break
      }
    }
  }
}
