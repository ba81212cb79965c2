import Countdowns
import Simulation

extension Desk {
  @discardableResult
  func push(
    _ stack: String, _ page: String, edge: Double = 0, below parent: String? = nil,
    owner: Owner? = nil, style: NavigationStack.Style = .pushed,
    _ pace: NavigationStack.Pace = .atOnce, loading: PageAppearance? = nil
  ) throws -> Reason? {
    var push = PagePush(page: Array(page.utf8))
    push.edge = edge
    push.style = style
    push.pace = pace
    push.appearance = loading
    push.opening.parent = parent.map { Array($0.utf8) }
    push.opening.owner = owner
    return try nav(stack) { try $0.pushPage($1, push, by: client(1), at: now) }
  }

  @discardableResult
  func swipe(_ stack: String, timeout: Int64? = nil) throws -> Reason? {
    try nav(stack) {
      try $0.swipe($1, x: 5, dx: 1, timeout: timeout.map { .milliseconds($0) }, at: now)
    }
  }

  @discardableResult
  func pop(
    _ stack: String, _ pace: NavigationStack.Pace = .atOnce
  ) throws -> Reason? {
    try nav(stack) { try $0.popPage($1, pace, generation: nil, at: now) }
  }

  @discardableResult
  func finish(_ stack: String) throws -> Reason? {
    try nav(stack) { try $0.finishTransition($1, generation: nil, at: now) }
  }

  @discardableResult
  func cancelTransition(_ stack: String) throws -> Reason? {
    try nav(stack) { try $0.cancelTransition($1, generation: nil, at: now) }
  }

  func nav(
    _ stack: String, _ body: (Engine, Span<UInt8>) throws -> Engine.StackAnswer
  ) rethrows -> Reason? {
    try with(stack) { try body(engine, $0).refusal }
  }

  func dismissed(_ stack: String) throws {
    _ = try with(stack) { try engine.dismissStack($0, generation: nil, at: now) }
  }

  /// Pushes the first page of a stack, and returns the stack's generation.
  func pushed(_ stack: String, owner: Owner) throws -> Generation {
    try push(stack, "page of \(stack)", owner: owner)
    return self.stack(stack)!.generation
  }

  func stack(_ key: String) -> StackView? { with(key) { engine.stack($0, at: now) } }
}
