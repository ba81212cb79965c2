import Countdowns
import Foundation
import Simulation
import Testing

@testable import CountdownServer
@testable import CountdownStore

/// An engine and the store behind it, batch by batch, as the server drives them:
///
///     let kept = try KeptEngine()
///     try kept.start("a")
///     kept.store()
///
/// Times are in milliseconds on the boot clock.
final class KeptEngine {
  let directory: String
  private let writer: StoreWriter
  private let bootID: String
  let engine: Engine
  private(set) var now: Moment

  static let start = Moment(
    boot: Instant(microseconds: 1_000_000),
    wall: Instant(microseconds: 1_790_000_000_000_000))
  private static let bootID = "boot-1"

  /// - Parameter directory: of one that has ended; its state is loaded.
  init(_ directory: String? = nil, at now: Moment = start, bootID: String = bootID) throws {
    self.directory = directory ?? NSTemporaryDirectory() + "kept-engine-\(UUID().uuidString)"
    self.now = now
    self.bootID = bootID
    var chosen = Store.Options(directory: self.directory, durability: .process, product: "test")
    chosen.segmentSize = 65_536
    let reading = StoreClock.Reading(bootID: bootID, now)
    nonisolated(unsafe) let store = try Store(chosen, at: reading)
    var settings = EngineSettings()
    settings.firstGeneration = store.firstNumber
    engine = Engine(settings: settings, at: now)
    engine.noteChanges()
    engine.connect(1)
    try store.loadEntities(Restoring(engine, now, offset: store.clock.offset))
    writer = try StoreWriter(
      store, eventsAfter: engine.lastSequence, at: reading, execute: { _ in },
      failed: { Issue.record($0) })
  }

  /// Puts everything that is stored where it was.
  private final class Restoring: EntityReader {
    let portion = 10
    private let engine: Engine
    private let now: Moment
    private let offset: Int64

    init(_ engine: Engine, _ now: Moment, offset: Int64) {
      (self.engine, self.now, self.offset) = (engine, now, offset)
    }

    func take(_ entities: StoredEntities) {
      #expect(engine.restore(entities, offset: offset, at: now).isEmpty)
    }
  }

  var hasChanges: Bool { engine.hasChanges }
  var entityCount: Int { engine.entityCount }
  var armedCount: Int { engine.armedCount }
  var eventCount: Int { engine.eventLog.count }
  var latest: Int64 { Int64(engine.statistics.lateness.histogram.max) }

  /// What a batch says of the countdown at the first place: nothing, or whether it is stored.
  enum Noted { case nothing, current, gone }

  /// Takes the batch, and stores it.
  @discardableResult
  func store() -> Noted {
    engine.takeChanges(into: writer.batch)
    var noted = Noted.nothing
    _ = ChangeEntry.forEach(of: writer.batch.bytes[...]) {
      switch $0 {
      case .current(.countdown, slot: 0, _): noted = .current
      case .gone(.countdown, slot: 0): noted = .gone
      default: break
      }
    }
    writer.commit(at: StoreClock.Reading(bootID: bootID, now)) {}
    return noted
  }

  func end() { writer.close(at: StoreClock.Reading(bootID: bootID, now)) }

  func remove() {
    end()
    try? FileManager.default.removeItem(atPath: directory)
  }

  // MARK: Time

  func pass(_ milliseconds: Int64) {
    passUnnoticed(milliseconds)
    while !engine.advance(to: now, budget: 1_000) {}
  }

  /// What is due waits for somebody to look at it.
  func passUnnoticed(_ milliseconds: Int64) {
    now.boot = now.boot + .milliseconds(milliseconds)
    now.wall = now.wall + .milliseconds(milliseconds)
  }

  // MARK: Commands

  let client = Client(connection: 1, uid: 1_000)

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
    return try with(key) { try engine.setTimer($0, set, by: client, at: now).view }
  }

  func delete(_ key: String) throws {
    let done = try with(key) { try engine.deleteTimer($0, generation: nil, at: now) }
    #expect(done)
  }

  func begin(_ key: String, owner: Owner = .none) throws {
    var request = OnceRequest(ttl: .seconds(60))
    request.owner = owner
    _ = try with(key) { try engine.beginOnce($0, request, by: client, at: now) }
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
    engine.reload(Self.allLevels, at: now)
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
