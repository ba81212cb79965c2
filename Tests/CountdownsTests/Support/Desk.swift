import Simulation
import Testing

@testable import Countdowns

/// An engine with clients on virtual clocks, so that a test reads as commands and the events that
/// clients receive:
///
///     let desk = Desk()
///     desk.subscribe(1, "countdown:a")
///     desk.at(0).start("a", count: 2)
///     desk.at(9_000).hears(1, "0 a snapshot idle", "0 a started 2", "1000 a tick 1", "2000 a ready 0")
///
/// Client 1 is connected. Times are in milliseconds on the boot clock, which begins at 0; the wall
/// clock is `wallStart` microseconds ahead.
final class Desk {
  static let wallStart: Int64 = 1_790_000_000_000_000
  let engine: Engine
  private(set) var now = Moment(
    boot: Instant(microseconds: 0), wall: Instant(microseconds: Desk.wallStart))
  /// The most steps in one call of `Engine.advance`.
  var budget = 1_000
  private(set) var lastSequence: Int64 = 0
  private var heard: [UInt64: [String]] = [:]
  private(set) var events: [UInt64: [SentEvent]] = [:]

  init(_ settings: EngineSettings = EngineSettings()) {
    engine = Engine(settings: settings, at: now)
    engine.observer = SentEvents()
    engine.connect(1)
  }

  // MARK: Time

  /// Moves the clocks event by event, like a driver that is never late.
  @discardableResult
  func at(_ milliseconds: Int64) -> Desk {
    let end = Instant(microseconds: milliseconds * 1_000)
    while true {
      let (boot, wall) = engine.nextDeadline
      let next = [boot, wall.map { now.boot + ($0 - now.wall) }].compactMap { $0 }.min()
      guard let next, next <= end else { break }
      move(to: max(next, now.boot))
      advance()
    }
    move(to: end)
    advance()
    return self
  }

  /// Moves the clocks in one jump; the engine notices at the next command.
  @discardableResult
  func unnoticed(at milliseconds: Int64) -> Desk {
    move(to: Instant(microseconds: milliseconds * 1_000))
    return self
  }

  @discardableResult
  func unnoticed(microseconds: Int64) -> Desk {
    move(to: Instant(microseconds: microseconds))
    return self
  }

  /// Moves the clocks in one jump, and advances the engine.
  @discardableResult
  func late(at milliseconds: Int64) -> Desk {
    unnoticed(at: milliseconds)
    advance()
    return self
  }

  /// Suspends the machine until then: nothing that is due meanwhile happens in time.
  @discardableResult
  func suspended(until milliseconds: Int64) -> Desk {
    let start = now.boot
    unnoticed(at: milliseconds)
    engine.noteSuspension(from: start, until: now.boot)
    advance()
    return self
  }

  func setWall(by milliseconds: Int64) { now.wall = now.wall + .milliseconds(milliseconds) }

  private func move(to boot: Instant) {
    now.wall = now.wall + (boot - now.boot)
    now.boot = boot
  }

  func advance() {
    while !engine.advance(to: now, budget: budget) { collect() }
    collect()
  }

  /// Calls `Engine.advance` once. Returns whether all due work is done.
  func step(_ budget: Int) -> Bool {
    defer { collect() }
    return engine.advance(to: now, budget: budget)
  }

  // MARK: Clients

  func client(_ connection: UInt64, uid: UInt32 = 1_000) -> Client {
    Client(connection: connection, uid: uid)
  }

  func connect(_ connection: UInt64) { engine.connect(connection) }
  func disconnect(_ connection: UInt64) { engine.disconnect(connection) }

  func subscribe(_ connection: UInt64, _ channel: String) {
    let channel = Array(channel.utf8)
    _ = engine.subscribe(client(connection), to: channel, at: now)
    engine.snapshot(of: channel, to: connection, at: now)
    collect()
  }

