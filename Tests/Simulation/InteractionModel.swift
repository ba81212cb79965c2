import Countdowns

/// A naive model of scopes, stacks and pages: it looks everything up by name, each time from the
/// top down. The engine's trees, doomed scopes and leases are compared with it.
struct InteractionModel {
  struct Scope {
    let generation: Generation
    var parent: String?
    /// Whether events continue to the parent.
    var isRouted: Bool
    var owner: Owner
    var ttl: Int64?
    var leaseEnd: Int64?
    var handlers: [(connection: UInt64, event: String, captures: Bool)] = []
  }

  struct Timer {
    let generation: Generation
    /// The owning scope, by name and generation.
    var owner: (name: String, generation: Generation)?
    var due: Int64
  }

  /// A once, a gate with an action that waits, or a debounced call.
  struct Guard {
    let kind: EntityKind
    var generation: Generation
    var owner: (name: String, generation: Generation)?
    var due: Int64
  }

  struct StackPage: Equatable {
    var name: String
    var edge: Double
    var pops: Bool
    var bar: NavigationStack.Bar?
    var style: NavigationStack.Style
  }

  struct Stack {
    var pages: [StackPage]
    var bar: NavigationStack.Bar
    var transition: Transition?

    /// Sets the bar as a page wants it that has appeared.
    mutating func appeared(_ page: StackPage) { bar = page.bar ?? bar }
  }

  struct Transition {
    var kind: NavigationStack.Transition.Kind
    var timeout: Int64?
    var until: Int64?

    var adds: Bool { kind == .push || kind == .present }
  }

  struct Content: Equatable {
    var generation: Generation
    var state: PageLoad.State
    var before: PageLoad.State
    var isVisible = true
    var items: Int64?
    var message: [UInt8]?
    var deadline: Int64?
    var owner: String?
    var ownerGeneration: Generation?
    var timeout: Int64?
    /// Whether it is a page of a stack, which loads by `refresh` when it appears again.
    var isBound = false
    var refresh = PageLoad.Refresh.always
    /// Whether there was no room for a HUD when it appeared again.
    var lacksHUD = false

    var showsHUD: Bool { isVisible && state == .loading && !lacksHUD }
  }

  var now: Int64 = 0
  var connections: Set<UInt64> = []
  private(set) var scopes: [String: Scope] = [:]
  var timers: [String: Timer] = [:]
  var guards: [String: Guard] = [:]
  var stacks: [String: Stack] = [:]
  var contents: [String: Content] = [:]
  /// When messages on the screens of pages end, in microseconds.
  var messages: [String: Int64] = [:]

  var openGenerations: Set<Generation> { Set(scopes.values.map(\.generation)) }

  // MARK: Time

  /// Removes everything that is over by now.
  mutating func settle() {
    while let gone = scopes.first(where: { isOver($0.value) })?.key { scopes[gone] = nil }
    for (name, timer) in timers where timer.due <= now || !isAlive(timer.owner) {
      timers[name] = nil
    }
    for (name, entry) in guards where entry.due <= now || !isAlive(entry.owner) {
      guards[name] = nil
    }
    messages = messages.filter { $0.value > now }
    for name in Array(stacks.keys) { settle(stack: name) }
    for (name, content) in contents {
      if let owner = content.owner, scopes[owner]?.generation != content.ownerGeneration {
        contents[name] = nil
      } else if let deadline = content.deadline, deadline <= now {
        _ = fail(name)
      }
    }
  }

  private func isOver(_ scope: Scope) -> Bool {
    if let end = scope.leaseEnd, end <= now { return true }
    if case .connection(let id) = scope.owner, !connections.contains(id) { return true }
    return scope.parent.map { scopes[$0] == nil } ?? false
  }

  private func isAlive(_ owner: (name: String, generation: Generation)?) -> Bool {
    owner.map { scopes[$0.name]?.generation == $0.generation } ?? true
  }

  private mutating func settle(stack name: String) {
    guard let stack = stacks[name] else { return }
    let ending = stack.pages.suffix(2).contains { scopes[$0.name] == nil }
    if let transition = stack.transition, ending || transition.until ?? .max <= now {
      end(name, cancelled: transition.kind == .swipe)
    }
    guard var stack = stacks[name] else { return }
    let left = stack.pages.filter { scopes[$0.name] != nil }
    let uncovered = left.last != stack.pages.last ? left.last : nil
    if let uncovered { stack.appeared(uncovered) }
    stack.pages = left
    stacks[name] = left.isEmpty ? nil : stack
    if let uncovered { contentAppears(uncovered.name) }
  }

  /// Notes that a page of a stack has appeared, perhaps again.
  private mutating func contentAppears(_ name: String) {
    guard let content = contents[name], content.isBound, !content.isVisible else { return }
    contents[name]!.isVisible = true
    switch (content.state, content.refresh) {
    case (.content, .always), (.content, .every), (.empty, .always), (.empty, .every):
      load(name, silently: true)
    case (.error, .every): load(name, silently: false)
    default: break
    }
  }

  private mutating func contentDisappears(_ name: String) {
    if contents[name]?.isBound == true { contents[name]!.isVisible = false }
  }

  /// Begins a transition between pages that are there, and ends it at once if it takes no time.
  mutating func begin(
    _ name: String, _ kind: NavigationStack.Transition.Kind, _ pace: NavigationStack.Pace
  ) {
    var transition = Transition(kind: kind)
    if case .lasting(let duration) = pace { transition.until = now + duration.microseconds }
    stacks[name]!.transition = transition
    if pace == .atOnce { end(name, cancelled: false) }
  }

