import Wire

/// Who a countdown, HUD, timer, guard or scope belongs to.
public enum Owner: Sendable, Hashable {
  /// Nobody: it outlives the connection.
  case none
  /// The connection for commands: what it owns is cancelled when that ends.
  case connection
  /// The scope of that name: what it owns is cancelled when that closes.
  case scope(String)

  var text: String {
    switch self {
    case .none: "none"
    case .connection: "connection"
    case .scope(let scope): "scope:\(scope)"
    }
  }
}

/// One page of a list.
public struct Page<Element: Sendable>: Sendable {
  /// Where the next page begins; `0` after the last one.
  public let cursor: String
  /// Can be few or none before the last page.
  public let elements: [Element]

  /// Whether there is nothing after this page.
  public var isLast: Bool { cursor == "0" }
}

/// The words of a command, options only where they are given.
struct CommandBuilder {
  private(set) var words: [[UInt8]]

  init(_ words: String...) {
    self.words = words.map { Array($0.utf8) }
  }

  mutating func argument(_ value: [UInt8]) { words.append(value) }

  mutating func option(_ name: String, _ value: String?) {
    guard let value else { return }
    words += [Array(name.utf8), Array(value.utf8)]
  }

  mutating func option(_ name: String, _ value: [UInt8]?) {
    guard let value else { return }
    words += [Array(name.utf8), value]
  }

  mutating func option(_ name: String, _ value: Int?) {
    option(name, value.map { String($0) })
  }

  mutating func option(_ name: String, _ value: Duration?) {
    option(name, value.map { $0.wireText })
  }

  mutating func owner(_ owner: Owner) {
    if owner != .none { option("OWNER", owner.text) }
  }

  mutating func flag(_ name: String, _ isSet: Bool) {
    if isSet { words.append(Array(name.utf8)) }
  }
}

extension Duration {
  /// Whole milliseconds, rounded up: a daemon that is never early should not be asked to be.
  var wireText: String {
    let (seconds, attoseconds) = components
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    guard !overflow else { return String(seconds < 0 ? Int64.min : Int64.max) }
    let perMillisecond: Int64 = 1_000_000_000_000_000
    let part = attoseconds / perMillisecond + (attoseconds % perMillisecond > 0 ? 1 : 0)
    let (sum, sumOverflow) = whole.addingReportingOverflow(part)
    return String(sumOverflow ? (seconds < 0 ? Int64.min : Int64.max) : sum)
  }
}

extension CountdownClient {
  /// Sends a command whose reply is a view.
  func view<View>(
    _ command: CommandBuilder, _ read: (JSONValue) throws -> View
  ) async throws -> View {
    try read(JSONValue(try await send(bytes: command.words)))
  }

  /// Sends a command whose reply is a view or null.
  func viewIfAny<View>(
    _ command: CommandBuilder, _ read: (JSONValue) throws -> View
  ) async throws -> View? {
    let reply = try await send(bytes: command.words)
    return reply.isNull ? nil : try read(JSONValue(reply))
  }

  /// Sends a command whose reply is 1 or 0.
  func flag(_ command: CommandBuilder) async throws -> Bool {
    guard let flag = try await send(bytes: command.words).bool else {
      throw CountdownClientError.protocolViolation("neither 1 nor 0")
    }
    return flag
  }

  func page<View>(
    _ family: String, cursor: String, matching: String?, owner: String?, limit: Int?,
    _ read: (JSONValue) throws -> View
  ) async throws -> Page<View> {
    var command = CommandBuilder(family, "LIST")
    command.option("MATCH", matching)
    command.option("OWNER", owner)
    if cursor != "0" { command.option("CURSOR", cursor) }
    command.option("LIMIT", limit)
    let reply = try await send(bytes: command.words)
    guard let parts = reply.elements, parts.count == 2, let views = parts[1].elements,
      let next = parts[0].string ?? parts[0].int.map({ String($0) })
    else { throw CountdownClientError.protocolViolation("a page of another shape") }
    return Page(cursor: next, elements: try views.map { try read(JSONValue($0)) })
  }
}
