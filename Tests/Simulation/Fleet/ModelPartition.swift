import Countdowns

/// A server's data of a partition, and what the scripts do with it.
package struct ModelPartition {
  /// What a script writes.
  package enum Effect {
    case opened(ModelEpoch)
    case leased(ModelLeases)
    case changed(FleetEntry)
  }

  /// Nil if the server has lost everything, or the fleet was never begun.
  package var epoch: ModelEpoch?
  package var leases: ModelLeases
  package var records: [FleetKey: FleetRecord] = [:]
  package var stream: [FleetEntry] = []

  package init(_ epoch: ModelEpoch? = nil, leases: ModelLeases = ModelLeases()) {
    (self.epoch, self.leases) = (epoch, leases)
  }

  private func entry(_ number: Int64) -> FleetEntry? { stream.last { $0.number == number } }

  /// Returns what a script answers at a time on the server's clock, and what it writes.
  package func answer(
    _ request: FleetRequest, at time: Int64, ignoresVersions: Bool = false
  ) -> (body: FleetAnswer.Body, effects: [Effect]) {
    switch request {
    case .read(let key): return (.record(records[key]), [])
    case .entries(let after, let through, let count):
      let found = stream.filter { $0.number > after && $0.number <= through }
      return (.entries(Array(found.prefix(count))), [])
    case .open(let opening):
      guard let epoch = ModelEpoch.open(epoch, opening, at: time) else {
        return (.closed(.unknown), [])
      }
      var leases = leases
      let found = leases.open(opening.lease, opening.keeping, at: time)
      let body = FleetAnswer.Body.opened(
        epoch: epoch.id, number: epoch.number, refusedUntil: epoch.refusedUntil,
        atPosition: entry(opening.position)?.version, newest: entry(epoch.number)?.version,
        leases: found)
      return (
        body,
        (epoch == self.epoch ? [] : [.opened(epoch)])
          + (leases == self.leases ? [] : [.leased(leases)])
      )
    case .change(let key, let change):
      guard let epoch, epoch.id == change.epoch, time >= epoch.refusedUntil else {
        return (.epoch, [])
      }
      guard records[key]?.version == change.expected || ignoresVersions else {
        return (.differs(records[key]), [])
      }
      guard change.earliest <= time, time <= change.latest else { return (.clock, []) }
      var leases = leases
      if let answer = leases.change(change.lease, gone: change.gone, at: time) {
        return (answer, [])
      }
      var entry = FleetEntry(
        number: epoch.number + 1, key: key, version: change.version, record: change.record,
        events: change.events)
      entry.time = time
      return (
        .changed(number: entry.number, problem: nil),
        (leases == self.leases ? [] : [.leased(leases)]) + [.changed(entry)]
      )
    }
  }

  package mutating func apply(_ effect: Effect) {
    switch effect {
    case .opened(let epoch): self.epoch = epoch
    case .leased(let leases): self.leases = leases
    case .changed(let entry):
      epoch?.number = entry.number
      records[entry.key] = entry.record.map { FleetRecord(entry.version, $0) }
      stream.append(entry)
    }
  }
}