  func subscribe(_ connection: UInt64, pattern: String, walk: Bool = true) {
    _ = engine.subscribe(client(connection), toPattern: Array(pattern.utf8))
    if walk { continueSnapshots(connection, budget: 1_000_000) }
  }

  func continueSnapshots(_ connection: UInt64, budget: Int) {
    engine.continueSnapshots(to: connection, budget: budget, at: now)
    collect()
  }

  func unsubscribe(_ connection: UInt64, _ channel: String) {
    _ = engine.unsubscribe(connection, from: Array(channel.utf8))
  }

  /// Calls `body` with the bytes of a key, then collects published events.
  func with<R>(_ key: String, _ body: (Span<UInt8>) throws -> R) rethrows -> R {
    defer { collect() }
    return try body(key.utf8.span)
  }

  // MARK: Countdowns

  @discardableResult
  func start(
    _ key: String, count: UInt32 = 60, every: Int64 = 1_000, fire: Bool = false,
    owner: Owner = .none, token: String? = nil, meta: String? = nil, title: String? = nil,
    by connection: UInt64 = 1, uid: UInt32 = 1_000
  ) throws -> (decision: StartDecision, view: CountdownView) {
    var start = CountdownStart(
      Countdown.Plan(count: count, every: .milliseconds(every), firesAtOnce: fire)!)
    start.owner = owner
    start.token = token.map { Array($0.utf8) }
    start.annotations.meta = meta.map { Array($0.utf8) }
    start.title = title.map { Array($0.utf8) }
    return try with(key) {
      try engine.startCountdown($0, start, by: client(connection, uid: uid), at: now)
    }
  }

  @discardableResult
  func resend(
    _ key: String, token: String? = nil
  ) throws -> (decision: StartDecision, view: CountdownView) {
    let token = token.map { Array($0.utf8) }
    return try with(key) {
      try engine.resendCountdown($0, token: token, by: client(1), at: now)
    }
  }

  func get(_ key: String) -> CountdownView? { with(key) { engine.countdown($0, at: now) } }

  @discardableResult
  func cancel(_ key: String, _ generation: Int64? = nil) throws -> Bool {
    try with(key) {
      try engine.cancelCountdown($0, generation: generation.map(Generation.init), at: now)
    }
  }

  @discardableResult
  func pause(_ key: String, _ generation: Int64? = nil) throws -> CountdownView {
    try with(key) {
      try engine.pauseCountdown($0, generation: generation.map(Generation.init), at: now)
    }
  }

  @discardableResult
  func resume(_ key: String, _ generation: Int64? = nil) throws -> CountdownView {
    try with(key) {
      try engine.resumeCountdown($0, generation: generation.map(Generation.init), at: now)
    }
  }

  @discardableResult
  func retime(
    _ key: String, _ left: Int64, _ generation: Int64? = nil
  ) throws -> CountdownView {
    try with(key) {
      try engine.retimeCountdown(
        $0, to: .milliseconds(left), generation: generation.map(Generation.init), at: now)
    }
  }

  // MARK: HUDs and timers

  @discardableResult
  func show(
    _ screen: String, _ request: Presentation.Request = .plain, level: Level = .normal,
    owner: Owner = .none
  ) throws -> HUDView {
    try with(screen) {
      try engine.showHUD($0, level: level, request, owner: owner, by: client(1), at: now)
    }
  }

  @discardableResult
  func dismiss(_ screen: String, level: Level? = nil) throws -> HUDView? {
    try with(screen) {
      try engine.dismissHUD($0, HUDTarget(level: level), delay: nil, at: now)
    }
  }

  func hud(_ screen: String, level: Level? = nil) -> HUDView? {
    with(screen) { engine.hud($0, level: level, at: now) }
  }

  @discardableResult
  func set(
    _ key: String, _ after: Int64, every: Int64? = nil, late: PlainTimer.Late = .fire,
    clock: TimerClock = .boot, owner: Owner = .none
  ) throws -> TimerView {
    var set = TimerSet(after: .milliseconds(after))
    set.every = every.map { .milliseconds($0) }
    set.late = late
    set.clock = clock
    set.owner = owner
    return try with(key) { try engine.setTimer($0, set, by: client(1), at: now).view }
  }

