import SeededRandom
import Testing

@testable import CountdownServer
@testable import Countdowns

/// HUDs shown with DURABLE survive a restart.
@Suite final class DurableHUDTests {
  private var kept: KeptEngine

  init() throws { kept = try KeptEngine() }
  deinit { kept.remove() }

  private func restart(away milliseconds: Int64 = 0, bootID: String = "boot-1") throws {
    kept.store()
    kept.end()
    var now = kept.now
    now.boot = now.boot + .milliseconds(milliseconds)
    now.wall = now.wall + .milliseconds(milliseconds)
    // A machine that has just come up.
    if bootID != "boot-1" { now.boot = Instant(microseconds: 7) }
    kept = try KeptEngine(kept.directory, at: now, bootID: bootID)
    kept.pass(0)
  }

  @Test(arguments: ["boot-1", "boot-2"])
  func aRestoredHUDKeepsItsTimes(bootID: String) throws {
    try kept.show("s", durable: true) {
      $0.status = Array("Loading".utf8)
      $0.minimum = .seconds(10)
      $0.maximum = .seconds(60)
      $0.mask = .black
    }
    try kept.show("s", durable: true, level: .alert) { $0.kind = .progress }
    try kept.dismiss("s", level: .normal)
    kept.pass(2_000)
    let before = try #require(kept.hud("s", level: .normal))
    #expect(before.state == .visible && before.isDismissing && before.remainingMS == 8_000)
    try restart(away: 3_000, bootID: bootID)
    var after = try #require(kept.hud("s", level: .normal))
    #expect(after.remainingMS == 5_000)
    after.remainingMS = before.remainingMS
    after.nowUnixMS = before.nowUnixMS
    #expect(after == before)
    #expect(kept.hud("s")?.level == .alert && kept.hud("s")?.content == .progress)
    kept.pass(4_999)
    #expect(kept.hud("s", level: .normal) != nil)
    kept.pass(1)
    #expect(kept.hud("s", level: .normal) == nil && kept.hud("s") != nil)
  }

  @Test func whatFellDueWhileTheDaemonWasDownHappensLate() throws {
    try kept.show("s", durable: true) { $0.maximum = .seconds(5) }
    try restart(away: 60_000)
    #expect(kept.hud("s") == nil)
    #expect(kept.latest >= 55_000_000)
    try restart()
    #expect(kept.entityCount == 0)
  }

  @Test func onlyDurableHUDsAreStored() throws {
    try kept.show("s", durable: true)
    try kept.show("s", durable: false, level: .alert)
    try kept.show("gone", durable: false)
    try kept.show("superseded", durable: true)
    kept.store()
    try kept.show("superseded", durable: false) { $0.kind = .info }
    try restart()
    #expect(kept.entityCount == 1)
    #expect(kept.hud("s")?.level == .normal)
  }

  @Test func aPausedHUDStaysPaused() throws {
    try kept.show("s", durable: true) { $0.maximum = .seconds(10) }
    kept.pass(4_000)
    _ = try kept.with("s") { try kept.engine.pauseHUD($0, HUDTarget(), at: kept.now) }
    try restart(away: 100_000, bootID: "boot-2")
    let paused = try #require(kept.hud("s"))
    #expect(paused.isPaused && paused.remainingMS == 6_000)
    _ = try kept.with("s") { try kept.engine.resumeHUD($0, HUDTarget(), at: kept.now) }
    kept.pass(6_000)
    #expect(kept.hud("s") == nil)
  }

  @Test func holdsWithoutDURABLEEndWithTheDaemon() throws {
    try kept.show("s", durable: false, owner: .connection(1)) { $0.mask = .custom }
    try kept.show("s", durable: true) { $0.status = Array("kept".utf8) }
    try kept.show("s", durable: false) { $0.status = Array("on top".utf8) }
    #expect(kept.hud("s")?.holds.count == 3)
    #expect(kept.hud("s")?.mask == .custom)
    let generation = kept.hud("s")?.holds[1].generation
    try restart()
    let after = try #require(kept.hud("s"))
    #expect(after.holds.map(\.generation) == [generation])
    #expect(after.status == Array("kept".utf8))
    #expect(after.mask == .none)
    // Without the only durable one nothing is stored.
    try kept.show("t", durable: false)
    try kept.show("t", durable: true)
    kept.store()
    _ = try kept.with("t") {
      try kept.engine.popHUD(
        $0, HUDTarget(), by: Client(connection: 2, uid: 1_000), at: kept.now)
    }
    #expect(kept.hud("t")?.holds.count == 1)
    try restart()
    #expect(kept.entityCount == 1)
    #expect(kept.hud("t") == nil && kept.hud("s") != nil)
  }

