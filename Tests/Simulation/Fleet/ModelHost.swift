import Countdowns

/// The host of a dispatcher without connections: it only has a clock.
final class ModelHost: CommandHost {
  private let time: () -> Moment
  /// The connections to close at the end of the batch.
  var closing: [UInt64] = []
  /// What it stores of the fleet.
  private(set) var memory: FleetMemory?

  init(_ time: @escaping () -> Moment) { self.time = time }

  var now: Moment { time() }
  var stopwatch: () -> Int64 { { 0 } }
  var configuration: [(name: String, value: String)] { [] }
  func figures(_ section: InfoSection, forAdmin: Bool) -> [Figure] { [] }
  var limits: HostLimits { HostLimits() }
  func transport(of connection: UInt64) -> TransportFacts {
    TransportFacts(descriptor: 0, path: "", unreadInput: 0)
  }
  func close(_ connection: UInt64, _ reason: CloseReason) { closing.append(connection) }
  func keep(_ memory: FleetMemory) { self.memory = memory }
  func reload(_ done: @escaping (ReloadOutcome) -> Void) {}
  func setLogLevel(_ level: String) -> Bool { false }
  func shutDown() {}
  func restart(
    after pause: Interval, inNextBoot isReboot: Bool, answering connection: UInt64
  ) -> Bool { false }
  func beginBackup(for connection: UInt64) throws(StateError) -> Int64 { 0 }
  func backupSize(_ id: Int64, of connection: UInt64) throws(StateError) -> Int64? { nil }
  func readBackup(
    _ id: Int64, of connection: UInt64, at offset: Int64, count: Int
  ) throws(StateError) -> [UInt8] { [] }
  func endBackup(_ id: Int64, of connection: UInt64) throws(StateError) {}
  func endBackup(of connection: UInt64) {}
  var virtualClock: VirtualClock? { nil }
}
