/// The limits of one request, in bytes except for `arguments`.
package struct RESPLimits: Equatable, Sendable {
  package var bulkLength: Int
  package var inlineLength: Int
  package var arguments: Int
  /// The most bytes of all arguments of a request together.
  package var requestLength: Int

  package init(
    bulkLength: Int = 256 << 10, inlineLength: Int = 64 << 10, arguments: Int = 16_384,
    requestLength: Int = 1 << 20
  ) {
    self.bulkLength = bulkLength
    self.inlineLength = inlineLength
    self.arguments = arguments
    self.requestLength = requestLength
  }
}

/// Why bytes are not a valid request. Later bytes cannot be decoded either.
package struct RESPProtocolError: Error, Equatable, CustomStringConvertible {
  package let description: String
}

/// The limits of connections.
package struct ConnectionLimits: Equatable, Sendable {
  /// Connections of all users.
  package var all = 20_000
  /// Connections of one user.
  package var perUser = 10_000
  /// Connections beyond both for those who manage the daemon.
  package var reserved = 8
  /// Commands of one connection in a round before other connections continue.
  package var commandsPerTurn = 128

  package init() {}
}
