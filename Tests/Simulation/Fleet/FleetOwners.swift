import Countdowns

/// Checks what connections own in a fleet: it ends once its owner is closed, or the lease of the
/// owner's host is over, and not before.
struct FleetOwners {
  private let simulation: FleetSimulation
  private let specification: FleetSpecification
  /// The writes that no failover has lost.
  let kept: Set<Int>
  private var world: FleetWorld { simulation.world }

  init(_ simulation: FleetSimulation, _ specification: FleetSpecification) {
    self.simulation = simulation
    self.specification = specification
    kept = Set(simulation.world.shards.flatMap { $0.primary.log.map(\.id) })
  }

  /// Returns the numbers that the connection of a command may have had in the fleet, each with the
  /// owners that may be there when it runs.
  ///
  /// - Parameter mayEnd: whether the owner of the record may be taken for gone.
  func possible(
    _ command: ClientCommand, mayEnd: Bool
  ) -> [(number: UInt64, isThere: (UInt64) -> Bool)] {
    let daemon = simulation.allDaemons[Int(command.daemon) - 1]
    return daemon.fleet.ownerNumbers(of: command.connection).flatMap { number in
      // Whoever asks is there.
      [(number, { _ in true })] + (mayEnd ? [(number, { $0 == number })] : [])
    }
  }

  /// Returns whether a change may take the owner of its record for gone.
  func mayBeGone(_ execution: Execution) -> Bool {
    mayBeGone(
      execution.key, execution.before?.bytes, by: execution.at,
      isLost: !kept.contains(execution.write))
  }

  /// Returns whether an owner of a record may be taken for gone at some time.
  ///
  /// - Parameter isLost: whether a failover has lost that, so that its host never learned of it.
  func mayBeGone(
    _ key: FleetKey, _ record: [UInt8]?, by time: Int64, isLost: Bool = false
  ) -> Bool {
    specification.owners(of: key, record).contains { owner in
      let end = end(of: owner)
      if end <= time { return true }
      // The lease may have been over before the host knew; but then the connection is closed.
      guard end < .max || isLost else { return false }
      let trouble = world.settings.trouble
      if trouble.clocks || trouble.flushes { return true }
      let partition = simulation.allDaemons[0].fleet.partition(of: key)
      let renewal = world.journal.lastRenewal(
        of: UInt32(owner >> 32), in: partition, before: time)
      return renewal.map { time > $0 + FleetLeases.length } ?? true
    }
  }

  /// Checks that nothing outlives its owner for longer than 5 s, or than 5 s after the end of the
  /// last daemon that may have been about to end it.
  func check(_ key: FleetKey) -> String? {
    for owner in specification.owners(of: key, world.record(key)?.bytes) where end(of: owner) < .max
    {
      return "is there in the end, though its owner is not: \(name(of: owner))"
    }
    let trouble = world.settings.trouble
    guard !trouble.connections, !trouble.stops, !trouble.failovers, !trouble.clocks,
      !trouble.flushes, !trouble.delays, !trouble.absences
    else { return nil }
    for segment in world.journal.segments[key] ?? [] {
      for owner in specification.owners(of: key, segment.record?.bytes) {
        let end = end(of: owner)
        guard end < .max else { continue }
        // Its host ends what a closed connection owned, unless it ends first.
        let ended = host(of: owner)!.daemon.endedAt
        let limit = end + 500_000 < ended ? end + 500_000 : lastTakeOver(from: ended)
        guard segment.until > max(limit, segment.from + 500_000) else { continue }
        return "outlives its owner by \(segment.until - end) µs: \(name(of: owner))"
      }
    }
    return nil
  }

  /// Returns when what belonged to a daemon that ended must be gone.
  ///
  /// Where hosts hold only what they use, the keeper ends it, once the lease is over. If the keeper
  /// ends first, the next one has to wait until the keeper's lease is over, too.
  private func lastTakeOver(from ended: Int64) -> Int64 {
    simulation.allDaemons.filter { $0.fleet.settings.mirror == .used }.map(\.endedAt).sorted()
      .reduce(ended + 5_000_000) { limit, other in
        (ended...limit).contains(other) ? other + 5_000_000 : limit
      }
  }

  /// Returns when an owner was closed, or its daemon ended; the greatest number if neither was.
  private func end(of owner: UInt64) -> Int64 {
    guard let (daemon, connection) = host(of: owner) else { return .max }
    return min(daemon.closed[connection] ?? .max, daemon.endedAt)
  }

  private func host(of owner: UInt64) -> (daemon: ModelDaemon, connection: UInt64)? {
    let connection = owner & 0xffff_ffff
    return simulation.allDaemons.first {
      $0.fleet.ownerNumbers(of: connection).contains(owner)
    }.map { ($0, connection) }
  }

  private func name(of owner: UInt64) -> String {
    host(of: owner).map { "connection \($0.connection) of daemon \($0.daemon.number)" }
      ?? "nobody, \(owner)"
  }
}
