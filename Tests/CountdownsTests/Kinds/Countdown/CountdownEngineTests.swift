import Countdowns
import Simulation
import Testing

/// Countdowns by key: generations, tokens, resends, retention and limits.
@Suite struct CountdownEngineTests {
  let desk = Desk()

  @Test func aCountdownRunsTicksBecomesReadyIsKeptAndForgottenAndLeavesNothingBehind() throws {
    desk.subscribe(1, "countdown:a")
    try desk.at(0).start("a", count: 3)
    desk.at(3_000).hears(
      1, "0 a snapshot idle", "0 a started 3", "1000 a tick 2", "2000 a tick 1", "3000 a ready 0")
    desk.at(602_999)
    #expect(desk.get("a")?.state == .ready)
    desk.at(603_000)
    #expect(desk.get("a") == nil)
    desk.hears(1)
    desk.expectEmpty()
  }

  @Test func keysAreBinarySafeAndDistinct() throws {
    for key in ["a", "A", "a ", "a\0", "", "日本"] { try desk.start(key) }
    #expect(desk.engine.count(.countdown) == 6)
    try desk.cancel("a\0")
    #expect(desk.get("a") != nil)
    #expect(desk.get("a\0") == nil)
  }

  @Test func aGenerationIsGivenOutOnceAndAStaleOneIsRefused() throws {
    var seen: Set<Int64> = []
    for _ in 0..<10 {
      let generation = try desk.start("a", count: 1).view.generation.value
      #expect(seen.insert(generation).inserted)
      try desk.cancel("a")
    }
    let old = try desk.start("a", count: 1).view.generation.value
    desk.at(1_000)
    let current = try desk.resend("a").view.generation
    #expect(current.value > old)
    let stale = EngineError.stale(now: current)
    #expect(throws: stale) { try desk.cancel("a", old) }
    #expect(throws: stale) { try desk.pause("a", old) }
    #expect(throws: stale) { try desk.resume("a", old) }
    #expect(throws: stale) { try desk.retime("a", 0, old) }
    #expect(desk.get("a")?.state == .counting)
    #expect(try desk.cancel("a", current.value))
  }

  @Test func generationsAndSeqBeginWhereTheSettingsSay() throws {
    var settings = EngineSettings()
    settings.firstGeneration = 5_000
    let desk = Desk(settings)
    desk.subscribe(1, "countdown:a")
    #expect(try desk.start("a").view.generation.value == 5_000)
    #expect(desk.lastSequence == 5_000)
  }

  @Test func aRetryWithTheSameTOKENGetsTheFirstReplyAndChangesNothing() throws {
    let first = try desk.start("a", count: 2, token: "t1").view
    let retry = try desk.start("a", count: 9, token: "t1")
    #expect(retry.decision == .acceptedBefore)
    #expect(retry.view == first)
    #expect(try desk.start("a", token: "t2").decision == .refused(.cooldown))
    desk.at(2_000)
    #expect(try desk.start("a", token: "t1").decision == .acceptedBefore)
    #expect(desk.get("a")?.state == .ready)
    // The same token of another command is another token.
    #expect(try desk.resend("a", token: "t1").decision == .accepted)
    #expect(try desk.resend("a", token: "t1").decision == .acceptedBefore)
    #expect(try desk.resend("a", token: "t2").decision == .refused(.cooldown))
    #expect(try desk.start("a", token: "t1").view.generation == first.generation)
    desk.at(4_000)
    #expect(try desk.start("a", count: 2).decision == .accepted)
    desk.at(6_000)
    #expect(try desk.resend("a", token: "t1").decision == .acceptedBefore)
    // Another daemon reads which command each token belongs to.
    let state = WholeState(bytes: desk.engine.wholeState().bytes(offset: 5), offset: 5)!
    let other = Engine(at: desk.now)
    #expect(other.restore(state, at: desk.now)?.isEmpty == true)
    #expect(other.wholeState().bytes(offset: 0) == desk.engine.wholeState().bytes(offset: 0))
  }

