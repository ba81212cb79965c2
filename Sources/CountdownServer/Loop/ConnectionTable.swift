import Countdowns

/// The open connections, by descriptor.
final class ConnectionTable {
  private var all: [Connection?] = []
  private(set) var count = 0
  /// How many were refused since the start, by the rules and by the limit.
  var refusedByRules = 0
  var refusedAtLimit = [
    "descriptors": 0, "max-connections": 0, "max-connections-per-uid": 0,
  ]
  var rejected: Int { refusedByRules + refusedAtLimit.values.reduce(0, +) }
  private var lastID: UInt64 = 0

  /// Returns the ID for a new connection: one more than the last.
  func nextID() -> UInt64 {
    lastID += 1
    return lastID
  }

  func insert(_ connection: Connection) {
    let index = Int(connection.descriptor)
    while all.count <= index { all.append(nil) }
    all[index] = connection
    count += 1
  }

  func remove(_ connection: Connection) {
    all[Int(connection.descriptor)] = nil
    count -= 1
  }

  /// Returns the connection of a session; nil if it is closed.
  func connection(of session: Session) -> Connection? {
    let index = Int(session.descriptor)
    guard let found = all[index], found.session === session else { return nil }
    return found
  }

  var open: [Connection] { all.compactMap(\.self) }
}
