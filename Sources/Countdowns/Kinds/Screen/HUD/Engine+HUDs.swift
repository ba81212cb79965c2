import TimerWheel

/// HUDs: each is a screen with presentations on its levels.
enum HUDKind: TableKind {
  static let kind = EntityKind.hud
  static let name: StaticString = "hud"
  static let keyName = "screen"
  static let partBytes = 800
  static let stateOfNothing: StaticString = "hidden"

  static func store(of engine: Engine) -> HUDStore { engine.stores.huds }

  /// Returns the view of the front presentation.
  static func view(_ index: UInt32, in engine: Engine, at now: Moment) -> HUDView {
    snapshot(index, in: engine, at: now).last!
  }

  static func snapshot(_ index: UInt32, in engine: Engine, at now: Moment) -> [HUDView] {
    let entity = engine.huds[index]
    return entity.presentations.map { HUDView(entity.key, $0.level, $0.machine, at: now) }
  }

  /// Runs what is due, first for the pages that hold the HUD.
  static func runDue(_ index: UInt32, in engine: Engine, at now: Moment) -> Bool {
    engine.runDuePages(wantingHUD: index, at: now)
    return engine.runDue(hud: index, upTo: now.boot, at: now)
  }

  static func ownerGone(
    _ index: UInt32, _ owner: Owner, in engine: Engine, at now: Moment
  ) {
    if engine.huds.entity(at: index)?.owners.contains(owner) == true {
      _ = engine.releaseHoldsOfDeparted(index, including: owner, at: now)
    }
  }
}

extension Engine {
  // MARK: Commands

  package func showHUD(
    _ screen: Span<UInt8>, level: Level, _ request: Presentation.Request,
    owner: Owner, by client: Client, at now: Moment
  ) throws(EngineError) -> HUDView {
    let key = Array(screen)
    let found = try hudToShow(on: key, level, request, by: client, at: now)
    if settings.hudReorder > .zero, request.kind.takesHold, let path = request.path,
      stores.huds.overtaking.take(key, path, level, by: client.uid, at: now.boot)
    {
      return showNothing(found, on: key, level, request, by: client, at: now)
    }
    return show(found, on: key, level, request, owner: owner, by: client, at: now)
  }

  /// Replies to a SHOW whose POP came first. A HUD that is there stays as it is; another one ends
  /// as if it was dismissed within GRACE.
  private func showNothing(
    _ found: UInt32?, on key: [UInt8], _ level: Level, _ request: Presentation.Request,
    by client: Client, at now: Moment
  ) -> HUDView {
    if let found, let position = huds[found].index(of: level) {
      return HUDView(key, level, huds[found].presentations[position].machine, at: now)
    }
    var request = request
    (request.grace, request.early, request.path) = (.milliseconds(1), .skip, nil)
    show(found, on: key, level, request, owner: .none, by: client, at: now)
    return changeHUD(huds.find(key)!, level, at: now) { machine, emit in
      machine.dismiss(at: now.boot, emit)
    }
  }

  /// Returns the HUD of a screen after running what is due for it, or nil if there is none. Throws
  /// if `request` cannot be shown there; otherwise `show` succeeds if nothing happens in between.
  ///
  /// - Parameter others: the number of entities that will be added besides the HUD.
  func hudToShow(
    on key: [UInt8], _ level: Level, _ request: Presentation.Request,
    by client: Client, adding others: Int = 0, at now: Moment
  ) throws(EngineError) -> UInt32? {
    let maximum = settings.maximumLevel(of: key)
    guard level <= maximum else { throw .levelNotAllowed(level, maximum: maximum) }
    let found = current(HUDKind.self, key.span, at: now)
    try checkWritable(hud: found, level, request)
    let added = others + (found == nil ? 1 : 0)
    if added > 0 { try checkLimits(client, adding: added) }
    if request.kind.takesHold, let found, let position = huds[found].index(of: level),
      huds[found].presentations[position].machine.holdCount >= Presentation.maximumHolds
    {
      throw .tooManyHolds
    }
    return found
  }

