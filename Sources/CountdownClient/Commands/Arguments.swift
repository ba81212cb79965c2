import Wire

/// The owner of an entity: the daemon cancels the entity when its owner ends.
public enum Owner: Sendable, Hashable {
  /// The entity outlives the connection and, if its kind is stored, restarts of the daemon.
  case nobody
  /// This client's connection for commands.
  case connection
  /// The connection with this number, in views and lists.
  case connectionNumber(Int)
  /// The scope of that name.
  case scope(String)

  init?(_ text: String) {
    switch text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false) {
    case ["none"]: self = .nobody
    case let parts where parts.count == 2 && parts[0] == "scope": self = .scope(String(parts[1]))
    case let parts where parts.count == 2 && parts[0] == "connection":
      guard let number = Int(parts[1]) else { return nil }
      self = .connectionNumber(number)
    default: return nil
    }
  }
}

extension Owner: CommandWord, CustomStringConvertible {
  /// The owner as the protocol writes it, such as `scope:checkout`.
  public var description: String {
    switch self {
    case .nobody: "none"
    case .connection: "connection"
    case .connectionNumber(let number): "connection:\(number)"
    case .scope(let scope): "scope:\(scope)"
    }
  }

  package var bytes: [UInt8] { description.bytes }
}

/// How much of a rate limit comes back in each period.
public struct Rate: Sendable, Hashable, CommandWord {
  public let count: Int
  public let period: Duration

  public init(_ count: Int, per period: Duration) {
    self.count = count
    self.period = period
  }

  package var bytes: [UInt8] { "\(count)/\(period.millisecondsRoundedUp)ms".bytes }
}

/// The duration of a transition of a navigation stack.
public enum TransitionDuration: Sendable, Hashable, CommandWord {
  case lasting(Duration)
  /// Until `finish` or `cancel` is called.
  case untilFinished

  package var bytes: [UInt8] {
    switch self {
    case .lasting(let duration): duration.bytes
    case .untilFinished: "finish".bytes
    }
  }
}

/// One page of a list.
public struct Page<Element: EntityView>: Sendable {
  /// The cursor of the next page; 0 after the last one.
  public let cursor: Int
  /// The entities on this page. Even a page before the last one may be empty.
  public let elements: [Element]

  /// Whether no page follows.
  public var isLast: Bool { cursor == 0 }

  /// Reads the reply to a `LIST` command.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` for a reply of another shape.
  public init(_ reply: RESPValue) throws(CountdownClientError) {
    let (cursor, views) = try reply.page
    self.cursor = cursor
    var elements: [Element] = []
    for view in views { elements.append(try Element(view)) }
    self.elements = elements
  }
}

extension RESPValue {
  /// The parts of a reply to a `LIST` command.
  package var page: (cursor: Int, elements: [RESPValue]) {
    get throws(CountdownClientError) {
      guard let parts = elements, parts.count == 2, let elements = parts[1].elements,
        let cursor = parts[0].int
      else { throw CountdownClientError.protocolViolation("a reply that is not a page of a list") }
      return (cursor, elements)
    }
  }
}
