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

  /// Descriptors that the daemon itself needs: for its state, its journal, a fleet and backups.
  private static let descriptorsOfDaemon = 128

  package init() {}

  /// Returns how many descriptors the connections lack in a process that may have `most` open.
  package func missingDescriptors(of maximum: Int) -> Int {
    max(all + reserved + Self.descriptorsOfDaemon - maximum, 0)
  }

  /// Returns how many connections of all users have a descriptor in a process that may have `most`
  /// open.
  package func fitting(_ maximum: Int) -> Int {
    min(all, max(maximum - reserved - min(Self.descriptorsOfDaemon, maximum / 2), 1))
  }

  /// Says that there are too few descriptors, and what to do; nil if there are enough.
  package func problem(of maximum: Int) -> String? {
    guard missingDescriptors(of: maximum) > 0 else { return nil }
    return
      "limits.max-connections is \(all), but there is room for \(fitting(maximum)), as the service "
      + "may open \(maximum) files: raise LimitNOFILE= (or `ulimit -Hn`) to "
      + "\(maximum + missingDescriptors(of: maximum)), or lower the limit"
  }
}
