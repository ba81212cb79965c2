import Countdowns
import Foundation
import Testing

@testable import CountdownServer
@testable import CountdownStore

/// An engine and the store behind it, turn by turn, as the server drives them:
///
///     let kept = try KeptEngine()
///     try kept.start("a")
///     try kept.store()
///     kept.isBroken = true
///     try kept.cancel("a")
///     try kept.takeBack()
///     #expect(kept.left("a") == 60_000)
///
/// Times are in milliseconds on the boot clock.
final class KeptEngine {
  let directory: String
  /// Let go of at the end, as is its lock on the directory.
  private var database: Store?
  let keeper: StateKeeper
  let engine: Engine
  private(set) var now: Moment
  /// Nothing can be stored while it is.
  var isBroken = false {
    didSet { try? database?.database.execute("PRAGMA query_only = \(isBroken ? 1 : 0)") }
  }

  static let start = Moment(
    boot: Instant(microseconds: 1_000_000),
    wall: Instant(microseconds: 1_790_000_000_000_000))
  private static let bootID = "boot-1"

  /// - Parameter directory: of one that has ended; its state is loaded.
  init(_ directory: String? = nil, at now: Moment = start, bootID: String = bootID) throws {
    self.directory = directory ?? NSTemporaryDirectory() + "kept-engine-\(UUID().uuidString)"
    self.now = now
    nonisolated(unsafe) let store = try Store(
      Store.Options(directory: self.directory, durability: .process, product: "test"),
      at: StoreClock.Reading(bootID: bootID, now))
    database = store
    var settings = EngineSettings()
    settings.firstGeneration = store.firstNumber
    engine = Engine(settings: settings, at: now)
    engine.noteChanges()
    engine.connect(1)
    let restoring = Restoring(engine, now)
    store.loadRecords(restoring)
    if let problem = restoring.problem { throw problem }
    try store.beginEvents(after: engine.lastSequence)
    keeper = try StateKeeper(store, bootID: bootID) { _ in }
  }

  /// Puts everything that is stored where it was.
  private final class Restoring: RecordReader {
    let portion = 10
    let wantsMore = true
    private let engine: Engine
    private let now: Moment
    private(set) var problem: StoreError?

    init(_ engine: Engine, _ now: Moment) { (self.engine, self.now) = (engine, now) }

    func take<Record: StoredRecord>(_ rows: [StoredRow<Record>]) {
      #expect(Record.restore(rows, in: engine, now: now) == 0)
    }

    func fail<Record: StoredRecord>(_ error: StoreError, in table: Record.Type) { problem = error }
  }

  var hasChanges: Bool { engine.hasChanges }
  var entityCount: Int { engine.entityCount }
  var armedCount: Int { engine.armedCount }
  var eventCount: Int { engine.eventTail.count }
  /// The number of the newest event that is stored.
  var lastStoredEvent: Int64 { database!.lastEventSequence }
  var latest: Int64 { Int64(engine.statistics.lateness.max) }

  /// What is stored of a countdown.
  func stored(_ key: String) throws -> Countdown.Phase? {
    var phase: Countdown.Phase?
    let database = database!
    try Table<DurableCountdown>.load(database.database, offset: database.clock.offset) {
      if $0.record.key == Array(key.utf8) { phase = $0.record.machine.phase }
    }
    return phase
  }

  func end() {
    keeper.close(at: now)
    database = nil
  }

  func remove() {
    end()
    try? FileManager.default.removeItem(atPath: directory)
  }

  // MARK: Turns

  /// Ends a turn that is stored, or not, later: what comes meanwhile does not wait for it.
  func endTurn() -> StateKeeper.Batch { StoreBatch(takenFrom: engine) }

  /// Stores a turn, the one under way if none is given; the error that it was answered with.
  @discardableResult
  func store(
    _ turn: StateKeeper.Batch? = nil,
    _ whenItFails: (StateKeeper.Batch) throws -> Void = { _ in }
  ) throws -> StoreError? {
    var failure: StoreError?
    var problem: (any Error)?
    withoutActuallyEscaping(whenItFails) { whenItFails in
      keeper.store(turn ?? endTurn(), at: now) { [self] batch, error in
        failure = error
        do {
          if error == nil { keeper.confirm(batch, engine) } else { try whenItFails(batch) }
        } catch { problem = error }
      }
    }
    if let problem { throw problem }
    return failure
  }

  /// A turn of commands that cannot be stored.
  func takeBack(_ turn: StateKeeper.Batch? = nil) throws {
    let error = try store(turn) { [self] in try keeper.takeBack($0, engine, at: now) }
    #expect(error?.kind == .readOnly)
  }

