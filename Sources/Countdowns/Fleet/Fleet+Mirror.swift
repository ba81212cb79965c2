/// What this host has of the shared records: its mirror.
///
/// With `mirror: all` it has copies of all. With `mirror: used` it keeps some partitions whole, as
/// their keeper, and holds the copies that its clients use of the others:
///
///     absent ── a command, or a subscription ─► held ── a minute without use ─► absent
///
/// All copies follow their partition's stream. So what is held is what has a copy, and nothing has
/// to be remembered about the rest.
///
/// A partition's keeper does the due work of records whose writer has let go of them, or has ended.
/// It is chosen by a lease, which hosts ask for with their heartbeats. Two keepers at once do no
/// harm: due work is a change like any other, made once.
package struct FleetMirror {
  /// For how long a copy is held after its last use, in microseconds; at most for twice as long.
  package var useLength: Int64 = 60_000_000
  /// With `mirror: used`, until when copies are held at least, on the boot clock.
  fileprivate var uses: [FleetKey: Int64] = [:]
  /// Keys that are read for a command, and for how many.
  fileprivate var fetched: [FleetKey: Int] = [:]
  /// How many partitions this host is the keeper of.
  fileprivate var keptCount = 0
  private(set) var heartbeats = 0
  /// How many keepers this heartbeat has asked for their lease.
  fileprivate var relieving = 0
  /// Whether this host gives back what it keeps.
  fileprivate var isEnding = false

  mutating func beginHeartbeat() { (heartbeats, relieving) = (heartbeats + 1, 0) }
}

extension Fleet {
  /// In how many heartbeats a host asks each partition's keeper once for its lease.
  private static let turnsOfKeepers = 16

  /// Whether this host has copies of all records of a partition.
  package func isWhole(_ index: Int) -> Bool { settings.mirror == .all || partitions[index].isKept }

  /// Whether this host knows what it says about a key without asking the servers.
  func isMirrored(_ key: FleetKey, in index: Int) -> Bool {
    isWhole(index) || partitions[index].copies[key] != nil
  }

  /// Whether a record that comes from the stream, or is loaded, is kept.
  func wants(_ key: FleetKey, in index: Int) -> Bool {
    isMirrored(key, in: index) || isAwaited(key)
  }

  private func isAwaited(_ key: FleetKey) -> Bool {
    lanes[key] != nil || mirror.fetched[key] != nil
      || dispatcher.engine.subscriptions.hasSubscribers(key.kind, key.key.span)
  }

  /// Whether a connection of this host owns an entity: it ends with the connection.
  private func isOwnedHere(_ copy: FleetCopy) -> Bool {
    copy.owners.contains { owners.isHere($0) || owners.wasHere($0) }
  }

  // MARK: Use

  /// Holds a copy for a while from now on.
  func use(_ key: FleetKey, in index: Int) {
    guard !isWhole(index), partitions[index].copies[key] != nil else { return }
    if mirror.uses.updateValue(boot + mirror.useLength, forKey: key) == nil { letGoLater(key) }
  }

  private func letGoLater(_ key: FleetKey) {
    times.add(.chore(.letGo(key)), at: boot + mirror.useLength)
  }

  /// Lets go of a copy, unless somebody has used it meanwhile.
  func letGoIfUnused(_ key: FleetKey) {
    guard let end = mirror.uses[key], end > boot else {
      mirror.uses[key] = nil
      return letGo(key)
    }
    letGoLater(key)
  }

  /// Lets go of a copy of a partition that this host has kept.
  func release(_ key: FleetKey) {
    if mirror.uses[key] == nil { letGo(key) }
  }

  private func letGo(_ key: FleetKey) {
    let index = partition(of: key)
    guard !isWhole(index), let copy = partitions[index].copies[key] else { return }
    if isAwaited(key) || isOwnedHere(copy) { return use(key, in: index) }
    setCopy(key, nil, number: 0, of: index, at: dispatcher.host.now)
  }

  // MARK: Keeping

  /// What a heartbeat says about the keeper of a partition.
  func keeping(_ index: Int) -> FleetKeeping {
    var keeping = FleetKeeping(host: daemon, blockedUntil: partitions[index].epoch.blockedUntil)
    guard !mirror.isEnding else { return keeping }
    guard settings.mirror == .used else {
      // It has all copies anyway, so it relieves hosts that need not have them.
      (keeping.load, keeping.relieves) = (0, true)
      return keeping
    }
    keeping.load = mirror.keptCount + 1
    let turns = min(Self.turnsOfKeepers, partitions.count)
    guard !partitions[index].isKept, (index + mirror.heartbeats) % turns == 0 else {
      return keeping
    }
    // As if the other requests of this heartbeat had moved a partition each.
    keeping.load! += 2 * mirror.relieving
    keeping.relieves = true
    mirror.relieving += 1
    return keeping
  }