  /// - Parameter found: the result of `hudToShow`.
  @discardableResult
  func show(
    _ found: UInt32?, on key: [UInt8], _ level: Level, _ request: Presentation.Request,
    owner: Owner, by client: Client, at now: Moment
  ) -> HUDView {
    guard let index = found else {
      let generation = newGeneration()
      var occurrences: [Presentation.Occurrence] = []
      let machine = Presentation(request, generation: generation, owner: owner, at: now.boot) {
        occurrences.append($0)
      }
      let index = insert(
        HUDKind.self,
        HUDEntity(
          key: key, presentations: [(level, machine)], owners: owner == .none ? [] : [owner],
          uid: client.uid))
      return appeared(index, level, occurrences, at: now)
    }

    own(index, owner)
    let generation = newGeneration()
    if huds[index].index(of: level) != nil {
      return changeHUD(index, level, at: now) { machine, emit in
        machine.show(request, generation: generation, owner: owner, at: now.boot, emit)
      }
    }
    var occurrences: [Presentation.Occurrence] = []
    let machine = Presentation(request, generation: generation, owner: owner, at: now.boot) {
      occurrences.append($0)
    }
    let above = huds[index].presentations.firstIndex { $0.level > level }
    huds[index].presentations.insert(
      (level, machine), at: above ?? huds[index].presentations.count)
    return appeared(index, level, occurrences, at: now)
  }

  package func updateHUD(
    _ screen: Span<UInt8>, _ target: HUDTarget, fraction: Double?, status: [UInt8]?, at now: Moment
  ) throws(EngineError) -> HUDView {
    guard let (index, level) = try find(screen, target, at: now, isHold: true) else {
      throw .notFound
    }
    return changeHUD(index, level, at: now) { machine, emit in
      machine.update(
        target.generation, fraction: fraction, status: status, at: now.boot, emit)
    }
  }

  /// Dismisses a presentation. Returns nil if nothing is shown.
  package func dismissHUD(
    _ screen: Span<UInt8>, _ target: HUDTarget, delay: Interval?, at now: Moment
  ) throws(EngineError) -> HUDView? {
    guard let (index, level) = try find(screen, target, at: now) else { return nil }
    return changeHUD(index, level, at: now) { machine, emit in
      machine.dismiss(delay: delay, at: now.boot, emit)
    }
  }

  /// Releases one hold. Returns nil if nothing is shown. A POP of a request without a hold may have
  /// overtaken its SHOW.
  ///
  /// - Parameter path: the path of the request whose hold is released; nil for any.
  package func popHUD(
    _ screen: Span<UInt8>, _ target: HUDTarget, path: [UInt8]? = nil, by client: Client,
    at now: Moment
  ) throws(EngineError) -> HUDView? {
    let pop = Presentation.Pop(
      by: .connection(client.connection), generation: target.generation, path: path)
    guard
      let (index, level) = try find(
        screen, target, at: now, isHold: true, else: { $0.level(heldFor: pop) })
    else {
      noteOvertaking(screen, target, path, by: client, at: now)
      return nil
    }
    let position = huds[index].index(of: level)!
    if huds[index].presentations[position].machine.hold(for: pop) == nil {
      noteOvertaking(screen, target, path, by: client, at: now)
    }
    return changeHUD(index, level, at: now) { machine, emit in
      machine.pop(pop, at: now.boot, emit)
    }
  }

  /// Whoever knows the generation has the reply to the SHOW.
  private func noteOvertaking(
    _ screen: Span<UInt8>, _ target: HUDTarget, _ path: [UInt8]?, by client: Client, at now: Moment
  ) {
    guard settings.hudReorder > .zero, target.generation == nil, let path else { return }
    stores.huds.overtaking.notePop(
      Array(screen), path, target.level, by: client.uid, until: now.boot + settings.hudReorder,
      at: now.boot)
  }

  package func tapHUD(
    _ screen: Span<UInt8>, _ target: HUDTarget, inside: Bool, at now: Moment
  ) throws(EngineError) -> HUDView {
    guard let (index, level) = try find(screen, target, at: now) else { throw .notFound }
    return changeHUD(index, level, at: now) { machine, emit in
      machine.tap(inside: inside, at: now.boot, emit)
    }
  }

  package func pauseHUD(
    _ screen: Span<UInt8>, _ target: HUDTarget, at now: Moment
  ) throws(EngineError) -> HUDView {
    guard let (index, level) = try find(screen, target, at: now) else { throw .notFound }
    return changeHUD(index, level, at: now) { machine, emit in machine.pause(at: now.boot, emit) }
  }

  package func resumeHUD(
    _ screen: Span<UInt8>, _ target: HUDTarget, at now: Moment
  ) throws(EngineError) -> HUDView {
    guard let (index, level) = try find(screen, target, at: now) else { throw .notFound }
    return changeHUD(index, level, at: now) { machine, emit in machine.resume(at: now.boot, emit) }
  }

