/// The part of a fleet that runs in this daemon.
package final class Fleet {
  package let settings: FleetSettings
  let link: any FleetLink
  unowned let dispatcher: Dispatcher

  /// - Parameter daemon: a number that no other daemon of the fleet has.
  package init(
    _ settings: FleetSettings, daemon: UInt64, dispatcher: Dispatcher, link: any FleetLink
  ) {
    self.settings = settings
    self.link = link
    self.dispatcher = dispatcher
  }

  // MARK: What the driver calls

  /// When `advance` should next be called, on the boot clock.
  package var nextWake: Int64? { nil }
  /// Does what is due: commands whose time has run out, and heartbeats. `Dispatcher.advance` calls
  /// it.
  package func advance(to boot: Int64) {}
  /// A batch ends: what it has to ask the servers is sent.
  package func flush() {}

  // MARK: What the link calls

  /// The server of these partitions can be reached: they are opened, followed and loaded.
  package func connected(_ partitions: [Int], at boot: Int64) {}
  package func disconnected(_ partitions: [Int]) {}
  package func receive(_ answer: FleetAnswer, to id: UInt64, at boot: Int64) {}
  /// Entries of a partition's stream, in their order.
  package func receive(_ entries: [FleetEntry], of partition: Int) {}
  package func load(_ records: [(FleetKey, FleetRecord)], of partition: Int) {}
  package func endLoading(_ partition: Int) {}
}
