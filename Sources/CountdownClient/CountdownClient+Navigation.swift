/// Navigation stacks. Every call throws `CountdownClientError`.
extension CountdownClient {
  public enum Bar: String, Sendable, Hashable { case shown, hidden }

  /// Pushes a page, which is a scope of that name; the first one makes the stack.
  ///
  /// - Parameters:
  ///   - edge: how far from the edge a swipe back may begin, in points; nil: anywhere.
  ///   - canBeSwipedAway: whether a swipe back may begin at all.
  ///   - parent: the scope above; as that of the page below unless given, and so is `owner`.
  @discardableResult
  public func pushPage(
    _ page: String, on stack: String, edge: Double? = nil, canBeSwipedAway: Bool = true,
    bar: Bar = .shown, parent: String? = nil, owner: Owner? = nil
  ) async throws -> NavigationView {
    var command = CommandBuilder("NAV", "PUSH", stack, page)
    command.option("EDGE", edge.map { "\($0)" })
    if !canBeSwipedAway { command.option("POP", "off") }
    if bar != .shown { command.option("BAR", bar.rawValue) }
    command.option("PARENT", parent)
    command.option("OWNER", owner?.text)
    return try await view(command) { try NavigationView($0) }
  }

  /// Pops the page on top; what it owns is cancelled.
  @discardableResult
  public func popPage(of stack: String, generation: Int? = nil) async throws -> NavigationView {
    try await navigation("POP", stack, generation)
  }

  /// Pops all pages but the first.
  @discardableResult
  public func popToRoot(of stack: String, generation: Int? = nil) async throws -> NavigationView {
    try await navigation("ROOT", stack, generation)
  }

  /// Takes the whole stack down. Returns whether there was one.
  @discardableResult
  public func dismissStack(_ stack: String, generation: Int? = nil) async throws -> Bool {
    var command = CommandBuilder("NAV", "DISMISS", stack)
    command.option("GENERATION", generation)
    return try await flag(command)
  }

  /// May a swipe back begin? If it is accepted, it has; its generation finishes or cancels it.
  ///
  /// - Parameters:
  ///   - x: where it begins, in points from the edge.
  ///   - dx: how far it has moved; to the right is back.
  ///   - timeout: cancelled unless something is heard of it for so long.
  public func beginSwipe(
    on stack: String, x: Double, dx: Double, timeout: Duration? = nil
  ) async throws -> NavigationView {
    var command = CommandBuilder("NAV", "SWIPE", stack, "X", "\(x)", "DX", "\(dx)")
    command.option("TIMEOUT", timeout)
    return try await view(command) { try NavigationView($0) }
  }

  /// Tells how far the swipe is, from 0 to 1.
  @discardableResult
  public func progressSwipe(
    on stack: String, fraction: Double, generation: Int? = nil
  ) async throws -> NavigationView {
    var command = CommandBuilder("NAV", "PROGRESS", stack, "\(fraction)")
    command.option("GENERATION", generation)
    return try await view(command) { try NavigationView($0) }
  }

  /// The swipe went through: the page on top is gone.
  @discardableResult
  public func finishSwipe(on stack: String, generation: Int? = nil) async throws -> NavigationView {
    try await navigation("FINISH", stack, generation)
  }

  /// The swipe is taken back: the page on top stays as it was.
  @discardableResult
  public func cancelSwipe(on stack: String, generation: Int? = nil) async throws -> NavigationView {
    try await navigation("CANCEL", stack, generation)
  }

  /// How it stands; nil when there is none.
  public func stack(_ stack: String) async throws -> NavigationView? {
    try await viewIfAny(CommandBuilder("NAV", "GET", stack)) { try NavigationView($0) }
  }

  private func navigation(
    _ word: String, _ stack: String, _ generation: Int?
  ) async throws -> NavigationView {
    var command = CommandBuilder("NAV", word, stack)
    command.option("GENERATION", generation)
    return try await view(command) { try NavigationView($0) }
  }
}

/// How a navigation stack stands.
public struct NavigationView: Sendable, Hashable {
  public enum State: String, Sendable, Hashable { case settled, transitioning, empty }

  /// Why something was not done.
  public enum Reason: String, Sendable, Hashable {
    case transitioning, root, disabled, direction
    case outsideEdge = "outside-edge"
    case notTransitioning = "not-transitioning"
  }

  public let key: String
  public let state: State
  /// New with each swipe that begins.
  public let generation: Int
  /// In replies to what can be refused.
  public let accepted: Bool?
  public let reason: Reason?
  /// The page on top; in events the one that it is about.
  public let page: String?
  /// From the root up; not said in most events.
  public let pages: [String]
  public let bar: String?
  /// How far a swipe is.
  public let fraction: Double?
  /// Until the swipe is cancelled, unless something is heard of it.
  public let remainingTime: Duration?

  /// Reads a view from a reply or an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` without `key` and a known `state`.
  public init(_ fields: JSONValue) throws(CountdownClientError) {
    key = try fields.text("key")
    state = try fields.state()
    generation = fields["generation"]?.int ?? 0
    accepted = fields["accepted"]?.bool
    reason = fields["reason"]?.string.flatMap { Reason(rawValue: $0) }
    page = fields["page"]?.string ?? fields["page_base64"]?.string
    if case .array(let all)? = fields["pages"] ?? fields["pages_base64"] {
      pages = all.compactMap(\.string)
    } else {
      pages = []
    }
    bar = fields["bar"]?.string
    fraction = fields["fraction"]?.double
    remainingTime = fields.milliseconds("remaining_ms")
  }
}