  @Test(arguments: ["boot-1", "boot-2"])
  func severalDurableHoldsKeepTheirWishes(bootID: String) throws {
    try kept.show("s", durable: true) {
      $0.mask = .custom
      $0.path = Array("/api/Order/Submit".utf8)
      $0.maximum = .seconds(60)
    }
    kept.pass(1_000)
    try kept.show("s", durable: true) {
      $0.kind = .progress
      $0.status = Array("list".utf8)
      $0.maximum = .seconds(10)
    }
    let before = try #require(kept.hud("s"))
    try restart(away: 2_000, bootID: bootID)
    var after = try #require(kept.hud("s"))
    #expect(after.holds.map(\.request) == before.holds.map(\.request))
    #expect(after.remainingMS == 57_000)
    after.holds = before.holds
    after.remainingMS = before.remainingMS
    after.nowUnixMS = before.nowUnixMS
    #expect(after == before)
    // The MAX of each goes on.
    kept.pass(7_999)
    #expect(kept.hud("s")?.holds.count == 2)
    kept.pass(1)
    #expect(kept.hud("s")?.holds.map(\.request.path) == [Array("/api/Order/Submit".utf8)])
    kept.pass(48_999)
    #expect(kept.hud("s") != nil)
    kept.pass(1)
    #expect(kept.hud("s") == nil)
  }

  @Test(arguments: 0..<50)
  func whateverAPresentationIsBytesAndBackItIsTheSame(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    func pick<T>(_ choices: [T]) -> T { choices.randomElement(using: &random)! }
    func time() -> Instant {
      Instant(microseconds: .random(in: -9_000_000...9_000_000, using: &random))
    }
    func request() -> Presentation.Request {
      var request = Presentation.Request(
        kind: pick(Presentation.Kind.allCases),
        status: pick([nil, [], [0, 255], Array("x".utf8)]),
        grace: .milliseconds(.random(in: 0...9, using: &random)),
        minimum: .milliseconds(.random(in: 0...9, using: &random)),
        maximum: pick([nil, .zero, .seconds(3)]), fadeIn: .milliseconds(pick([0, 3])),
        fadeOut: .milliseconds(pick([0, 4])), minimumFrom: pick(Presentation.MinimumFrom.allCases),
        early: pick(Presentation.Early.allCases), mask: pick(Presentation.Mask.allCases),
        messageMinimum: .milliseconds(pick([0, 5])))
      request.isDurable = true
      request.path = pick([nil, Array("/api/x".utf8), [0xFF]])
      return request
    }
    var presentations: [(level: Level, machine: Presentation)] = []
    for level in Level.allCases {
      var machine = Presentation.blank
      machine.generation = Generation(.random(in: 1...Int64.max, using: &random))
      machine.isHeld = pick([true, false])
      machine.shows = (1...Int64(machine.isHeld ? pick([1, 2, 5]) : 1)).map { number in
        var show = Presentation.Show(
          request(), generation: Generation(number), owner: .none, since: time())
        show.fraction = pick([nil, 0, 0.3, 1])
        return show
      }
      let since = time()
      machine.phase = pick([
        .waiting, .appearing(since: since, until: since + .milliseconds(pick([0, 9]))), .visible,
        .disappearing(until: time()),
      ])
      machine.requestedAt = time()
      machine.appearedAt = time()
      machine.visibleSince = time()
      machine.dismissal = pick([
        nil, .delayed(until: time()), .held(since: time(), .tapped),
        .held(since: time(), .ownerGone),
      ])
      machine.end = pick([nil, .timedOut, .dismissed])
      machine.pausedAt = pick([nil, time()])
      presentations.append((level, machine))
    }
    var state = HUDEntity(key: [1], presentations: presentations, owners: [], uid: 7)
    func read(_ bytes: ArraySlice<UInt8>, offset: Int64) -> HUDEntity? {
      var reader = StateReader(bytes, offset: offset)
      let key: [UInt8] = [1]
      var read = HUDEntity.blank(key.span)
      read.state(&reader)
      return reader.hasFailed || reader.bytesLeft > 0 ? nil : read
    }
    var writer = StateWriter(offset: 77)
    state.state(&writer)
    let back = try #require(read(writer.bytes[...], offset: 77))
    #expect(back.presentations.elementsEqual(presentations, by: ==) && back.uid == 7)
    // Another boot: the same moments of the store's clock.
    let moved = try #require(read(writer.bytes[...], offset: 100)).presentations
    #expect(
      moved[0].machine.requestedAt.microseconds
        == presentations[0].machine.requestedAt.microseconds - 23)
    for length in 0..<writer.bytes.count {
      #expect(read(writer.bytes[..<length], offset: 77) == nil)
    }
  }
}
