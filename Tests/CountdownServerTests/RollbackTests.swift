import CountdownStore
import Countdowns
import Testing

/// A batch that cannot be stored is rolled back.
@Suite final class RollbackTests {
  let kept: KeptEngine

  init() throws { kept = try KeptEngine() }
  deinit { kept.remove() }

  /// What is in memory is what is stored: nothing would be another way after a restart.
  private func expectSame(_ keys: [String], _ body: (KeptEngine) -> [AnyHashable?]) throws {
    kept.isBroken = false
    let here = body(kept)
    try kept.store()
    #expect(kept.entityCount == keys.count)
    kept.end()
    let again = try KeptEngine(kept.directory, at: kept.now)
    // Before anything that is due for them happens.
    #expect(again.entityCount == keys.count)
    #expect(body(again) == here)
    again.end()
  }

  @Test func rolledBackStartsAreGone() throws {
    try kept.start("before")
    try kept.set("before", 60)
    try kept.store()
    kept.isBroken = true
    try kept.start("new")
    try kept.set("new", 60)
    try kept.show("new", durable: true) { $0.maximum = .seconds(60) }
    try kept.takeBack()
    #expect(kept.countdown("new") == nil && kept.timer("new") == nil && kept.hud("new") == nil)
    #expect(kept.entityCount == 2 && kept.armedCount == 2)
    // The places are free again, and so are the keys.
    kept.isBroken = false
    try kept.start("other")
    try kept.start("new")
    #expect(try kept.store() == nil)
    try expectSame(["before", "before", "other", "new"]) { kept in
      [
        kept.left("before"), kept.left("other"), kept.left("new"),
        kept.timer("before")?.remainingMS,
      ]
    }
  }

  @Test func rolledBackCancelsRunOn() throws {
    let first = try kept.start("a")
    let timer = try kept.set("t", 60)
    try kept.store()
    kept.pass(10_000)
    kept.isBroken = true
    try kept.cancel("a")
    try kept.delete("t")
    #expect(kept.armedCount == 0)
    try kept.takeBack()
    #expect(kept.left("a") == 50_000 && kept.countdown("a")?.generation == first.generation)
    #expect(kept.timer("t")?.remainingMS == 50_000)
    #expect(kept.timer("t")?.generation == timer.generation)
    kept.pass(50_000)
    #expect(kept.countdown("a")?.state == .ready && kept.timer("t") == nil)
  }

  @Test func anEntityInARestoredPlaceMakesWay() throws {
    let first = try kept.start("a")
    try kept.store()
    kept.isBroken = true
    try kept.cancel("a")
    // In the place of the one that was cancelled; once nobody's, once the connection's.
    try kept.start("b")
    try kept.start("c", owner: .connection(1))
    try kept.takeBack()
    #expect(kept.countdown("a")?.generation == first.generation)
    #expect(kept.countdown("b") == nil)
    // What is not kept and was not in the way stays.
    #expect(kept.countdown("c") != nil)
    kept.engine.disconnect(1)
    kept.pass(0)
    try expectSame(["a"]) { kept in [kept.left("a")] }
  }

  @Test func aRestoredKeyReturnsToItsStoredPlace() throws {
    let first = try kept.start("a")
    try kept.store()
    kept.isBroken = true
    try kept.cancel("a")
    try kept.start("b")
    let second = try kept.start("a")
    #expect(second.generation != first.generation)
    try kept.takeBack()
    #expect(kept.countdown("a")?.generation == first.generation)
    #expect(kept.countdown("b") == nil && kept.entityCount == 1)
    try expectSame(["a"]) { kept in [kept.left("a")] }
  }

  @Test func ownershipByAConnectionIsRolledBack() throws {
    try kept.set("t", 60)
    try kept.store()
    kept.isBroken = true
    try kept.set("t", 5, owner: .connection(1))
    try kept.takeBack()
    #expect(kept.timer("t")?.remainingMS == 60_000 && kept.timer("t")?.owner == Owner.none)
    kept.engine.disconnect(1)
    kept.pass(0)
    #expect(kept.timer("t") != nil)
  }

