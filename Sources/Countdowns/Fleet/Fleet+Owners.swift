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
struct FleetOwners {
  /// The number of this host in those of owners.
  private(set) var host: UInt32
  /// Numbers that this host has had, whose lease was over.
  private(set) var former: Set<UInt32> = []
  /// What each owner owns, or runs an action of.
  private(set) var owned: [UInt64: Set<FleetKey>] = [:]
  /// The operation that is being decided: its partition, who asks, and the other hosts that it
  /// takes for gone.
  fileprivate var deciding: (partition: Int, asker: UInt64?, gone: Set<UInt32>) = (0, nil, [])

  init(_ host: UInt32) { self.host = host }

  static func host(of owner: UInt64) -> UInt32 { UInt32(owner >> 32) }

  func number(of connection: UInt64) -> UInt64 { Self.number(of: connection, on: host) }

  fileprivate static func number(of connection: UInt64, on host: UInt32) -> UInt64 {
    UInt64(host) << 32 | connection & 0xffff_ffff
  }

  /// Whether an owner is a connection of this host, and of its current number.
  func isHere(_ owner: UInt64) -> Bool { Self.host(of: owner) == host }
  /// Whether an owner was a connection of this host before a lease was over.
  func wasHere(_ owner: UInt64) -> Bool { former.contains(Self.host(of: owner)) }

  fileprivate mutating func add(_ key: FleetKey, of owner: UInt64) {
    owned[owner, default: []].insert(key)
  }

  fileprivate mutating func remove(_ key: FleetKey, of owner: UInt64) {
    owned[owner]?.remove(key)
    if owned[owner]?.isEmpty == true { owned[owner] = nil }
  }

  mutating func decide(in partition: Int, for asker: UInt64?) {
    deciding = (partition, asker.map(number), [])
  }

  /// The other hosts that were taken for gone.
  var gone: Set<UInt32> { deciding.gone }

  fileprivate mutating func takeAnotherNumber() {
    former.insert(host)
    // Another random number, as the first one was.
    host &+= 0x9E37_79B9
  }
}

/// What is known of leases in a partition.
struct PartitionLeases {
  /// Whether this host has one, to be renewed.
  fileprivate(set) var isHeld = false
  /// The hosts whose lease is over.
  fileprivate(set) var over: Set<UInt32> = []
  /// When owners of this host lost something here, on the boot clock, until the server says that
  /// the lease was not over then.
  fileprivate(set) var losses: [UInt64: Int64] = [:]
}

extension Fleet {
  /// Returns the fleet's number of a connection of this host.
  func ownerNumber(of connection: UInt64) -> UInt64 { owners.number(of: connection) }

  /// Returns all numbers that a connection has or had in the fleet, the current one first.
  package func ownerNumbers(of connection: UInt64) -> [UInt64] {
    [owners.number(of: connection)]
      + owners.former.map { FleetOwners.number(of: connection, on: $0) }
  }

  /// Returns whether an owner can be there, as far as this host knows.
  private func isThere(_ owner: UInt64, in partition: Int) -> Bool {
    if owners.isHere(owner) {
      return dispatcher.engine.connections.isAlive(connection: owner & 0xffff_ffff)
    }
    return !owners.wasHere(owner)
      && !partitions[partition].leases.over.contains(FleetOwners.host(of: owner))
  }

  /// Returns whether an owner is there, for the operation that is being decided.
  func isThereForDecision(_ owner: UInt64) -> Bool {
    // If the asker's connection is closed meanwhile, its command runs as if it was closed later.
    if owner == owners.deciding.asker || isThere(owner, in: owners.deciding.partition) {
      return true
    }
    // The server checks the leases of other hosts.
    if !owners.isHere(owner), !owners.wasHere(owner) {
      owners.deciding.gone.insert(FleetOwners.host(of: owner))
    }
    return false
  }

  /// Ends what a closed connection owns, and lets other connections run the actions that it ran.
  func ownerCloses(_ connection: UInt64) {
    guard let keys = owners.owned[owners.number(of: connection)] else { return }
    for key in keys { look(at: key, at: boot) }
  }

  /// Notes who owns a copy now.
  ///
  /// - Parameter before: the owners of the copy that it replaces.
  func noteOwners(of key: FleetKey, before: [UInt64], in index: Int) {
    let after = dispatcher.engine.connections(of: key)
    guard !after.isEmpty || !before.isEmpty else { return }
    for owner in before {
      owners.remove(key, of: owner)
      // Perhaps another host has found this host's lease over.
      if owners.isHere(owner) { partitions[index].leases.losses[owner] = boot }
    }
    partitions[index].copies[key]?.owners = after
    for owner in after {
      owners.add(key, of: owner)
      guard !isThere(owner, in: index) else { continue }
      look(at: key, at: boot)
      // The change was on its way when the lease was lost.
      if owners.wasHere(owner) { close(owner) }
    }
  }

  // MARK: Leases

  private func close(_ owner: UInt64) { dispatcher.host.close(owner & 0xffff_ffff, .leaseOver) }

  /// Returns the number of this host if an entity with these owners needs its lease.
  func lease(of after: [UInt64], in index: Int) -> UInt32? {
    guard after.contains(where: owners.isHere) else { return nil }
    partitions[index].leases.isHeld = true
    return owners.host
  }

  /// Notes why a change was not made: the lease of this host is over, or else that of another one
  /// is not.
  func noteLease(isOver: Bool, of operation: FleetOperation) {
    guard isOver else {
      return partitions[operation.partition].leases.over.subtract(operation.outcome.gone)
    }
    if operation.change?.lease == owners.host { loseLease() }
  }

  /// Takes the leases that a server reports.
  ///
  /// - Parameter sent: when it was asked.
  func take(_ leases: FleetLeases, of index: Int, asked sent: Int64) {
    let new = leases.over.subtracting(partitions[index].leases.over)
    partitions[index].leases.over = leases.over
    if new.contains(owners.host) { loseLease() }
    if !partitions[index].leases.losses.isEmpty {
      partitions[index].leases.losses = partitions[index].leases.losses.filter { $0.value >= sent }
    }
    if let next = leases.next { times.beat(noLaterThan: boot + next) }
    guard !new.isEmpty else { return }
    // Not all hosts at once.
    let due = boot + Int64(daemon % UInt64(Self.grace))
    for (owner, keys) in owners.owned where new.contains(FleetOwners.host(of: owner)) {
      for key in keys where partition(of: key) == index { look(at: key, at: due) }
    }
  }

  /// Gives up all that the connections of this host own, and the number of this host.
  func loseLease() {
    let lost = owners.owned.filter { owners.isHere($0.key) }
    let closing = Set(lost.keys).union(partitions.flatMap(\.leases.losses.keys))
    owners.takeAnotherNumber()
    for partition in partitions {
      (partition.leases.isHeld, partition.leases.losses) = (false, [:])
    }
    statistics.leasesLost += 1
    dispatcher.host.note(.fleet(.leaseOver(owners: closing.count)))
    for owner in closing { close(owner) }
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
