/// What commands ask of the server that runs the connections.
package protocol CommandHost: AnyObject {
  /// The time, on both clocks.
  var now: Moment { get }
  /// For timing commands, in microseconds. Asked for once.
  var stopwatch: () -> Int64 { get }
  /// The settings in force, by their full names.
  var configuration: [(name: String, value: String)] { get }
  /// Lines of a section of INFO that only the host knows; they come first.
  func facts(_ section: InfoSection) -> [(name: String, value: String)]
  /// What METRICS reports that only the host knows.
  var metrics: HostMetrics { get }
  /// What only the connection itself knows, for CLIENT LIST.
  func transport(of connection: UInt64) -> TransportFacts
  /// Ends a connection.
  func close(_ connection: UInt64, _ reason: CloseReason)
  /// A client was refused what is beyond a limit.
  func limitReached(_ name: String, _ value: Int, by client: Client, key: [UInt8]?)
  /// Reloads the configuration, and reports the outcome, on the event loop.
  func reload(_ done: @escaping (ReloadOutcome) -> Void)
  /// Sets the log level until the next reload; false for a word that is no level.
  func setLogLevel(_ level: String) -> Bool
  /// Begins a copy of what is kept, for that connection alone; the copy's id.
  func beginBackup(for connection: UInt64) throws(BackupError) -> Int64
  /// In bytes; nil while the copy is being made.
  func backupSize(_ id: Int64, of connection: UInt64) throws(BackupError) -> Int64?
  /// Up to so many bytes of the copy; none at its end.
  func readBackup(
    _ id: Int64, of connection: UInt64, at offset: Int64, count: Int
  ) throws(BackupError) -> [UInt8]
  /// Removes the copy.
  func endBackup(_ id: Int64, of connection: UInt64) throws(BackupError)
  /// Removes the copy of that connection, if it has one.
  func endBackup(of connection: UInt64)
  /// Ends the daemon, as SIGTERM does.
  func shutDown()
  /// Starts the daemon again, with virtual time that much later, in the next boot of the machine or
  /// in the same; false if it cannot.
  func restart(after pause: Interval, inNextBoot isReboot: Bool) -> Bool
  /// Something has happened to the fleet that somebody should know.
  func note(_ notice: FleetNotice)
  /// Nil unless time is virtual and moves on command.
  var virtualClock: VirtualClock? { get }
}

extension CommandHost {
  package func note(_ notice: FleetNotice) {}
}

package enum FleetNotice: Equatable, Sendable {
  /// The servers have lost what they had. Changes are refused until then, in microseconds since
  /// 1970.
  case lost(partition: Int, refusedUntil: Int64)
  /// A server's clock was set forward, or is further ahead than that of the server before it.
  case clockAhead(partition: Int)
  /// Another host of the fleet has other policies.
  case policiesDiffer
}

/// What METRICS reports of the host. Durations and sizes are zero where nothing is stored.
package struct HostMetrics {
  package var rejectedConnections = 0
  package var commits = DurationStatistics()
  package var stateBytes = 0

  package init() {}
}

/// The socket of a connection.
package struct TransportFacts: Sendable {
  package var descriptor: Int32
  /// Where the daemon listens.
  package var path: String
  /// Bytes that have come and are not a whole command yet.
  package var unreadInput: Int

  package init(descriptor: Int32, path: String, unreadInput: Int) {
    self.descriptor = descriptor
    self.path = path
    self.unreadInput = unreadInput
  }
}

/// Why the daemon ends a connection, in words for the log.
package enum CloseReason: Equatable, Sendable {
  case killed
  /// It, or its user, has not read too much of what it was sent.
  case outputLimit(String)

  package var description: String {
    switch self {
    case .killed: "CLIENT KILL"
    case .outputLimit(let text): text
    }
  }
}

/// The outcome of reloading the configuration.
package enum ReloadOutcome: Equatable, Sendable {
  /// It counts from now on; `kept` has changed too, but takes a restart.
  case taken(changed: [ChangedSetting], kept: [String])
  /// Nothing has changed; each problem with its place.
  case refused([String])
}

/// Nil where there is no such setting, as with a policy that is new.
package struct ChangedSetting: Equatable, Sendable {
  package var name: String
  package var old: String?
  package var new: String?

  package init(name: String, old: String?, new: String?) {
    self.name = name
    self.old = old
    self.new = new
  }
}

/// Virtual time: it is frozen, and moves on command.
package final class VirtualClock {
  /// The last moment of the year 9999 on the wall clock: virtual time does not pass it.
  static let end = Instant(microseconds: 253_402_300_799_999_999)

  package private(set) var now: Moment
  package init(_ start: Moment) { now = start }

  /// Both clocks move together.
  package func advance(by microseconds: Int64) {
    now.boot.microseconds += microseconds
    now.wall.microseconds += microseconds
  }

  /// Somebody sets the clock on the wall.
  package func setWall(_ wall: Instant) { now.wall = wall }
}

package enum InfoSection: String, CaseIterable, Sendable {
  case server, clients, memory, cpu, stats, timers, lateness, persistence, systemd, commandstats
  case users, fleet
}
