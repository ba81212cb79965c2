/// Holds and messages with DURABLE survive restarts; other holds and levels of the screen do not.
extension HUDKind: DurableKind {
  static func record(_ index: UInt32, in engine: Engine) -> DurableHUD? {
    guard let entity = engine.huds.entity(at: index) else { return nil }
    let durable = entity.presentations.compactMap { level, machine in
      machine.durable.map { DurableHUD.Shown(level, $0) }
    }
    guard !durable.isEmpty else { return nil }
    return DurableHUD(key: entity.key, uid: entity.uid, presentations: durable)
  }
}

extension Engine {
  /// Restores a screen. Steps whose deadlines have passed since run late, with other due work.
  func restore(_ kept: DurableHUD, at index: UInt32, now: Moment) {
    let owners = Set(kept.presentations.flatMap(\.machine.shows).map(\.owner)).subtracting([.none])
    huds.insert(
      HUDEntity(
        key: kept.key, presentations: kept.presentations.map { ($0.level, $0.machine) },
        owners: owners, uid: kept.uid), at: index)
    let reference = EntityRef(.hud, index)
    connections.count(1, for: kept.uid)
    changes.setKept(reference, true)
    // Owners ended with the daemon, so a screen with owners is settled at once.
    let next = owners.isEmpty ? huds[index].nextExpiry : now.boot
    huds[index].alarm = arm(nil, for: next, reference)
  }

  func takeOut(hud index: UInt32) {
    let reference = EntityRef(.hud, index)
    huds[index].alarm = arm(huds[index].alarm, for: nil, reference)
    let entity = huds.remove(index)
    for owner in entity.owners { connections.disown(reference, owner) }
    connections.count(-1, for: entity.uid)
  }

  // MARK: Refusing

  /// Throws if state cannot be stored and the level is durable, or `request` would make it so.
  func checkWritable(
    hud index: UInt32?, _ level: Level, _ request: Presentation.Request? = nil
  ) throws(EngineError) {
    guard isReadOnly else { return }
    let isDurable = index.map { huds[$0].isDurable(on: level) } == true
    if isDurable || request?.isDurable == true { throw .readOnly }
  }
}
