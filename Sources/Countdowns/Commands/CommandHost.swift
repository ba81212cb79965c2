import Wire

/// What commands need from the server that runs the connections.
package protocol CommandHost: AnyObject {
  /// The time, on both clocks.
  var now: Moment { get }
  /// The clock that times commands, in microseconds. The dispatcher gets it once.
  var stopwatch: () -> Int64 { get }
  /// The settings in force, by their full names.
  var configuration: [(name: String, value: String)] { get }
  /// Returns what only the host knows of a section of INFO; it comes first.
  ///
  /// - Parameter forAdmin: whether to show what servers of a fleet have answered.
  func figures(_ section: InfoSection, forAdmin: Bool) -> [Figure]
  /// The limits that the host looks after.
  var limits: HostLimits { get }
  /// Returns what only the connection itself knows, for CLIENT LIST.
  func transport(of connection: UInt64) -> TransportFacts
  /// Closes a connection.
  func close(_ connection: UInt64, _ reason: CloseReason)
  /// Reloads the configuration, and reports the outcome, on the event loop.
  func reload(_ done: @escaping (ReloadOutcome) -> Void)
  /// Sets the log level until the next reload. Returns false if there is no such level.
  func setLogLevel(_ level: String) -> Bool
  /// Begins a copy of the state for one connection. Returns the copy's id.
  func beginBackup(for connection: UInt64) throws(StateError) -> Int64
  /// Returns the size of a copy in bytes; nil while the copy is being made.
  func backupSize(_ id: Int64, of connection: UInt64) throws(StateError) -> Int64?
  /// Returns up to `count` bytes of a copy; none at its end.
  func readBackup(
    _ id: Int64, of connection: UInt64, at offset: Int64, count: Int
  ) throws(StateError) -> [UInt8]
  /// Removes a copy.
  func endBackup(_ id: Int64, of connection: UInt64) throws(StateError)
  /// Removes the copy of a connection, if it has one.
  func endBackup(of connection: UInt64)
  /// Returns a part of the journal.
  func readJournal(at position: Int64, count: Int) throws(StateError) -> JournalPart
  /// Forgets what was found damaged. Returns how many findings there were.
  func acknowledgeDamage(for client: Client) throws(StateError) -> Int
  /// The store's clock is this many microseconds ahead of the boot clock.
  var storeOffset: Int64 { get }
  /// Removes an entity from the store that is not in the engine.
  func forgetStored(_ kind: EntityKind, at slot: UInt32)
  /// Ends the daemon, as SIGTERM does.
  func shutDown()
  /// Restarts the daemon, with virtual time later by `pause`, in the same boot of the machine or in
  /// the next one. The new start answers the connection with its time. Returns false if it cannot.
  func restart(
    after pause: Interval, inNextBoot isReboot: Bool, answering connection: UInt64
  ) -> Bool
  /// Logs what administrators should know.
  func note(_ notice: HostNotice)
  /// Stores what this host knows of its fleet, for its next daemon.
  func keep(_ memory: FleetMemory)
  /// The virtual clock; nil if time is real.
  var virtualClock: VirtualClock? { get }
}

extension CommandHost {
  package func note(_ notice: HostNotice) {}
  package var storeOffset: Int64 { 0 }
  package func forgetStored(_ kind: EntityKind, at slot: UInt32) {}
  package func keep(_ memory: FleetMemory) {}
  package func readJournal(at position: Int64, count: Int) throws(StateError) -> JournalPart {
    throw StateError("ERR there is no journal; set journal.size in the configuration")
  }
  package func acknowledgeDamage(for client: Client) throws(StateError) -> Int { 0 }
}

/// What a host logs.
package enum HostNotice: Equatable, Sendable {
  /// A client was refused something because of a limit.
  case limitReached(String, Int, by: Client, key: [UInt8]?)
  /// A client was let change an entity that another user has made.
  case foreignChange(ForeignChange, by: Client)
  /// A client has ended the entities of a kind whose keys match a pattern.
  case cleared(Int, EntityKind, matching: [UInt8], by: Client)
  case engine(EngineNotice)
  case fleet(FleetNotice)
}

package enum FleetNotice: Equatable, Sendable {
  /// The servers have lost records. Changes are refused until `refusedUntil`, in microseconds since
  /// 1970.
  case lost(partition: Int, refusedUntil: Int64)
  /// A server that has taken over lacks changes that this host knows of. `confirmed` were accepted.
  case behind(partition: Int, entries: Int64, confirmed: Int64)
  /// Records of a partition cannot be read.
  case unreadable(partition: Int, count: Int, first: FleetKey)
  /// A server's clock was set forward, or is further ahead than the clock of the server before.
  case clockAhead(partition: Int)
  /// Another host of the fleet has other policies.
  case policiesDiffer
  /// The lease of this host was over, so that its connections lost what they owned.
  case leaseOver(owners: Int)
  /// A server does not open a partition.
  case closed(partition: Int, FleetClosure)
  /// An administrator has begun partitions.
  case begun(FleetBeginning, partitions: Int, by: Client)
}

/// The limits that the host looks after, and what it has refused.
package struct HostLimits {
  package var connections = ConnectionLimits()
  /// Connections that were refused, by access.connect and by limits.
  package var refusedByRules = 0
  package var refused: [String: Int] = [:]
  package var residentBytes = 0

  package init() {}
}

/// The socket of a connection.
package struct TransportFacts: Sendable {
  package var descriptor: Int32
  /// The path of the socket that the daemon listens on.
  package var path: String
  /// Received bytes that were not executed yet, and those of the command being executed.
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
  /// The connection or its user has too much unread output.
  case outputLimit(String)
  /// The lease of this host in the fleet was over, and with it what the connection owned.
  case leaseOver

  package var description: String {
    switch self {
    case .killed: "CLIENT KILL"
    case .outputLimit(let text): text
    case .leaseOver: "the lease of this host in the fleet was over"
    }
  }
}

/// The outcome of reloading the configuration.
package enum ReloadOutcome: Equatable, Sendable {
  /// The new settings apply. Those in `kept` have changed, too, but need a restart.
  case taken(changed: [ChangedSetting], kept: [String])
  /// Nothing has changed. Each problem is reported with its place.
  case refused([String])
}

/// A changed setting. A value is nil where there is no such setting, as with a new policy.
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

/// The clock of virtual time, which is frozen and moves on command.
package final class VirtualClock {
  package private(set) var now: Moment
  /// The clock of stored times is so far ahead of the boot clock.
  private let ahead: Interval

  package init(_ start: Moment, ahead: Interval = .zero) {
    now = start
    self.ahead = ahead
  }

  /// How far time can advance: no clock, and no stored one, passes `Instant.end`.
  var left: Interval {
    max(Instant.end - max(now.wall, now.boot, now.boot + ahead), .zero)
  }

  /// Advances both clocks.
  package func advance(by microseconds: Int64) {
    now.boot.microseconds += microseconds
    now.wall.microseconds += microseconds
  }

  /// Sets the wall clock, as an administrator does.
  package func setWall(_ wall: Instant) { now.wall = wall }
}

package enum InfoSection: String, CaseIterable, Sendable {
  case server, clients, memory, cpu, stats, timers, lateness, persistence, systemd, commandstats
  case users, fleet
}