  /// Ends a transition.
  mutating func end(_ name: String, cancelled: Bool) {
    var stack = stacks[name]!
    guard let transition = stack.transition else { return }
    stack.transition = nil
    let leaves = transition.adds == cancelled
    let top = leaves ? stack.pages.removeLast() : nil
    stack.appeared(stack.pages.last!)
    stacks[name] = stack
    if transition.adds, !cancelled {
      contentDisappears(stack.pages[stack.pages.count - 2].name)
    }
    contentAppears(stack.pages.last!.name)
    if let top { close(top.name) }
  }

  // MARK: Scopes

  func depth(_ name: String) -> Int {
    scopes[name]!.parent.map { depth($0) + 1 } ?? 1
  }

  func children(_ name: String) -> Int { scopes.values.count { $0.parent == name } }

  func isBelow(_ name: String, _ other: String) -> Bool {
    name == other || scopes[name]!.parent.map { isBelow($0, other) } ?? false
  }

  func ownedCount(_ name: String) -> Int {
    timers.values.count { $0.owner?.name == name } + guards.values.count { $0.owner?.name == name }
      + contents.values.count { $0.owner == name }
  }

  mutating func open(_ name: String, _ scope: Scope) { scopes[name] = scope }

  mutating func close(_ name: String) {
    scopes[name] = nil
    settle()
  }

  mutating func renew(_ name: String, _ ttl: Int64?) {
    scopes[name]!.ttl = ttl ?? scopes[name]!.ttl
    scopes[name]!.leaseEnd = now + scopes[name]!.ttl!
  }

  /// Prolongs leases that were running when the machine was suspended.
  mutating func prolongLeases(from suspend: Int64) {
    for (name, scope) in scopes {
      guard let end = scope.leaseEnd, let ttl = scope.ttl, end > suspend else { continue }
      scopes[name]!.leaseEnd = max(end, now + min(ttl, 10_000_000))
    }
  }

  // MARK: Events

  mutating func handle(_ name: String, _ event: String, captures: Bool, by id: UInt64) -> Bool {
    let isNew = !scopes[name]!.handlers.contains {
      $0.connection == id && $0.event == event && $0.captures == captures
    }
    if isNew { scopes[name]!.handlers.append((id, event, captures)) }
    return isNew
  }

  mutating func unhandle(_ name: String, _ event: String, by id: UInt64) -> Bool {
    let before = scopes[name]!.handlers.count
    scopes[name]!.handlers.removeAll { $0.connection == id && $0.event == event }
    return scopes[name]!.handlers.count < before
  }

  func taker(of event: String, for name: String) -> (scope: String, connection: UInt64)? {
    var way = [name]
    while let scope = scopes[way.last!], scope.isRouted, let parent = scope.parent {
      way.append(parent)
    }
    for captures in [true, false] {
      for scope in captures ? way.reversed() : way {
        let handler = scopes[scope]!.handlers.first {
          $0.captures == captures && ($0.event == event || $0.event == "*")
            && connections.contains($0.connection)
        }
        if let handler { return (scope, handler.connection) }
      }
    }
    return nil
  }

  // MARK: Stacks

  func refusal(ofSwipe name: String, x: Double, dx: Double) -> Reason? {
    let stack = stacks[name]!
    let top = stack.pages.last!
    if stack.transition != nil { return .transitioning }
    if stack.pages.count == 1 { return .root }
    if top.style == .presented { return .presented }
    if !top.pops { return .disabled }
    if top.edge > 0, x > top.edge { return .outsideEdge }
    return dx <= 0 ? .direction : nil
  }

  /// Removes the pages from a place on, and closes their scopes.
  mutating func cut(_ name: String, from place: Int) {
    let gone = stacks[name]!.pages[place...]
    stacks[name]!.pages.removeSubrange(place...)
    stacks[name]!.transition = nil
    if let top = stacks[name]!.pages.last {
      stacks[name]!.appeared(top)
      contentAppears(top.name)
    } else {
      stacks[name] = nil
    }
    for page in gone { close(page.name) }
  }

  // MARK: Pages

  mutating func fail(_ name: String, _ message: [UInt8]? = nil) -> Reason? {
    switch contents[name]!.state {
    case .loading:
      contents[name]!.state = .error
      contents[name]!.message = message
    case .refreshing:
      contents[name]!.state = contents[name]!.before
      contents[name]!.message = message ?? contents[name]!.message
    case .content, .empty, .error: return .notLoading
    }
    contents[name]!.deadline = nil
    return nil
  }

  /// Begins another load; a silent one keeps what is shown meanwhile.
  mutating func load(_ name: String, silently: Bool) {
    var content = contents[name]!
    content.deadline = content.timeout.map { now + $0 }
    if silently {
      content.before = content.state
      content.state = .refreshing
    } else {
      content.state = .loading
      content.lacksHUD = false
      content.items = nil
      content.message = nil
    }
    contents[name] = content
  }

  /// The number of HUDs that are shown once nothing is due.
  var hudCount: Int { contents.values.count(where: \.showsHUD) + messages.count }
  var entityCount: Int {
    scopes.count + timers.count + guards.count + stacks.count + contents.count + hudCount
  }
  var armedCount: Int {
    timers.count + guards.count + scopes.values.count { $0.leaseEnd != nil }
      + stacks.values.count { $0.transition?.until != nil }
      + contents.values.count { $0.deadline != nil }
      + messages.count
  }
}
