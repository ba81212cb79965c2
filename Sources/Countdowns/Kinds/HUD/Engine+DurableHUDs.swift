/// HUDs that were shown with DURABLE survive restarts. A screen can have other levels that do
/// not.
extension HUDKind: DurableKind {
  static func record(_ index: UInt32, in engine: Engine) -> DurableHUD? {
    guard let entity = engine.huds.entity(at: index) else { return nil }
    let durable = entity.presentations.filter { $0.machine.request.isDurable }
    guard !durable.isEmpty else { return nil }
    return DurableHUD(
      key: entity.key, uid: entity.uid,
      presentations: durable.map { DurableHUD.Shown($0.level, $0.machine.memory) })
  }
}

extension Engine {
  /// The owner of holds from before the restart: a connection that never exists.
  private static let departed = Owner.connection(0)

  /// Restores a screen. Whatever has fallen due since happens with due work, late as it
  /// is; holds of owners are released.
  func restore(_ kept: DurableHUD, at index: UInt32, now: Moment) {
    let presentations = kept.presentations.map {
      (level: $0.level, machine: Presentation($0.memory, departed: Self.departed))
    }
    let hasDeparted = kept.presentations.contains { $0.memory.ownedLeases > 0 }
    huds.insert(
      HUDEntity(
        key: kept.key, presentations: presentations, owners: hasDeparted ? [Self.departed] : [],
        uid: kept.uid), at: index)
    let reference = EntityRef(.hud, index)
    connections.count(1, for: kept.uid)
    changes.setKept(reference, true)
    let next = hasDeparted ? now.boot : huds[index].nextExpiry
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

  /// Refuses to change what cannot be stored: a level that is durable, or is to be.
  func checkWritable(
    hud index: UInt32?, _ level: Level, _ request: Presentation.Request? = nil
  ) throws(EngineError) {
    guard isReadOnly else { return }
    let isDurable = index.map { huds[$0].isDurable(on: level) } == true
    if isDurable || request?.isDurable == true { throw .readOnly }
  }
}