  @Test func theOwnerOfAReusedNameIsNotified() throws {
    let before = try kept.start("a")
    try kept.set("a", 60)
    try kept.store()
    kept.watch()
    kept.isBroken = true
    try kept.cancel("a")
    try kept.delete("a")
    let turn = kept.endTurn()
    // Under a policy, what was sent is remembered even of what is cancelled.
    var rules = SendPolicy.Rules()
    rules.count = 5
    let policy = try SendPolicy(name: "p", rules)
    try kept.start("a", owner: .connection(1), policy: policy)
    try kept.set("a", 5, owner: .connection(1))
    _ = kept.takeTold()
    try kept.takeBack(turn)
    #expect(kept.takeTold() == ["a cancelled replaced", "a cancelled replaced"])
    #expect(kept.countdown("a")?.generation == before.generation && kept.entityCount == 2)
    #expect(kept.timer("a")?.remainingMS == 60_000 && kept.timer("a")?.owner == Owner.none)
    // Those that nobody was to own had not been told of yet, and never were.
    try kept.cancel("a")
    try kept.delete("a")
    try kept.start("a", policy: policy)
    try kept.set("a", 5)
    _ = kept.takeTold()
    try kept.takeBack()
    #expect(kept.takeTold() == [])
    try expectSame(["a", "a"]) { kept in [kept.left("a"), kept.timer("a")?.remainingMS] }
  }

  @Test func restoredEntitiesCountForTheirUser() throws {
    try kept.start("a")
    try kept.set("a", 60)
    try kept.show("a", durable: true)
    try kept.begin("a")
    try kept.store()
    kept.isBroken = true
    for _ in 0..<3 {
      try kept.cancel("a")
      try kept.delete("a")
      try kept.dismiss("a")
      try kept.forget("a")
      try kept.start("b")
      try kept.set("b", 60)
      try kept.show("b", durable: true)
      try kept.begin("b")
      try kept.takeBack()
    }
    #expect(kept.entityCount == 4 && kept.room(within: 9) == 5)
    kept.isBroken = false
    kept.end()
    let again = try KeptEngine(kept.directory, at: kept.now)
    #expect(again.entityCount == 4 && again.room(within: 9) == 5)
    again.end()
  }

  @Test func whatFellDueMeanwhileHappensAfterTheRollback() throws {
    try kept.start("a", count: 10)
    try kept.store()
    kept.isBroken = true
    kept.pass(5_000)
    try kept.cancel("a")
    kept.pass(10_000)
    try kept.takeBack()
    kept.pass(0)
    let view = try #require(kept.countdown("a"))
    #expect(view.state == .ready)
    #expect(kept.latest >= 5_000_000)
  }

  @Test func rolledBackEventsLeaveTheLog() throws {
    try kept.start("a")
    try kept.store()
    let before = kept.eventCount
    kept.isBroken = true
    try kept.cancel("a")
    try kept.start("b")
    #expect(kept.eventCount == before + 2)
    try kept.takeBack()
    #expect(kept.eventCount == before)
  }

