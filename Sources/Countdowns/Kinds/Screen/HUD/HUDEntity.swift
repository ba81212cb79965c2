import TimerWheel

package struct HUDEntity: KeyedEntity {
  let key: [UInt8]
  /// The presentations, one per level in use, lowest level first; never empty.
  var presentations: [(level: Level, machine: Presentation)]
  /// The owners of holds and presentations, and the pages that had a hold.
  var owners: Set<Owner>
  var uid: UInt32
  var alarm: TimerWheel.Token?

  /// The owner of the front presentation.
  var owner: Owner { presentations.last!.machine.shown.owner }
  package var generation: Generation { presentations.last!.machine.generation }

  func forEachOwner(_ body: (Owner) -> Void) { owners.forEach(body) }

  var nextExpiry: Instant? { presentations.compactMap(\.machine.nextExpiry).min() }

  /// Whether any presentation survives restarts.
  var isDurable: Bool { presentations.contains { $0.machine.isDurable } }

  /// The owners of holds, and of what is dismissed but still there.
  var holders: Set<Owner> {
    presentations.reduce(into: []) { holders, presentation in
      for show in presentation.machine.shows { holders.insert(show.owner) }
    }
  }

  func isDurable(on level: Level) -> Bool {
    index(of: level).map { presentations[$0].machine.isDurable } == true
  }

  func index(of level: Level?) -> Int? {
    guard let level else { return presentations.indices.last }
    return presentations.firstIndex { $0.level == level }
  }

  /// Returns the level of a generation, even if another level covers it.
  func level(of generation: Generation) -> Level? {
    presentations.first {
      $0.machine.generation == generation || $0.machine.index(of: generation) != nil
    }?.level
  }

  /// Returns the level of the hold that `pop` releases: of those with the best rank, the highest.
  func level(heldFor pop: Presentation.Pop) -> Level? {
    var found: (level: Level, rank: Int)?
    for (level, machine) in presentations.reversed() {
      if let (_, rank) = machine.hold(for: pop), rank < found?.rank ?? .max {
        found = (level, rank)
      }
    }
    return found?.level
  }
}
