import TimerWheel

struct HUDEntity: KeyedEntity {
  let key: [UInt8]
  /// What is shown on each level, by rising level; never empty.
  var presentations: [(level: Level, machine: Presentation)]
  /// Connections that hold or held a lease of it, or show what is shown.
  var owners: Set<Owner>
  let uid: UInt32
  var alarm: TimerWheel.Token?

  /// Of what is shown in front.
  var owner: Owner { presentations.last!.machine.owner }
  var generation: Generation { presentations.last!.machine.generation }

  var nextExpiry: Instant? { presentations.compactMap(\.machine.nextExpiry).min() }

  /// Whether anything of it outlives the daemon.
  var isDurable: Bool { presentations.contains { $0.machine.request.isDurable } }

  func isDurable(on level: Level) -> Bool {
    index(of: level).map { presentations[$0].machine.request.isDurable } == true
  }

  func index(of level: Level?) -> Int? {
    guard let level else { return presentations.indices.last }
    return presentations.firstIndex { $0.level == level }
  }

  /// The level of a generation: what is in front of it does not hide it from who shows it.
  func level(of generation: Generation) -> Level? {
    presentations.first { $0.machine.generation == generation }?.level
  }

  /// The front level with a lease that `owner` may give back: its own, else nobody's, else any.
  func level(leasedBy owner: Owner) -> Level? {
    func front(where holds: (Leases) -> Bool) -> Level? {
      presentations.last { holds($0.machine.leases) }?.level
    }
    return front { $0.owners.contains(owner) } ?? front { $0.owners.contains(.none) }
      ?? front { !$0.isEmpty }
  }
}
