import Countdowns

/// A naive model of screens: a stay on each level, with its holds.
package struct HUDModel: Model {
  package struct Target {
    var level: Level?
    var generation: Generation?
  }

  package enum Command {
    case show(Level, Presentation.Request, Owner)
    case update(Target, fraction: Double?, status: [UInt8]?)
    case dismiss(Target, delay: Interval?)
    case pop(Target, path: [UInt8]?)
    case tap(Target, inside: Bool)
    case pause(Target)
    case resume(Target)
    case get(Level?)
  }

  package struct Facts: Equatable {
    var state: HUDView.State
    var generation: Generation
    var level: Level
    var kind: Presentation.Kind
    var mask: Presentation.Mask
    var fraction: Double?
    var holds: [String]
    var isDismissing: Bool
    var isPaused: Bool
    var remainingMS: Int64?
    var deadlineUnixMS: Int64?
    var end: Presentation.End?
    var owner: Owner
  }

  package static let kind = EntityKind.hud
  package static let keyPrefix: Unicode.Scalar = "h"
  package static let ending = [Command.resume(Target()), .dismiss(Target(), delay: nil)]
  /// The screen that may show alerts; others go up to the status bar.
  private static let alertScreen = 0

  package static func configure(_ settings: inout EngineSettings) {
    settings.maximumLevel = .statusbar
    settings.maximumLevelOfScreen[Array("\(keyPrefix)\(alertScreen)".utf8)] = .alert
  }

  /// The stays of each screen, by rising level.
  private var screens: [[HUDStay]]
  /// How long a POP that came before its SHOW is remembered, in microseconds.
  private let reorder: Int64
  /// The POPs without a hold, and the requests whose holds were released, until when they matter.
  private var pops: [(key: Int, path: [UInt8], level: Level?, uid: UInt32, until: Int64)] = []
  private var releases: [(key: Int, path: [UInt8], until: Int64)] = []
  package var said: [Said] = []

  package init(keyCount: Int, _ settings: EngineSettings) {
    screens = Array(repeating: [], count: keyCount)
    reorder = settings.hudReorder.microseconds
  }

  // MARK: Commands

  package func command(_ key: Int, _ world: inout World) -> Command {
    var target = Target()
    if world.chance(oneIn: 4) { target.level = world.pick(Level.allCases) }
    target.generation = world.generation(
      near: screens[key].randomElement(using: &world.random)?
        .wishes.randomElement(using: &world.random)?.generation)
    switch Int.random(in: 0..<20, using: &world.random) {
    case 0..<6:
      let level = world.chance(oneIn: 4) ? world.pick(Level.allCases) : .normal
      return .show(level, request(&world), world.owner())
    case 6..<8: return .dismiss(target, delay: nil)
    case 8..<10: return .dismiss(target, delay: world.milliseconds([0, 20, 80, 1_000]))
    case 10..<12: return .pop(target, path: world.chance(oneIn: 2) ? [0x62] : nil)
    case 12..<14: return .tap(target, inside: world.chance(oneIn: 3))
    case 14: return .update(target, fraction: 0.5, status: world.chance(oneIn: 2) ? [0x61] : nil)
    case 15: return .update(target, fraction: nil, status: Array(repeating: 0x61, count: 9))
    case 16: return .pause(target)
    case 17, 18: return .resume(target)
    default: return .get(target.level)
    }
  }

  private func request(_ world: inout World) -> Presentation.Request {
    var request = Presentation.Request(
      kind: world.chance(oneIn: 2) ? .loading : world.pick(Presentation.Kind.allCases),
      status: world.chance(oneIn: 2) ? [0x61, 0x62] : nil,
      grace: world.milliseconds([0, 0, 10, 50, 2_000]),
      minimum: world.milliseconds([0, 20, 1_000]),
      maximum: world.chance(oneIn: 2) ? world.milliseconds([0, 30, 80, 2_000]) : nil,
      fadeIn: world.milliseconds([0, 5, 150]), fadeOut: world.milliseconds([0, 5, 150]),
      minimumFrom: world.pick(Presentation.MinimumFrom.allCases),
      early: world.pick(Presentation.Early.allCases),
      mask: world.chance(oneIn: 2) ? .none : world.pick(Presentation.Mask.allCases),
      messageMinimum: world.milliseconds([0, 40, 3_000]))
    request.path = world.pick([nil, [0x61], [0x62]])
    return request
  }

  package static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts> {
    func on(_ target: Target) -> HUDTarget {
      HUDTarget(level: target.level, generation: target.generation)
    }
    let view: HUDView? =
      switch command {
      case .show(let level, let request, let owner):
        try engine.showHUD(
          key, level: level, request, owner: owner, by: client, at: now)
      case .update(let target, let fraction, let status):
        try engine.updateHUD(key, on(target), fraction: fraction, status: status, at: now)
      case .dismiss(let target, let delay):
        try engine.dismissHUD(key, on(target), delay: delay, at: now)
      case .pop(let target, let path):
        try engine.popHUD(key, on(target), path: path, by: client, at: now)
      case .tap(let target, let inside): try engine.tapHUD(key, on(target), inside: inside, at: now)
      case .pause(let target): try engine.pauseHUD(key, on(target), at: now)
      case .resume(let target): try engine.resumeHUD(key, on(target), at: now)
      case .get(let level): engine.hud(key, level: level, at: now)
      }
    return view.map { .facts(Facts($0)) } ?? .nothing
  }

  private func isAllowed(_ level: Level, _ key: Int) -> Bool {
    level < .alert || key == Self.alertScreen
  }

  package func settles(_ command: Command, _ key: Int) -> Bool {
    if case .show(let level, _, _) = command { isAllowed(level, key) } else { true }
  }

  package mutating func answer(
    _ command: Command, _ key: Int, _ world: inout World
  ) throws(EngineError) -> Answer<Facts> {
    let now = world.now.boot.microseconds
    switch command {
    case .show(let level, let request, let owner):
      guard isAllowed(level, key) else { throw .levelNotAllowed(level, maximum: .statusbar) }
      if let path = request.path, [.loading, .progress].contains(request.kind),
        hasOvertaken(key, path, level, world)
      {
        return showNothing(key, level, request, &world)
      }
      return show(key, level, request, owner, &world)
    case .get(let level):
      let stay =
        level.map { level in screens[key].first { $0.level == level } } ?? screens[key].last
      return stay.map { .facts(facts($0, world)) } ?? .nothing
    case .update(let target, let fraction, let status):
      guard let index = try find(key, target, isHold: true) else { throw .notFound }
      return change(key, index, world) {
        $0.update(target.generation, fraction, status, at: now, $1)
      }
    case .dismiss(let target, let delay):
      guard let index = try find(key, target) else { return .nothing }
      return change(key, index, world) {
        $0.dismiss(.dismissed, after: delay?.microseconds ?? 0, at: now, $1)
      }
    case .pop(let target, let path):
      let owner = Owner.connection(World.operator.connection)
      let stays = screens[key]
      let distances = stays.map { $0.hold(for: owner, target.generation, path)?.distance ?? .max }
      let nearest = distances.min().flatMap { $0 == .max ? nil : distances.lastIndex(of: $0) }
      let found = try find(key, target, isHold: true, else: nearest)
      if found.map({ distances[$0] == .max }) ?? true { noteOvertaking(key, target, path, world) }
      guard let index = found else { return .nothing }
      return change(key, index, world) {
        $0.pop(for: owner, target.generation, path, at: now, $1)
      }
    case .tap(let target, let inside):
      guard let index = try find(key, target) else { throw .notFound }
      return change(key, index, world) { $0.tap(inside: inside, at: now, $1) }
    case .pause(let target):
      guard let index = try find(key, target) else { throw .notFound }
      return change(key, index, world) { $0.pause(at: now, $1) }
    case .resume(let target):
      guard let index = try find(key, target) else { throw .notFound }
      return change(key, index, world) { $0.resume(at: now, $1) }
    }
  }

  private mutating func noteOvertaking(
    _ key: Int, _ target: Target, _ path: [UInt8]?, _ world: World
  ) {
    let now = world.now.boot.microseconds
    guard let path, target.generation == nil, reorder > 0,
      !releases.contains(where: { $0.key == key && $0.path == path && $0.until > now })
    else { return }
    let uid = world.asker.uid
    pops.removeAll {
      $0.key == key && $0.path == path && $0.level == target.level && $0.uid == uid
    }
    pops.append((key, path, target.level, uid, now + reorder))
  }

  /// Returns whether a POP came before a SHOW, which uses it up.
  private mutating func hasOvertaken(
    _ key: Int, _ path: [UInt8], _ level: Level, _ world: World
  ) -> Bool {
    pops.removeAll { $0.until <= world.now.boot.microseconds }
    for level in [level, nil] {
      let index = pops.firstIndex {
        $0.key == key && $0.path == path && $0.level == level && $0.uid == world.asker.uid
      }
      if let index {
        pops.remove(at: index)
        return true
      }
    }
    return false
  }

  private mutating func showNothing(
    _ key: Int, _ level: Level, _ request: Presentation.Request, _ world: inout World
  ) -> Answer<Facts> {
    if let stay = screens[key].first(where: { $0.level == level }) {
      return .facts(facts(stay, world))
    }
    var request = request
    request.path = nil
    var stay = HUDStay(
      level, request, world.newGeneration(), .none, at: world.now.boot.microseconds)
    (stay.isHeld, stay.isGone, stay.end) = (false, true, .neverShown)
    said.append(stay.said(.didDisappear))
    return .facts(facts(stay, world))
  }

  /// Notes requests that have no hold on a level any more.
  private mutating func noteReleases(_ key: Int, _ before: [HUDStay], _ world: World) {
    let until = world.now.boot.microseconds + reorder
    for stay in before {
      let after = screens[key].first { $0.level == stay.level }?.holds ?? []
      for path in stay.holds.compactMap(\.request.path)
      where !after.contains(where: { $0.request.path == path }) {
        releases.append((key, path, until))
      }
    }
    releases.removeAll { $0.until <= world.now.boot.microseconds }
  }

  private mutating func show(
    _ key: Int, _ level: Level, _ request: Presentation.Request, _ owner: Owner,
    _ world: inout World
  ) -> Answer<Facts> {
    let now = world.now.boot.microseconds
    let generation = world.newGeneration()
    if let index = screens[key].firstIndex(where: { $0.level == level }) {
      return change(key, index, world) { $0.supersede(request, generation, owner, at: now, $1) }
    }
    let index = screens[key].firstIndex { $0.level > level } ?? screens[key].count
    screens[key].insert(HUDStay(level, request, generation, owner, at: now), at: index)
    return change(key, index, world) { $0.settle(now, byTime: false, $1) }
  }

  /// Returns the index of the stay that a command means; a generation is found on any level.
  ///
  /// - Parameter isHold: whether the generation may be that of any hold, not only of the newest.
  private func find(
    _ key: Int, _ target: Target, isHold: Bool = false, else unnamed: Int? = nil
  ) throws(EngineError) -> Int? {
    let stays = screens[key]
    func holds(_ stay: HUDStay) -> Bool {
      stay.wishes.contains { $0.generation == target.generation }
    }
    let index =
      target.level.map { level in stays.firstIndex { $0.level == level } }
      ?? target.generation.flatMap { wanted in
        stays.firstIndex { $0.generation == wanted || holds($0) }
      }
      ?? unnamed ?? stays.indices.last
    guard let index else { return nil }
    guard let wanted = target.generation else { return index }
    if isHold, !holds(stays[index]) { throw .stale(now: stays[index].front.generation) }
    if !isHold, wanted != stays[index].generation {
      throw .stale(now: stays[index].generation)
    }
    return index
  }

  private mutating func change(
    _ key: Int, _ index: Int, _ world: World, _ body: (inout HUDStay, (Said) -> Void) -> Void
  ) -> Answer<Facts> {
    var happened: [Said] = []
    let before = screens[key]
    body(&screens[key][index]) { happened.append($0) }
    said += happened
    let answer = Answer.facts(facts(screens[key][index], world))
    screens[key].removeAll { $0.isGone }
    noteReleases(key, before, world)
    return answer
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    let now = world.now.boot.microseconds
    var happened: [Said] = []
    let before = screens[key]
    let gone = departed(key, world)
    for index in screens[key].indices {
      screens[key][index].lose(gone, at: now) { happened.append($0) }
    }
    // What is late happens in the order of its times, on whichever level.
    while let index = screens[key].indices.filter({ screens[key][$0].stepsAt ?? .max <= now })
      .min(by: { screens[key][$0].stepsAt! < screens[key][$1].stepsAt! })
    {
      let due = screens[key][index].stepsAt!
      screens[key][index].settle(now, through: due, byTime: true) { happened.append($0) }
    }
    for index in screens[key].indices {
      screens[key][index].settle(now, byTime: true) { happened.append($0) }
    }
    said += happened
    screens[key].removeAll { $0.isGone }
    noteReleases(key, before, world)
  }

  private func departed(_ key: Int, _ world: World) -> [Owner] {
    var gone: [Owner] = []
    for owner in screens[key].flatMap({ $0.isOrphan ? [] : $0.wishes.map(\.owner) })
    where !world.isAlive(owner) && !gone.contains(owner) {
      gone.append(owner)
    }
    return gone
  }

  package func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    screens[key].compactMap(\.wakes).min().map { (.boot, $0) }
  }

  package var order: [Int] { Array(screens.indices) }

  /// Returns whether an owner has ended: MIN and the fade-out count from when that is noticed.
  package func isTouchy(_ world: World) -> Bool {
    screens.indices.contains { !departed($0, world).isEmpty }
  }

  // MARK: State

  package func exists(_ key: Int) -> Bool { !screens[key].isEmpty }

  package func facts(_ key: Int, _ world: World) -> [Facts] {
    screens[key].map { facts($0, world) }
  }

  private func facts(_ stay: HUDStay, _ world: World) -> Facts {
    let now = world.now.boot.microseconds
    let left = stay.goesAt.map { max($0.moment - stay.own(now), 0) }
    let isOver = stay.isGone || stay.goes != nil
    return Facts(
      state: stay.state,
      generation: stay.generation, level: stay.level, kind: stay.front.request.kind,
      mask: stay.mask, fraction: stay.front.fraction, holds: HUDStay.list(stay.holds),
      isDismissing: stay.isDismissing,
      isPaused: stay.pausedAt != nil, remainingMS: isOver ? nil : left?.roundedUp,
      deadlineUnixMS: isOver || stay.pausedAt != nil
        ? nil : left.map { world.now.deadlineUnixMS(now + $0) },
      end: stay.end, owner: stay.front.owner)
  }

  package static func facts(_ subject: any EntityView) -> Facts? {
    (subject as? HUDView).map { Facts($0) }
  }

  package static func detail(_ event: SentEvent) -> String? {
    guard let view = event.subject as? HUDView else { return nil }
    let request = Presentation.Request(kind: view.content, status: view.status)
    return HUDStay.detail(
      view.state, request, view.mask, view.fraction, list(view.holds), view.isDismissing,
      isPaused: view.isPaused, view.owner)
  }

  fileprivate static func list(_ holds: [Presentation.Show]) -> [String] {
    holds.map { HUDStay.text($0.generation, $0.request, $0.fraction, $0.owner) }
  }
}

extension HUDModel.Facts {
  init(_ view: HUDView) {
    self.init(
      state: view.state, generation: view.generation, level: view.level, kind: view.content,
      mask: view.mask, fraction: view.fraction, holds: HUDModel.list(view.holds),
      isDismissing: view.isDismissing, isPaused: view.isPaused, remainingMS: view.remainingMS,
      deadlineUnixMS: view.deadlineUnixMS, end: view.end, owner: view.owner)
  }
}
