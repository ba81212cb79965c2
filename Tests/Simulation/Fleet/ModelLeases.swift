import Countdowns

/// The leases of hosts in a partition, as the scripts of the servers keep them.
package struct ModelLeases: Equatable {
  private var ends: [UInt32: Int64] = [:]
  private var openedAt: Int64 = 0
  private var quiet: Int64 = 0

  package init() {}

  private func end(_ host: UInt32) -> Int64? {
    ends[host].map { max($0, quiet + FleetLeases.length) }
  }

  /// What `open` does.
  package mutating func open(_ host: UInt32?, at now: Int64) -> FleetLeases {
    var found = FleetLeases()
    guard !ends.isEmpty || host != nil else { return found }
    if now - openedAt > FleetLeases.gap { quiet = now }
    openedAt = now
    if let host, end(host).map({ now <= $0 }) ?? true { ends[host] = now + FleetLeases.length }
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

  /// What `change` does first. Returns its answer if it does no more than that.
  package mutating func change(
    _ host: UInt32?, gone: UInt32?, at now: Int64
  ) -> FleetAnswer.Body? {
    if let host, let end = end(host), now > end { return .lease(isOver: true) }
    if let gone, now <= end(gone) ?? (quiet + FleetLeases.length) { return .lease(isOver: false) }
    if let host {
      if openedAt == 0 { openedAt = now }
      ends[host] = now + FleetLeases.length
    }
    return nil
  }
}
