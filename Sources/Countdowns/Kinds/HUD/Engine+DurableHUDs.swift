/// HUDs that were shown with DURABLE outlive the daemon. A screen can have other levels that do not.
extension Engine {
  /// Whoever had leases when the daemon ended: a connection that never is.
  private static let departed = Owner.connection(0)

  /// Each screen that has changed since the last call, once: as it is now, or that it is gone.
  package func takeHUDChanges(
    current: (UInt32, consuming DurableHUD) -> Void, gone: (UInt32) -> Void
  ) {
    takeChanges(of: .hud, { $0.durableHUD($1) }, current, gone)
  }

  private func durableHUD(_ index: UInt32) -> DurableHUD? {
    guard let entity = huds.entity(at: index) else { return nil }
    let durable = entity.presentations.filter { $0.machine.request.isDurable }
    guard !durable.isEmpty else { return nil }
    return DurableHUD(
      key: entity.key, uid: entity.uid,
      presentations: durable.map { DurableHUD.Shown($0.level, $0.machine.memory) })
  }

  /// Puts a screen where it was. Whatever has fallen due since happens as time goes on, late as it
  /// is; leases of owners are given back.
  package func restore(_ kept: DurableHUD, at index: UInt32, now: Moment) {
    restore(kept, besides: [], owners: [], at: index, now: now)
  }

  private func restore(
    _ kept: DurableHUD, besides others: [(level: Level, machine: Presentation)],
    owners: Set<Owner>, at index: UInt32, now: Moment
  ) {
    let stored = kept.presentations.map {
      (level: $0.level, machine: Presentation($0.memory, departed: Self.departed))
    }
    let levels = Set(stored.map(\.level))
    let presentations = (stored + others.filter { !levels.contains($0.level) })
      .sorted { $0.level < $1.level }
    let hasDeparted = kept.presentations.contains { $0.memory.ownedLeases > 0 }
    let all = hasDeparted ? owners.union([Self.departed]) : owners
    huds.insert(
      HUDEntity(key: kept.key, presentations: presentations, owners: all, uid: kept.uid), at: index)
    let reference = EntityRef(.hud, index)
    for owner in owners { connections.own(reference, owner) }
    connections.count(1, for: kept.uid)
    changes.setKept(reference, true)
    let next = hasDeparted ? now.boot : huds[index].nextExpiry
    huds[index].alarm = arm(nil, for: next, reference)
  }

  /// Takes out what is durable. Nobody is told.
  func discardHUD(_ index: UInt32) {
    huds[index].presentations.removeAll { $0.machine.request.isDurable }
    if huds[index].presentations.isEmpty { takeOut(hud: index) }
  }

  /// Before `discard`: what came to where something was that was kept, and that comes back now, makes way.
  /// Nobody is told.
  package func discardWhatRestsOnChanges() {
    for (screen, level) in changes.takeLeavingLevels() {
      guard let index = huds.find(screen), !huds[index].isDurable(on: level) else { continue }
      huds[index].presentations.removeAll { $0.level == level }
      if huds[index].presentations.isEmpty { takeOut(hud: index) }
    }
  }

  /// Puts back what is stored, after `discard`. What is shown on other levels of the screen stays;
  /// what is shown on the same ones makes way.
  package func putBack(_ kept: DurableHUD, at index: UInt32, now: Moment) {
    var others: [(level: Level, machine: Presentation)] = []
    var owners: Set<Owner> = []
    if let same = huds.find(kept.key) {
      let entity = takeOut(hud: same)
      (others, owners) = (entity.presentations, entity.owners)
    }
    restore(kept, besides: others, owners: owners, at: index, now: now)
  }

  @discardableResult
  func takeOut(hud index: UInt32) -> HUDEntity {
    let reference = EntityRef(.hud, index)
    huds[index].alarm = arm(huds[index].alarm, for: nil, reference)
    let entity = huds.remove(index, holdsPlace: changes.isKept(reference))
    for owner in entity.owners { connections.disown(reference, owner) }
    connections.count(-1, for: entity.uid)
    return entity
  }

  // MARK: Refusing

  /// Refuses to change what could not be stored: a level that is kept, or is to be.
  func checkWritable(
    hud index: UInt32?, _ level: Level, _ request: Presentation.Request? = nil
  ) throws(EngineError) {
    guard isReadOnly else { return }
    let isDurable = index.map { huds[$0].isDurable(on: level) } == true
    if isDurable || request?.isDurable == true { throw .readOnly }
  }
}