  /// Returns the view of a level, or nil if nothing is shown.
  package func hud(
    _ screen: Span<UInt8>, level: Level?, at now: Moment
  ) -> HUDView? {
    guard let index = current(HUDKind.self, screen, at: now),
      let position = huds[index].index(of: level)
    else { return nil }
    let (level, machine) = huds[index].presentations[position]
    return HUDView(huds[index].key, level, machine, at: now)
  }

  // MARK: Time

  func releaseHolds(_ index: UInt32, of owners: Set<Owner>, at now: Moment) {
    statistics.ownerGone += Int64(owners.count)
    huds[index].owners.subtract(owners)
    changeLevels(ofHUD: index, at: now) { machine, emit in
      machine.ownersGone(owners, at: now.boot, emit)
    }
  }

  /// Releases the holds of an owner whose work is done; releasing the last one dismisses the HUD.
  func endHold(of owner: Owner, onHUD index: UInt32, at now: Moment) {
    huds[index].owners.remove(owner)
    changeLevels(ofHUD: index, at: now) { machine, emit in
      machine.releaseAll(of: owner, at: now.boot, emit)
    }
  }

  // MARK: Steps

  /// Runs what is due for a screen up to `last`, without settling the pages that hold its HUD.
  /// Steps that are late come in the order of their times, on whichever level. Returns false if
  /// nothing is shown there afterwards.
  func runDue(hud index: UInt32, upTo last: Instant, at now: Moment) -> Bool {
    guard huds.contains(index), releaseHoldsOfDeparted(index, at: now) else { return false }
    while let due = huds.entity(at: index)?.nextExpiry, due <= last {
      changeLevels(ofHUD: index, at: now) { machine, emit in
        machine.expire(through: due, at: now.boot, emit)
      }
    }
    return huds.contains(index)
  }

  /// Releases the holds of closed owners without waiting for their cleanup, all at once so that
  /// their order does not matter. Returns false if nothing is shown there afterwards.
  fileprivate func releaseHoldsOfDeparted(
    _ index: UInt32, including closed: Owner? = nil, at now: Moment
  ) -> Bool {
    let departed = huds[index].owners.filter { $0 == closed || !isAlive($0, at: now) }
    guard !departed.isEmpty else { return true }
    releaseHolds(index, of: departed, at: now)
    return huds.contains(index)
  }

  /// Finds the level `target` names, else its generation's, else `unnamed`, else the front one.
  ///
  /// - Parameter isHold: whether the generation may name any hold, not only the newest SHOW.
  private func find(
    _ screen: Span<UInt8>, _ target: HUDTarget, at now: Moment, isHold: Bool = false,
    else unnamed: (HUDEntity) -> Level? = { _ in nil }
  ) throws(EngineError) -> (UInt32, Level)? {
    guard let index = current(HUDKind.self, screen, at: now) else { return nil }
    let entity = huds[index]
    let wanted =
      target.level ?? target.generation.flatMap { entity.level(of: $0) } ?? unnamed(entity)
    guard let position = entity.index(of: wanted) else { return nil }
    let (level, machine) = entity.presentations[position]
    if isHold, let generation = target.generation {
      guard machine.index(of: generation) != nil else {
        throw .stale(now: machine.shown.generation)
      }
    } else {
      try check(target.generation, against: machine.generation)
    }
    try checkWritable(hud: index, level)
    return (index, level)
  }

  private func changeHUD(
    _ index: UInt32, _ level: Level, at now: Moment,
    _ change: (inout Presentation, (Presentation.Occurrence) -> Void) -> Void
  ) -> HUDView {
    var occurrences: [Presentation.Occurrence] = []
    let position = huds[index].index(of: level)!
    let wasDurable = huds[index].presentations[position].machine.isDurable
    let requests = heldRequests(index, position)
    change(&huds[index].presentations[position].machine) { occurrences.append($0) }
    noteReleases(of: requests, index, position, at: now)
    changed(index, level, occurrences, wasDurable: wasDurable, at: now)
    return currentView(index, level, at: now)
  }

  /// Publishes the first events of a presentation on a level that had none.
  private func appeared(
    _ index: UInt32, _ level: Level, _ occurrences: [Presentation.Occurrence], at now: Moment
  ) -> HUDView {
    changed(index, level, occurrences, wasDurable: false, at: now)
    return currentView(index, level, at: now)
  }

