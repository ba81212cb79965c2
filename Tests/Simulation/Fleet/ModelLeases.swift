import Countdowns

/// The leases of hosts in a partition, as the scripts of the servers keep them.
package struct ModelLeases: Equatable {
  private let length: Int64
  private var ends: [UInt32: Int64] = [:]
  private var openedAt: Int64 = 0
  private var quiet: Int64 = 0
  private var keeper: UInt64?
  private var keeperUntil: Int64 = 0
  private var keeperLoad = 0
  private var blockedUntil: Int64 = 0

  /// - Parameter length: how long a lease is valid after it was renewed, in microseconds.
  package init(length: Int64 = FleetLeases.length) { self.length = length }

  private func end(_ host: UInt32) -> Int64? {
    ends[host].map { $0 < 0 ? -$0 : max($0, quiet + length) }
  }

  /// What `open` does.
  package mutating func open(
    _ host: UInt32?, _ keeping: FleetKeeping?, at now: Int64
  ) -> FleetLeases {
    var found = FleetLeases()
    if let keeping { found.isKeeper = keep(keeping, at: now) }
    found.blockedUntil = blockedUntil
    guard !ends.isEmpty || host != nil else { return found }
    if now - openedAt > FleetLeases.gap { quiet = now }
    openedAt = now
    if let host, end(host).map({ now <= $0 }) ?? true { ends[host] = now + length }
    for other in ends.keys {
      let end = end(other)!
      if now > end {
        found.over.insert(other)
      } else if other != host {
        found.next = min(found.next ?? .max, end - now + 1)
      }
    }
    return found
  }

  private mutating func keep(_ keeping: FleetKeeping, at now: Int64) -> Bool {
    guard let load = keeping.load else {
      if keeper == keeping.host { keeperUntil = 0 }
      return false
    }
    guard keeper != nil || load > 0,
      keeper == keeping.host || now > keeperUntil || keeping.relieves && load + 1 < keeperLoad
    else { return false }
    (keeper, keeperLoad) = (keeping.host, load)
    keeperUntil = now + FleetKeeping.length
    blockedUntil = max(blockedUntil, keeping.blockedUntil)
    return true
  }

  /// What `change` does first. Returns its answer if it does no more than that.
  package mutating func change(
    _ host: UInt32?, gone: UInt32?, at now: Int64
  ) -> FleetAnswer.Body? {
    if let host, let end = end(host), now > end { return .lease(isOver: true) }
    if let gone {
      if now <= end(gone) ?? (quiet + length) { return .lease(isOver: false) }
      // However long nobody opens the partition, it stays over.
      ends[gone] = 1 - now
    }
    if let host {
      if openedAt == 0 { openedAt = now }
      ends[host] = now + length
    }
    return nil
  }
}