  /// Takes what a server reports of a partition's keeper. Returns whether it is this host now, and
  /// was not before.
  func take(_ keeper: FleetLeases, asKeeperOf index: Int) -> Bool {
    let partition = partitions[index]
    partition.epoch.noteBlock(until: keeper.blockedUntil)
    guard keeper.isKeeper != partition.isKept else { return false }
    partition.isKept = keeper.isKeeper
    mirror.keptCount += keeper.isKeeper ? 1 : -1
    guard settings.mirror == .used, !mirror.isEnding else { return false }
    if !keeper.isKeeper {
      for key in partition.copies.keys { times.add(.release(key)) }
      times.add(.returnMemory(of: partition))
    }
    return keeper.isKeeper
  }

  /// Loads what this host should have of a partition.
  func beginLoading(_ index: Int) {
    partitions[index].loading.begin()
    guard !isWhole(index) else { return requests.link.load(index, only: nil) }
    var keys = Set(partitions[index].copies.keys)
    let awaited = dispatcher.engine.subscriptions.channels(of: kinds).map { FleetKey($0, $1) }
    for key in awaited + mirror.fetched.keys + lanes.keys where partition(of: key) == index {
      keys.insert(key)
    }
    if keys.isEmpty { endLoading(index) } else { requests.link.load(index, only: Array(keys)) }
  }

  /// Gives back what this host keeps: then others need not wait for the end of its leases.
  package func end() {
    mirror.isEnding = true
    for (index, partition) in partitions.enumerated()
    where partition.isKept && partition.health.isConnected { open(index) }
    flush()
  }

  // MARK: Fetching

  /// Returns the keys of channels whose records this host does not hold; nil if there are none.
  func keysToFetch(for channels: [[UInt8]]) -> Set<FleetKey>? {
    let keys = Set(
      channels.compactMap { channel -> FleetKey? in
        guard let (kind, key) = Subscriptions.parse(channel), kinds.contains(kind) else {
          return nil
        }
        let found = FleetKey(kind, key)
        let index = partition(of: found)
        // Until the partition is opened, nothing is known. Then a loading begins, with what
        // somebody is subscribed to by then, and subscribers receive snapshots.
        let isKnown = partitions[index].loading.hasCopies || partitions[index].loading.isUnderWay
        return isMirrored(found, in: index) || !isKnown ? nil : found
      })
    return keys.isEmpty ? nil : keys
  }

  /// Reads the records of keys, and calls `done` then.
  func fetch(_ keys: Set<FleetKey>, done: @escaping (_ problem: [UInt8]?) -> Void = { _ in }) {
    let fetch = FleetFetch(keys, done)
    for key in keys { mirror.fetched[key, default: 0] += 1 }
    for key in keys { begin(.fetch(fetch), about: key) }
  }

  /// Notes that one of the records was read, or why not.
  func finish(_ fetch: FleetFetch, _ reply: [UInt8]) {
    fetch.left -= 1
    if !reply.isEmpty { fetch.problem = reply }
    guard fetch.left == 0 else { return }
    fetch.done(fetch.problem)
    for key in fetch.keys {
      mirror.fetched[key]! -= 1
      if mirror.fetched[key] == 0 { mirror.fetched[key] = nil }
    }
  }
}

/// Records that are read before a command can run.
final class FleetFetch {
  let keys: Set<FleetKey>
  fileprivate var left: Int
  /// An error reply.
  fileprivate var problem: [UInt8]?
  fileprivate let done: (_ problem: [UInt8]?) -> Void

  init(_ keys: Set<FleetKey>, _ done: @escaping (_ problem: [UInt8]?) -> Void) {
    (self.keys, left, self.done) = (keys, keys.count, done)
  }
}

/// What a host asks about the lease of a partition's keeper.
package struct FleetKeeping: Equatable, Sendable {
  /// How long a lease is valid after it was renewed, in microseconds.
  package static let length: Int64 = 3_000_000

  package var host: UInt64
  /// How many partitions it keeps, and one more; 0 if it has all of them anyway; nil if it gives
  /// back the lease.
  package var load: Int?
  /// Whether it takes the lease from a keeper that has more to keep.
  package var relieves = false
  /// How long a loss of records matters, as far as the host knows, on the server's clock.
  package var blockedUntil: Int64

  package init(host: UInt64, blockedUntil: Int64) {
    (self.host, self.blockedUntil) = (host, blockedUntil)
  }
}
