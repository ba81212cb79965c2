import Countdowns
import Testing

/// THROTTLE in the engine: events, limits, and when a key is forgotten.
@Suite struct ThrottleEngineTests {
  @Test func aRateLimitAcceptsRefusesAndIsForgottenOnceItIsFullAgain() throws {
    let desk = Desk()
    desk.subscribe(1, "throttle:k")
    desk.at(0)
    try desk.take("k", 2, 1, per: 1_000)
    let second = try desk.take("k", 2, 1, per: 1_000)
    #expect(second.isAccepted && second.view.remaining == 0 && second.view.state == .exhausted)
    let third = try desk.take("k", 2, 1, per: 1_000)
    #expect(!third.isAccepted && third.view.retryAfterMS == 1_000)
    #expect(third.view.resetAfterMS == 2_000)
    desk.at(1_500)
    #expect(try desk.take("k", 2, 1, per: 1_000).isAccepted)
    desk.at(9_000).hears(
      1, "0 k snapshot idle", "0 k accepted available 1", "0 k accepted exhausted 0",
      "0 k refused exhausted 0 rate", "1500 k accepted exhausted 0", "3000 k ready idle 2")
    #expect(desk.throttle("k") == nil)
    desk.unsubscribe(1, "throttle:k")
    desk.expectEmpty()
  }

  @Test func peekGivesTheAnswerOfTheNextRequestAndChangesNothing() throws {
    let desk = Desk()
    desk.subscribe(1, "throttle:k")
    let unknown = try desk.take("k", 2, 1, per: 1_000, peek: true)
    #expect(unknown.isAccepted && unknown.view.remaining == 2 && unknown.view.state == .idle)
    #expect(unknown.view.generation == Generation(0))
    desk.expectEmpty()
    try desk.take("k", 1, 1, per: 1_000)
    desk.at(400)
    let peeked = try desk.take("k", 1, 1, per: 1_000, peek: true)
    #expect(!peeked.isAccepted && peeked.view.retryAfterMS == 600)
    desk.hears(1, "0 k snapshot idle", "0 k accepted exhausted 0")
  }

  @Test func refundGivesBackWhatWasUsedAFullLimitIsForgotten() throws {
    let desk = Desk()
    desk.subscribe(1, "throttle:k")
    let generation = try desk.take("k", 3, 1, per: 1_000, cost: 3).view.generation.value
    #expect(throws: EngineError.stale(now: Generation(generation))) {
      try desk.refund(throttle: "k", 1, generation + 1)
    }
    #expect(try desk.refund(throttle: "k", 1, generation)?.remaining == 1)
    #expect(try desk.refund(throttle: "k", 9)?.remaining == 3)
    #expect(try desk.refund(throttle: "k") == nil)
    desk.hears(
      1, "0 k snapshot idle", "0 k accepted exhausted 0", "0 k refunded available 1",
      "0 k refunded idle 3")
    desk.unsubscribe(1, "throttle:k")
    desk.expectEmpty()
  }

  @Test func aRateLimitIsNotForgottenBeforeItsLastMicrosecond() throws {
    let desk = Desk()
    try desk.take("k", 1, 7, per: 1_000)
    // One use is available again after 142,857.14… µs.
    desk.at(142)
    #expect(desk.throttle("k")?.retryAfterMS == 1)
    #expect(try !desk.take("k", 1, 7, per: 1_000).isAccepted)
    desk.at(143)
    #expect(try desk.take("k", 1, 7, per: 1_000).isAccepted)
  }

  @Test func limitsOfEntitiesApplyToNewKeysOnly() throws {
    var settings = EngineSettings()
    settings.limits.entities = 1
    let desk = Desk(settings)
    try desk.take("a", 2, 1, per: 1_000)
    try desk.take("a", 2, 1, per: 1_000)
    #expect(throws: EngineError.limit(name: "max-entities", value: 1)) {
      try desk.take("b", 2, 1, per: 1_000)
    }
    desk.at(2_000)
    try desk.take("b", 2, 1, per: 1_000)
  }

  @Test func whileReadOnlyRefusalsAndPEEKWorkAndAcceptingIsRefused() throws {
    let desk = Desk()
    try desk.take("k", 1, 1, per: 1_000)
    desk.engine.isReadOnly = true
    #expect(try !desk.take("k", 1, 1, per: 1_000).isAccepted)
    #expect(try desk.take("new", 1, 1, per: 1_000, peek: true).isAccepted)
    #expect(throws: EngineError.readOnly) { try desk.take("new", 1, 1, per: 1_000) }
    #expect(throws: EngineError.readOnly) { try desk.take("k", 2, 1, per: 1_000) }
    #expect(throws: EngineError.readOnly) { try desk.refund(throttle: "k") }
    #expect(desk.throttle("k")?.limit == 1)
    #expect(desk.throttle("new") == nil)
  }

  @Test func rateLimitsTakeNoRoomInTheEventLog() throws {
    let desk = Desk()
    try desk.take("k", 1, 1, per: 1_000)
    try desk.start("c")
    desk.at(5_000)
    #expect(desk.engine.eventLog.count == 1)
  }
}