  /// Applies an input to all levels of a screen; some of them may ignore it.
  private func changeLevels(
    ofHUD index: UInt32, at now: Moment,
    _ change: (inout Presentation, (Presentation.Occurrence) -> Void) -> Void
  ) {
    for level in huds[index].presentations.map(\.level) {
      guard let position = huds[index].index(of: level) else { continue }
      var occurrences: [Presentation.Occurrence] = []
      let before = huds[index].presentations[position].machine
      let requests = heldRequests(index, position)
      change(&huds[index].presentations[position].machine) { occurrences.append($0) }
      noteReleases(of: requests, index, position, at: now)
      if huds[index].presentations[position].machine != before {
        changed(index, level, occurrences, wasDurable: before.isDurable, at: now)
      }
    }
    dropHidden(index)
  }

  /// Returns the requests that have holds on a level, if it matters when they are released.
  private func heldRequests(_ index: UInt32, _ position: Int) -> Set<[UInt8]> {
    guard settings.hudReorder > .zero else { return [] }
    return Set(huds[index].presentations[position].machine.holds.compactMap(\.request.path))
  }

  private func noteReleases(
    of before: Set<[UInt8]>, _ index: UInt32, _ position: Int, at now: Moment
  ) {
    for path in before.subtracting(heldRequests(index, position)) {
      stores.huds.overtaking.noteRelease(
        huds[index].key, path, until: now.boot + settings.hudReorder, at: now.boot)
    }
  }

  /// - Parameter wasDurable: whether the level was durable before the change.
  private func changed(
    _ index: UInt32, _ level: Level, _ occurrences: [Presentation.Occurrence], wasDurable: Bool,
    at now: Moment
  ) {
    let isKept = wasDurable || huds[index].isDurable(on: level)
    changes.note(EntityRef(.hud, index), isKept: isKept)
    let (key, user) = (huds[index].key, huds[index].uid)
    for occurrence in occurrences {
      let presentation = occurrence.presentation
      // An update that ends durability is also logged: a SHOW, or the release of a durable hold.
      let isDurable = presentation.isDurable || (wasDurable && occurrence.event == .updated)
      if let due = occurrence.due { statistics.record(late: (now.boot - due).microseconds) }
      let name = occurrence.event.name
      let head = Event.Head(name, presentation.generation, due: occurrence.due, at: now)
      publish(.hud, key, head, of: user, isLogged: isDurable && name.changesState) {
        HUDView(key, level, presentation, superseding: occurrence.superseded, at: now)
      }
    }
  }

  /// Returns the view of a level, and forgets hidden presentations.
  private func currentView(_ index: UInt32, _ level: Level, at now: Moment) -> HUDView {
    let position = huds[index].index(of: level)!
    let view = HUDView(
      huds[index].key, level, huds[index].presentations[position].machine, at: now)
    dropHidden(index)
    return view
  }

  /// Removes hidden presentations, forgets owners without holds, and rearms the alarm. Every change
  /// ends here.
  private func dropHidden(_ index: UInt32) {
    huds[index].presentations.removeAll { $0.machine.isHidden }
    if huds[index].presentations.isEmpty {
      remove(HUDKind.self, index)
    } else {
      forgetOwners(ofHUD: index)
      arm(HUDKind.self, index)
    }
  }

  /// A page stays until its load is over, as what is due for it comes first.
  private func forgetOwners(ofHUD index: UInt32) {
    guard !huds[index].owners.isEmpty else { return }
    for owner in huds[index].owners.subtracting(huds[index].holders) {
      if case .page = owner { continue }
      huds[index].owners.remove(owner)
      connections.disown(EntityRef(.hud, index), owner)
    }
  }

  private func own(_ index: UInt32, _ owner: Owner) {
    guard owner != .none else { return }
    huds[index].owners.insert(owner)
    connections.own(EntityRef(.hud, index), owner)
  }
}

/// The presentation that a command addresses: the front one unless a level or generation is given.
package struct HUDTarget {
  package var level: Level?
  package var generation: Generation?

  package init(level: Level? = nil, generation: Generation? = nil) {
    self.level = level
    self.generation = generation
  }
}

extension Presentation.Event {
  fileprivate var name: Event.Name {
    switch self {
    case .willAppear: .willAppear
    case .didAppear: .didAppear
    case .updated: .updated
    case .touched: .touched
    case .paused: .paused
    case .resumed: .resumed
    case .willDisappear: .willDisappear
    case .didDisappear: .didDisappear
    }
  }
}

extension Engine {
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