  func timer(_ key: String) -> TimerView? { with(key) { engine.timer($0, at: now) } }

  func pauseTimer(_ key: String) throws {
    _ = try with(key) { try engine.pauseTimer($0, generation: nil, at: now) }
  }

  func retimeTimer(_ key: String, _ left: Int64) throws -> TimerView {
    try with(key) {
      try engine.retimeTimer($0, to: .milliseconds(left), generation: nil, at: now)
    }
  }

  @discardableResult
  func delete(_ key: String, _ generation: Int64? = nil) throws -> Bool {
    try with(key) {
      try engine.deleteTimer($0, generation: generation.map(Generation.init), at: now)
    }
  }

  // MARK: Events

  func collect() {
    for event in engine.takeOutbox() {
      if event.name != .snapshot {
        #expect(event.sequence > lastSequence, "seq does not rise")
        lastSequence = event.sequence
      }
      if let late = event.lateMicroseconds { #expect(late >= 0, "early") }
      let line = line(event, event.key)
      let audience = event.audience
      for connection in audience.subscribers + audience.patterns.flatMap(\.subscribers) {
        heard[connection, default: []].append(line)
        events[connection, default: []].append(event)
      }
    }
  }

  /// Expects a connection to have received exactly these events since the last call.
  func hears(
    _ connection: UInt64, _ lines: String..., sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(heard[connection, default: []] == lines, sourceLocation: sourceLocation)
    heard[connection] = []
  }

  func takeHeard(_ connection: UInt64) -> [String] {
    defer { heard[connection] = [] }
    return heard[connection] ?? []
  }

  func takeEvents(_ connection: UInt64) -> [SentEvent] {
    defer { events[connection] = [] }
    return events[connection] ?? []
  }

  private func line(_ event: SentEvent, _ key: [UInt8]) -> String {
    var words = ["\(now.boot.microseconds / 1_000)", String(decoding: key, as: UTF8.self)]
    words.append("\(event.name.text)")
    switch event.subject {
    case let view as CountdownView: words.append("\(view.remaining)")
    case let view as HUDView: if let end = view.end { words.append(end.rawValue) }
    case let view as TimerView:
      if event.name == .fired { words.append("\(view.fired)") }
      if let missed = view.justMissed, missed > 0 { words.append("missed \(missed)") }
    case let view as any GuardView: words += Self.words(view, of: event)
    case let view as ScopeView: if event.name == .snapshot { words.append(view.state.rawValue) }
    case let emission as Emission:
      words.append(String(decoding: emission.name, as: UTF8.self))
      words.append("for \(String(decoding: emission.target, as: UTF8.self))")
      if emission.isCaptured { words.append("captured") }
    case let view as StackView:
      if let occurrence = view.occurrence {
        words.append(String(decoding: occurrence.page, as: UTF8.self))
        if occurrence.isMoving {
          words.append("\(event.name.text)".contains("dis") ? "last" : "first")
        }
      } else {
        words.append(view.state.rawValue)
      }
    case let view as PageView:
      words.append(view.state.rawValue)
    case let view as NothingView: words.append("\(view.kind.behavior.stateOfNothing)")
    default: words.append("?")
    }
    if let reason = event.reason { words.append("\(reason.text)") }
    return words.joined(separator: " ")
  }

  /// Expects that nothing is left: no entity, no armed timer, no event.
  func expectEmpty(sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(engine.entityCount == 0, sourceLocation: sourceLocation)
    #expect(engine.armedCount == 0, sourceLocation: sourceLocation)
    let hasOutbox = engine.hasOutbox
    #expect(!hasOutbox, sourceLocation: sourceLocation)
  }
}

extension Presentation.Request {
  static let plain = Presentation.Request(fadeIn: .zero, fadeOut: .zero)
}