  /// A turn of time alone that cannot be stored.
  func keepForLater() throws {
    let error = try store { [self] in keeper.keepForLater($0, engine) }
    #expect(error?.kind == .readOnly)
  }

  func pass(_ milliseconds: Int64) {
    passUnnoticed(milliseconds)
    while !engine.advance(to: now, budget: 1_000) {}
  }

  /// What is due waits for somebody to look at it.
  func passUnnoticed(_ milliseconds: Int64) {
    now.boot = now.boot + .milliseconds(milliseconds)
    now.wall = now.wall + .milliseconds(milliseconds)
  }

  /// Has everything that happens from now on told.
  func watch() { _ = engine.subscribe(client, toPattern: Array("*".utf8)) }

  /// What was told since the last call: `a cancelled replaced`.
  func takeTold() -> [String] {
    engine.takeOutbox().map { told in
      let key = String(decoding: told.key, as: UTF8.self)
      return "\(key) \(told.event.name.text)" + (told.event.reason.map { " \($0.text)" } ?? "")
    }
  }

  /// How many more entities the client may have if there is a limit.
  func room(within limit: Int) -> Int {
    var settings = EngineSettings()
    settings.limits.entitiesPerUser = limit
    engine.reload(settings)
    var room = 0
    while (try? start("room-\(room)", owner: .connection(1))) != nil { room += 1 }
    return room
  }

  // MARK: Commands

  private let client = Client(connection: 1, uid: 1_000)

  func with<R>(_ key: String, _ body: (Span<UInt8>) throws -> R) rethrows -> R {
    try body(key.utf8.span)
  }

  @discardableResult
  func start(
    _ key: String, owner: Owner = .none, count: UInt32 = 60, policy: SendPolicy? = nil
  ) throws -> CountdownView {
    var start = CountdownStart(Countdown.Plan(count: count, every: .seconds(1))!)
    start.owner = owner
    start.policy = policy
    return try with(key) {
      try engine.startCountdown($0, start, by: client, at: now).1
    }
  }

  func cancel(_ key: String) throws {
    let done = try with(key) { try engine.cancelCountdown($0, generation: nil, at: now) }
    #expect(done)
  }

  func countdown(_ key: String) -> CountdownView? { with(key) { engine.countdown($0, at: now) } }

  /// Milliseconds that are left; nil if it does not count.
  func left(_ key: String) -> Int64? {
    countdown(key).flatMap { $0.state == .counting ? $0.remainingMS : nil }
  }

  @discardableResult
  func set(_ key: String, _ seconds: Int64, owner: Owner = .none) throws -> TimerView {
    var set = TimerSet(after: .seconds(seconds))
    set.owner = owner
    return try with(key) { try engine.setTimer($0, set, by: client, at: now) }
  }

  func delete(_ key: String) throws {
    let done = try with(key) { try engine.deleteTimer($0, generation: nil, at: now) }
    #expect(done)
  }

  func begin(_ key: String, owner: Owner = .none) throws {
    _ = try with(key) {
      try engine.beginOnce($0, for: .seconds(60), owner: owner, by: client, at: now)
    }
  }

  func forget(_ key: String) throws {
    let done = try with(key) { try engine.cancelOnce($0, generation: nil, at: now) }
    #expect(done)
  }

  func once(_ key: String) -> OnceView? { with(key) { engine.once($0, at: now) } }

  func pause(_ key: String) throws {
    _ = try with(key) { try engine.pauseTimer($0, generation: nil, at: now) }
  }

  func timer(_ key: String) -> TimerView? { with(key) { engine.timer($0, at: now) } }

  @discardableResult
  func show(
    _ screen: String, durable: Bool, level: Level = .normal, owner: Owner = .none,
    _ change: (inout Presentation.Request) -> Void = { _ in }
  ) throws -> HUDView {
    engine.reload(Self.allLevels)
    var request = Presentation.Request(fadeIn: .zero, fadeOut: .zero)
    request.isDurable = durable
    change(&request)
    return try with(screen) {
      try engine.showHUD($0, level: level, request, owner: owner, by: client, at: now)
    }
  }

  private static var allLevels: EngineSettings {
    var settings = EngineSettings()
    settings.maximumLevel = .alert
    return settings
  }

  func dismiss(_ screen: String, level: Level? = nil) throws {
    _ = try with(screen) {
      try engine.dismissHUD($0, HUDTarget(level: level), delay: nil, at: now)
    }
  }

  func hud(_ screen: String, level: Level? = nil) -> HUDView? {
    with(screen) { engine.hud($0, level: level, at: now) }
  }
}