  @Test func manyRollbacksInARowRestoreTheState() throws {
    for n in 0..<20 { try kept.start("k\(n)") }
    try kept.store()
    kept.isBroken = true
    for round in 0..<50 {
      for n in 0..<20 where (n * 7 + round) % 3 == 0 { try kept.cancel("k\(n)") }
      for n in 0..<20 where (n + round) % 4 == 0 { try kept.start("x\(n)") }
      for n in 0..<20 where kept.countdown("k\(n)") == nil && n % 2 == round % 2 {
        try kept.start("k\(n)")
      }
      try kept.takeBack()
      #expect(kept.entityCount == 20 && kept.armedCount == 20)
      for n in 0..<20 { #expect(kept.left("k\(n)") == 60_000) }
    }
  }

  // MARK: HUDs

  @Test func aDurableHUDIsShownAgainAndOtherLevelsStay() throws {
    let durable = try kept.show("s", durable: true)
    try kept.store()
    kept.isBroken = true
    let alert = try kept.show("s", durable: false, level: .alert, owner: .connection(1))
    try kept.dismiss("s", level: .normal)
    #expect(kept.hud("s", level: .normal) == nil)
    try kept.takeBack()
    #expect(kept.hud("s", level: .normal)?.generation == durable.generation)
    #expect(kept.hud("s", level: .alert)?.generation == alert.generation)
    // It is still its connection's.
    kept.engine.disconnect(1)
    kept.pass(0)
    #expect(kept.hud("s")?.level == .normal)
    try expectSame(["s"]) { kept in [kept.hud("s")?.generation.value] }
  }

  @Test func aScreenInARestoredPlaceMovesAside() throws {
    let durable = try kept.show("s", durable: true)
    try kept.store()
    kept.isBroken = true
    try kept.dismiss("s")
    let (changes, all) = (kept.engine.changeCount, kept.engine.anyChangeCount)
    let other = try kept.show("other", durable: false, owner: .connection(1)) {
      $0.maximum = .seconds(1)
    }
    // It stays, so whoever showed it is not told otherwise.
    #expect(kept.engine.changeCount == changes && kept.engine.anyChangeCount > all)
    try kept.takeBack()
    #expect(kept.hud("s")?.generation == durable.generation)
    #expect(kept.hud("other")?.generation == other.generation)
    kept.pass(1_000)
    #expect(kept.hud("other") == nil && kept.hud("s") != nil)
    #expect(kept.entityCount == 1 && kept.armedCount == 0)
  }

  @Test func anEntityThatEndsInItsFirstBatchIsAChange() throws {
    kept.isBroken = true
    try kept.show("s", durable: true)
    let changes = kept.engine.changeCount
    try kept.dismiss("s")
    #expect(kept.hud("s") == nil && kept.engine.changeCount > changes)
    try kept.takeBack()
    #expect(kept.entityCount == 0)
  }

  @Test func aHUDThatSupersededADurableOneMakesWay() throws {
    let durable = try kept.show("s", durable: true) { $0.status = Array("kept".utf8) }
    try kept.store()
    kept.isBroken = true
    try kept.show("s", durable: false, owner: .connection(1))
    try kept.takeBack()
    let view = try #require(kept.hud("s"))
    #expect(view.generation == durable.generation && view.status == Array("kept".utf8))
    #expect(view.leases == 1 && view.isDurable)
  }

  // MARK: Time

  @Test func changesByTimeAreStoredLater() throws {
    try kept.start("a", count: 1)
    try kept.set("t", 1)
    try kept.start("b")
    try kept.store()
    kept.isBroken = true
    kept.pass(1_000)
    for _ in 0..<3 { try kept.keepForLater() }
    #expect(kept.countdown("a")?.state == .ready && kept.timer("t") == nil)
    let events = kept.eventCount
    kept.isBroken = false
    #expect(kept.hasChanges)
    #expect(try kept.store() == nil)
    #expect(!kept.hasChanges && kept.eventCount == events)
    #expect(kept.lastStoredEvent == kept.engine.lastSequence)
    guard case .ready = try kept.stored("a") else {
      Issue.record("it is stored as it was before")
      return
    }
    try expectSame(["a", "b"]) { kept in
      [kept.countdown("a")?.state == .ready, kept.timer("t") == nil, kept.left("b")]
    }
  }

  @Test func aRollbackAfterTimeHasPassedRestoresTheStoredState() throws {
    try kept.start("a", count: 2)
    try kept.store()
    kept.isBroken = true
    kept.pass(2_000)
    try kept.keepForLater()
    // Ready in memory, counting in the store: a start of it cannot be stored either.
    try kept.start("a", count: 100)
    try kept.takeBack()
    kept.pass(0)
    #expect(kept.countdown("a")?.state == .ready)
    try expectSame(["a"]) { kept in [kept.countdown("a")?.state == .ready] }
  }
}
