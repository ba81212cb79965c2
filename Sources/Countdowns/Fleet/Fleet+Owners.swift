/// Owners of shared entities: connections, each of one host.
///
/// The fleet's number of an owner has the number of its host and that of the connection. A host has
/// a lease in each partition where its connections own something, or run a gate's action. It renews
/// it with each heartbeat, by the server's clock. When the lease is over, other hosts end what
/// belongs to this one; the server checks that it is over.
///
/// A host whose own lease is over, as it paused or did not reach the servers, or is lost with the
/// records, closes connections that owned something, and takes another number. So an owner and what
/// it owns end together.
extension Fleet {
  /// Returns the fleet's number of a connection of this host.
  func ownerNumber(of connection: UInt64) -> UInt64 {
    UInt64(hostNumber) << 32 | connection & 0xffff_ffff
  }

  /// Returns all numbers that a connection has or had in the fleet, the current one first.
  package func ownerNumbers(of connection: UInt64) -> [UInt64] {
    let former = formerNumbers.map { UInt64($0) << 32 | connection & 0xffff_ffff }
    return [ownerNumber(of: connection)] + former
  }

  static func host(of owner: UInt64) -> UInt32 { UInt32(owner >> 32) }

  /// Returns whether an owner can be there, as far as this host knows.
  func isThere(_ owner: UInt64, in partition: Int) -> Bool {
    let host = Self.host(of: owner)
    if host == hostNumber {
      return dispatcher.engine.connections.isAlive(connection: owner & 0xffff_ffff)
    }
    return !formerNumbers.contains(host) && !partitions[partition].over.contains(host)
  }

  /// Ends what a closed connection owns, and lets other connections run the actions that it ran.
  func ownerCloses(_ connection: UInt64) {
    guard let keys = owned[ownerNumber(of: connection)] else { return }
    for key in keys { look(at: key, at: boot) }
  }

  /// Notes who owns a copy now.
  ///
  /// - Parameter before: the owners of the copy that it replaces.
  func noteOwners(of key: FleetKey, before: [UInt64], in index: Int) {
    let owners = dispatcher.engine.connections(of: key)
    guard !owners.isEmpty || !before.isEmpty else { return }
    for owner in before {
      owned[owner]?.remove(key)
      if owned[owner]?.isEmpty == true { owned[owner] = nil }
      // Perhaps another host has found this host's lease over.
      if Self.host(of: owner) == hostNumber { partitions[index].losses[owner] = boot }
    }
    partitions[index].copies[key]?.owners = owners
    for owner in owners {
      owned[owner, default: []].insert(key)
      guard !isThere(owner, in: index) else { continue }
      look(at: key, at: boot)
      // The change was on its way when the lease was lost.
      if formerNumbers.contains(Self.host(of: owner)) { close(owner) }
    }
  }

  // MARK: Leases

  private func close(_ owner: UInt64) { dispatcher.host.close(owner & 0xffff_ffff, .leaseOver) }

  /// Takes the leases that a server reports.
  ///
  /// - Parameter sent: when it was asked.
  func take(_ leases: FleetLeases, of index: Int, asked sent: Int64) {
    let new = leases.over.subtracting(partitions[index].over)
    partitions[index].over = leases.over
    if new.contains(hostNumber) { loseLease() }
    if !partitions[index].losses.isEmpty {
      partitions[index].losses = partitions[index].losses.filter { $0.value >= sent }
    }
    if let next = leases.next { heartbeatDue = min(heartbeatDue, boot + next) }
    guard !new.isEmpty else { return }
    // Not all hosts at once.
    let due = boot + Int64(daemon % UInt64(Self.grace))
    for (owner, keys) in owned where new.contains(Self.host(of: owner)) {
      for key in keys where partition(of: key) == index { look(at: key, at: due) }
    }
  }

  /// Gives up all that the connections of this host own, and the number of this host.
  func loseLease() {
    let lost = owned.filter { Self.host(of: $0.key) == hostNumber }
    let owners = Set(lost.keys).union(partitions.flatMap(\.losses.keys))
    formerNumbers.insert(hostNumber)
    // Another random number, as the first one was.
    hostNumber &+= 0x9E37_79B9
    for partition in partitions { (partition.hasLease, partition.losses) = (false, [:]) }
    statistics.leasesLost += 1
    dispatcher.host.note(.fleet(.leaseOver(owners: owners.count)))
    for owner in owners { close(owner) }
    for key in lost.values.joined() { look(at: key, at: boot) }
  }
}

/// The leases of hosts in a partition, as its server reports them.
package struct FleetLeases: Equatable, Sendable {
  /// How long a lease is valid after it was renewed, in microseconds.
  package static let length: Int64 = 4_500_000
  /// Leases are not over sooner than `length` after nobody has opened the partition for so long.
  package static let gap: Int64 = 1_500_000
  /// How long a server remembers leases that are over.
  package static let memory: Int64 = 86_400_000_000

  /// The hosts whose lease is over.
  package var over: Set<UInt32> = []
  /// When the next lease of another host is over if it is not renewed, in microseconds from then.
  package var next: Int64?
  /// Whether the host that asks is the partition's keeper.
  package var isKeeper = false
  /// How long a loss of records matters, as far as keepers have known, on the server's clock.
  package var blockedUntil: Int64 = 0

  package init() {}
}

extension Engine {
  /// Runs what is due for an entity, and ends it if its owner is closed.
  package func runDue(_ key: FleetKey, at now: Moment) {
    guard let kind = key.kind.shared, let index = store(of: key.kind).find(key.key.span)
    else { return }
    _ = kind.runDue(index, in: self, at: now)
  }

  /// Returns the connections that own an entity, or run its action.
  package func connections(of key: FleetKey) -> [UInt64] {
    let store = store(of: key.kind)
    var found: [UInt64] = []
    guard let index = store.find(key.key.span) else { return found }
    store.forEachOwner(index) { if case .connection(let owner) = $0 { found.append(owner) } }
    return found
  }
}
