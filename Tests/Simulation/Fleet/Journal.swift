import Countdowns

/// A change that a server has made.
struct Execution {
  let key: FleetKey
  let partition: Int
  let number: Int64
  /// The ID of the write in the server's log.
  let write: Int
  /// The true time, in microseconds.
  let at: Int64
  /// The time on the server's clock, in microseconds.
  let clock: Int64
  let before: FleetRecord?
  let change: FleetChange

  /// The time at which it was decided, by the server's clock.
  var decided: Int64 { change.earliest }
}

/// All that the servers did, recorded by an observer who sees them all at once.
final class Journal {
  /// A record of a server, and the time in which the server had it.
  struct Segment {
    let server: ModelServer
    let from: Int64
    var until = Int64.max
    let record: FleetRecord?
  }

  unowned var world: FleetWorld!
  private(set) var executions: [FleetKey: [Execution]] = [:]
  private(set) var segments: [FleetKey: [Segment]] = [:]
  /// When servers renewed the leases of hosts in a partition, in order.
  private var renewals: [Int: [UInt32: [Int64]]] = [:]

  func note(_ execution: Execution, on server: ModelServer) {
    executions[execution.key, default: []].append(execution)
  }

  func noteRenewal(of host: UInt32, in partition: Int) {
    renewals[partition, default: [:]][host, default: []].append(world.agenda.now)
  }

  /// Returns when the lease of a host was last renewed before some time.
  func lastRenewal(of host: UInt32, in partition: Int, before time: Int64) -> Int64? {
    renewals[partition]?[host]?.last { $0 < time }
  }

  /// The partition of each key.
  private var partitions: [FleetKey: Int] = [:]

  func observe(
    _ server: ModelServer, _ key: FleetKey, in partition: Int, _ record: FleetRecord?
  ) {
    if partitions.updateValue(partition, forKey: key) == nil {
      // Other servers of the shard do not have the key yet.
      let others = world.shards[world.shardIndex(of: partition)].servers
      for other in others where other !== server && other.isServing {
        observe(other, key, in: partition, nil)
      }
    }
    close(server, key)
    segments[key, default: []].append(
      Segment(server: server, from: world.agenda.now, record: record))
  }

  /// Notes that a server answers from now on, with the records it has.
  func begin(_ server: ModelServer) {
    for (key, partition) in partitions {
      let servers = world.shards[world.shardIndex(of: partition)].servers
      guard servers.contains(where: { $0 === server }) else { continue }
      observe(server, key, in: partition, server.partitions[partition]?.records[key])
    }
  }

  func end(_ server: ModelServer) { for key in segments.keys { close(server, key) } }

  private func close(_ server: ModelServer, _ key: FleetKey) {
    guard let index = segments[key]?.lastIndex(where: { $0.server === server }),
      segments[key]![index].until == .max
    else { return }
    segments[key]![index].until = world.agenda.now
  }

  /// Returns the records of a key that servers had between two times; nil where a server had none.
  func records(_ key: FleetKey, from: Int64, until: Int64) -> [FleetRecord?] {
    var found: [FleetRecord?] = []
    let all = segments[key] ?? []
    if all.first.map({ $0.from >= from }) ?? true { found.append(nil) }
    for segment in all where segment.from <= until && segment.until >= from {
      if !found.contains(where: { $0?.version == segment.record?.version }) {
        found.append(segment.record)
      }
    }
    return found
  }
}
