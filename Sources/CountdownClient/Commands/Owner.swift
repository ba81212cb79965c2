import Wire

/// The owner of an entity: the daemon cancels the entity when its owner ends.
public enum Owner: Sendable, Hashable {
  /// The entity outlives the connection and, if its kind is persisted, restarts of the daemon.
  case nobody
  /// This client's connection for commands.
  case connection
  /// The scope of that name.
  case scope(String)

  var text: String {
    switch self {
    case .nobody: "none"
    case .connection: "connection"
    case .scope(let scope): "scope:\(scope)"
    }
  }

  /// The `OWNER` option of a command; nil for `nobody`, the default.
  var option: Owner? { self == .nobody ? nil : self }
}

/// One page of a list.
public struct Page<Element: EntityView>: Sendable {
  /// The cursor of the next page; `0` after the last one.
  public let cursor: String
  /// The entities on this page. Even a page before the last one may be empty.
  public let elements: [Element]

  /// Whether no page follows.
  public var isLast: Bool { cursor == "0" }

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
  package var page: (cursor: String, elements: [RESPValue]) {
    get throws(CountdownClientError) {
      guard let parts = elements, parts.count == 2, let elements = parts[1].elements,
        let cursor = parts[0].string ?? parts[0].int.map({ String($0) })
      else { throw CountdownClientError.protocolViolation("a reply that is not a page of a list") }
      return (cursor, elements)
    }
  }
}
