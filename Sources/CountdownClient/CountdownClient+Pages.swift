/// Pages and what they have to show. Every call throws `CountdownClientError`.
extension CountdownClient {
  /// The page is on the screen: the first time a load begins that is to be seen, later a silent
  /// refresh.
  ///
  /// - Parameters:
  ///   - refreshes: whether returns look for what is new; as it was unless given, like the rest.
  ///   - timeout: a load that takes longer has failed; zero: it may take for ever.
  ///   - screen: where the HUD is shown meanwhile; the page's name unless ever given.
  ///   - grace: how long a load may take without the HUD.
  ///   - minimum: how long the HUD stays once it is shown.
  @discardableResult
  public func appear(
    _ page: String, refreshes: Bool? = nil, timeout: Duration? = nil, screen: String? = nil,
    grace: Duration? = nil, minimum: Duration? = nil, owner: Owner? = nil
  ) async throws -> PageView {
    var command = CommandBuilder("PAGE", "APPEAR", page)
    command.option("REFRESH", refreshes.map { $0 ? "always" : "never" })
    command.option("TIMEOUT", timeout)
    command.option("SCREEN", screen)
    command.option("GRACE", grace)
    command.option("MIN", minimum)
    command.option("OWNER", owner?.text)
    return try await view(command) { try PageView($0) }
  }

  /// The page is not on the screen any more. What it loads goes on.
  @discardableResult
  public func disappear(_ page: String) async throws -> PageView {
    try await view(CommandBuilder("PAGE", "DISAPPEAR", page)) { try PageView($0) }
  }

  /// What the page asked for has come; no items are the no-data view.
  ///
  /// - Parameter generation: of the load; a later one is not touched then (`STALE`).
  @discardableResult
  public func loaded(
    _ page: String, items: Int? = nil, generation: Int? = nil
  ) async throws -> PageView {
    var command = CommandBuilder("PAGE", "LOADED", page)
    command.option("ITEMS", items)
    command.option("GENERATION", generation)
    return try await view(command) { try PageView($0) }
  }

  /// What the page asked for does not come.
  @discardableResult
  public func failed(
    _ page: String, message: String? = nil, generation: Int? = nil
  ) async throws -> PageView {
    var command = CommandBuilder("PAGE", "FAILED", page)
    command.option("MESSAGE", message)
    command.option("GENERATION", generation)
    return try await view(command) { try PageView($0) }
  }

  /// The error page is tapped: it loads again.
  @discardableResult
  public func retry(_ page: String, generation: Int? = nil) async throws -> PageView {
    var command = CommandBuilder("PAGE", "RETRY", page)
    command.option("GENERATION", generation)
    return try await view(command) { try PageView($0) }
  }

  /// Forgets it. Returns whether there was one.
  @discardableResult
  public func closePage(_ page: String, generation: Int? = nil) async throws -> Bool {
    var command = CommandBuilder("PAGE", "CLOSE", page)
    command.option("GENERATION", generation)
    return try await flag(command)
  }

  /// How it stands; nil if it never appeared.
  public func page(_ page: String) async throws -> PageView? {
    try await viewIfAny(CommandBuilder("PAGE", "GET", page)) { try PageView($0) }
  }
}

/// How a page stands.
public struct PageView: Sendable, Hashable {
  public enum State: String, Sendable, Hashable {
    case unknown, loading, refreshing, content, empty, error
  }

  public let key: String
  public let state: State
  /// New with each load.
  public let generation: Int
  /// In replies to what can be refused: whether it was done, and why not (`not-loading`,
  /// `not-failed`).
  public let accepted: Bool?
  public let reason: String?
  /// Whether its load is to be seen.
  public let isAnimated: Bool
  public let isVisible: Bool
  public let items: Int?
  /// Why the last load failed.
  public let message: String?
  public let screen: String?
  /// Until the load has failed.
  public let remainingTime: Duration?
  public let owner: String?

  /// Reads a view from a reply or an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` without `key` and a known `state`.
  public init(_ fields: JSONValue) throws(CountdownClientError) {
    key = try fields.text("key")
    state = try fields.state()
    generation = fields["generation"]?.int ?? 0
    accepted = fields["accepted"]?.bool
    reason = fields["reason"]?.string
    isAnimated = fields["animated"]?.bool ?? false
    isVisible = fields["visible"]?.bool ?? false
    items = fields["items"]?.int
    message = fields["message"]?.string ?? fields["message_base64"]?.string
    screen = fields["screen"]?.string ?? fields["screen_base64"]?.string
    remainingTime = fields.milliseconds("remaining_ms")
    owner = fields["owner"]?.string
  }
}