  @Test func tokensLiveFor10MinutesFromTheirUseAlsoIfNothingIsKeptReady() throws {
    var settings = EngineSettings()
    settings.keepReady = .zero
    let desk = Desk(settings)
    let policy = SendPolicy.test(count: 1, windows: [(3, 60_000)])
    try desk.start("ready", count: 1, token: "t")
    try desk.start("late", count: 700, token: "t")
    try desk.start("cancelled", policy: policy, token: "t")
    #expect(try desk.cancel("cancelled"))
    desk.at(599_999)
    #expect(try desk.start("ready", token: "t").decision == .acceptedBefore)
    #expect(try desk.start("cancelled", policy: policy, token: "t").decision == .acceptedBefore)
    desk.at(600_000)
    #expect(desk.get("ready") == nil && desk.get("cancelled") == nil)
    #expect(try desk.start("late", token: "t").decision == .acceptedBefore)
    desk.at(700_000)
    #expect(desk.get("late") == nil)
  }

  @Test func resendStartsAgainWithTheKeysLastOptions() throws {
    #expect(throws: EngineError.notFound) { try desk.resend("a") }
    try desk.start("a", count: 3, every: 500, meta: "m", title: "%d to go")
    #expect(try desk.resend("a").decision == .refused(.cooldown))
    desk.at(2_000)
    let view = try desk.resend("a").view
    #expect(view.count == 3)
    #expect(view.remainingMS == 1_500)
    #expect(view.annotations.meta == Array("m".utf8))
    #expect(view.title == Array("3 to go".utf8))
    #expect(view.sends == 2)
  }

  @Test func withKeepReady0AReadyCountdownIsForgottenAtOnce() throws {
    var settings = EngineSettings()
    settings.keepReady = .zero
    let desk = Desk(settings)
    desk.subscribe(1, "countdown:a")
    try desk.start("a", count: 1)
    desk.at(1_000).hears(1, "0 a snapshot idle", "0 a started 1", "1000 a ready 0")
    desk.expectEmpty()
  }

  @Test func aReplyDoesNotDependOnHowFarBehindTheWheelIs() throws {
    try desk.start("a", count: 1)
    try desk.start("b", count: 1)
    try desk.start("c", count: 1)
    desk.unnoticed(at: 1_000)
    #expect(desk.get("a")?.state == .ready)
    #expect(try desk.start("b").decision == .accepted)
    #expect(throws: EngineError.isReady) { try desk.pause("c") }
  }

  @Test func listShowsThePresentHoweverFarBehindTheWheelIs() throws {
    try desk.start("a", count: 1)
    try desk.show("s", Presentation.Request(grace: .seconds(1), fadeIn: .zero))
    try desk.set("t", 1_000)
    desk.connect(2)
    try desk.start("gone", count: 9, owner: .connection(2), by: 2)
    desk.disconnect(2)
    desk.unnoticed(at: 1_000)
    let countdowns = desk.engine.list(.countdown, ListQuery(), at: desk.now).views
    #expect((countdowns as? [CountdownView])?.map(\.state) == [.ready])
    let huds = desk.engine.list(.hud, ListQuery(), at: desk.now).views
    #expect((huds as? [HUDView])?.map(\.state) == [.visible])
    #expect(desk.engine.list(.timer, ListQuery(), at: desk.now).views.isEmpty)
  }

  @Test func startBeyondMaxEntitiesOrAUsersLimitIsRefusedEndedEntitiesNoLongerCount() throws {
    var settings = EngineSettings()
    settings.limits.entities = 4
    settings.limits.entitiesPerUser = 3
    let desk = Desk(settings)
    try desk.start("a")
    try desk.show("a")
    try desk.set("a", 1_000)
    let ofUser = EngineError.limit(name: "max-entities-per-uid", value: 3)
    #expect(throws: ofUser) { try desk.start("b") }
    #expect(throws: ofUser) { try desk.show("b") }
    #expect(throws: ofUser) { try desk.set("b", 1) }
    try desk.start("c", uid: 1_001)
    let ofAll = EngineError.limit(name: "max-entities", value: 4)
    #expect(throws: ofAll) { try desk.start("d", uid: 1_002) }
    // Commands on existing entities are still accepted.
    #expect(try desk.start("a").decision == .refused(.cooldown))
    try desk.set("a", 5_000)
    try desk.show("a")
    #expect(desk.engine.entityCount == 4)
    try desk.delete("a")
    try desk.start("b")
    #expect(desk.engine.entityCount == 4)
  }
}
