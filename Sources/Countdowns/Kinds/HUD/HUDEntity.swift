import TimerWheel

struct HUDEntity: KeyedEntity {
  let key: [UInt8]
  /// The presentation of each level, by rising level; never empty.
  var presentations: [(level: Level, machine: Presentation)]
  /// Connections that have or had a hold, or that own a presentation.
  var owners: Set<Owner>
  let uid: UInt32
  var alarm: TimerWheel.Token?

  /// Of the front presentation.
  var owner: Owner { presentations.last!.machine.owner }
  var generation: Generation { presentations.last!.machine.generation }

  var nextExpiry: Instant? { presentations.compactMap(\.machine.nextExpiry).min() }

  /// Whether anything of it survives restarts.
  var isDurable: Bool { presentations.contains { $0.machine.request.isDurable } }

  func isDurable(on level: Level) -> Bool {
    index(of: level).map { presentations[$0].machine.request.isDurable } == true
  }

  func index(of level: Level?) -> Int? {
    guard let level else { return presentations.indices.last }
    return presentations.firstIndex { $0.level == level }
  }

  /// The level of a generation, whatever covers it.
  func level(of generation: Generation) -> Level? {
    presentations.first { $0.machine.generation == generation }?.level
  }

  /// The front level with a hold that `owner` may release: its own, else one without an owner, else
  /// any.
  func level(leasedBy owner: Owner) -> Level? {
    func front(where holds: (Leases) -> Bool) -> Level? {
      presentations.last { holds($0.machine.leases) }?.level
    }
    return front { $0.owners.contains(owner) } ?? front { $0.owners.contains(.none) }
      ?? front { !$0.isEmpty }
  }
}
