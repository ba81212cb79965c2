import Countdowns
import Testing

/// ONCE in the engine: every transition and every reason.
@Suite struct OnceEngineTests {
  @Test func theFirstRequestIsAcceptedOthersGetItsStatusUntilTTL() throws {
    let desk = Desk()
    desk.subscribe(1, "once:k")
    let first = try desk.begin("k", ttl: 10_000)
    #expect(first.isAccepted && first.view.state == .running && first.view.result == nil)
    desk.at(1_000)
    let second = try desk.begin("k", ttl: 99_000)
    #expect(!second.isAccepted && second.view.generation == first.view.generation)
    #expect(second.view.remainingMS == 9_000)
    #expect(try desk.done("k", "42").isAccepted)
    let third = try desk.begin("k")
    #expect(!third.isAccepted && third.view.state == .done)
    #expect(third.view.result == Array("42".utf8))
    let again = try desk.done("k", "43")
    #expect(!again.isAccepted && again.view.result == Array("42".utf8))
    desk.at(10_000).hears(
      1, "0 k snapshot idle", "0 k started running", "1000 k refused running duplicate",
      "1000 k done done 42", "1000 k refused done 42 duplicate", "10000 k expired idle")
    #expect(throws: EngineError.notFound) { try desk.done("k", "44") }
    #expect(try desk.begin("k").isAccepted)
  }

  @Test func anIdempotencyKeyLivesExactlyAsLongAsItsTTL() throws {
    let desk = Desk()
    try desk.begin("k", ttl: 1)
    #expect(try !desk.begin("k").isAccepted)
    desk.unnoticed(at: 1)
    #expect(try desk.begin("k").isAccepted)
  }

  @Test func afterCANCELTheNextRequestIsAcceptedAGenerationStopsASlowWorker() throws {
    let desk = Desk()
    desk.subscribe(1, "once:k")
    let old = try desk.begin("k").view.generation.value
    #expect(try desk.cancel(once: "k", old))
    #expect(try !desk.cancel(once: "k"))
    let new = try desk.begin("k").view.generation
    #expect(throws: EngineError.stale(now: new)) { try desk.done("k", "late", old) }
    #expect(throws: EngineError.stale(now: new)) { try desk.cancel(once: "k", old) }
    #expect(try desk.done("k", "in time", new.value).isAccepted)
    desk.hears(
      1, "0 k snapshot idle", "0 k started running", "0 k cancelled idle cancelled",
      "0 k started running", "0 k done done in time")
  }

  @Test func ifTheOwnerDisconnectsBeforeDONEOthersMayTryAfterDONETheResultStays() throws {
    let desk = Desk()
    desk.connect(2)
    desk.subscribe(1, "once:a")
    try desk.begin("a", owner: .connection(2))
    try desk.begin("b", owner: .connection(2))
    #expect(try desk.done("b", "r").view.owner == Owner.none)
    desk.disconnect(2)
    #expect(try desk.begin("a").isAccepted)
    #expect(try !desk.begin("b").isAccepted)
    desk.hears(
      1, "0 a snapshot idle", "0 a started running", "0 a cancelled idle owner-gone",
      "0 a started running")
  }
}

@Suite struct GateEngineTests {
  @Test func afterTheLoginTheWaitingActionRunsOnceAndTheSessionClosesByItself() throws {
    let desk = Desk()
    desk.subscribe(1, "gate:s")
    let asked = try desk.check("s", "buy", payload: "7")
    #expect(!asked.isAccepted && asked.view.state == .pending)
    desk.at(1_000)
    let open = try desk.open(gate: "s", ttl: 5_000)
    #expect(open.state == .open && open.action == Array("buy".utf8))
    #expect(open.payload == Array("7".utf8) && !open.isTaken)
    #expect(try desk.done(gate: "s", by: 1))
    #expect(desk.gate("s")?.action == nil)
    #expect(try desk.check("s", "sell").isAccepted)
    desk.at(5_999)
    #expect(try desk.check("s", "sell").isAccepted)
    desk.at(6_000)
    #expect(try !desk.check("s", "sell", ttl: 1_000).isAccepted)
    desk.at(9_000).hears(
      1, "0 s snapshot closed", "0 s pending pending buy 7", "1000 s opened open buy 7",
      "1000 s run open buy 7", "1000 s done open buy 7", "6000 s closed closed expired",
      "6000 s pending pending sell",
      "7000 s dismissed closed sell expired")
    desk.unsubscribe(1, "gate:s")
    desk.expectEmpty()
  }

  @Test func ofTwoWaitingActionsOnlyTheNewestRunsWithTheGenerationOfItsCHECK() throws {
    let desk = Desk()
    desk.subscribe(1, "gate:s")
    let first = try desk.check("s", "buy", payload: "1").view.generation
    let second = try desk.check("s", "buy", payload: "2").view.generation
    #expect(second > first)
    let open = try desk.open(gate: "s")
    #expect(open.generation == second && open.remainingMS == nil)
    #expect(try desk.open(gate: "s").generation == second)
    #expect(throws: EngineError.stale(now: second)) {
      try desk.done(gate: "s", by: 1, first.value)
    }
    #expect(try desk.done(gate: "s", by: 1, second.value))
    #expect(try desk.open(gate: "s").generation > second)
    let run = desk.takeEvents(1).filter { $0.name == .run }
    #expect(run.map(\.generation) == [second])
    desk.hears(
      1, "0 s snapshot closed", "0 s pending pending buy 1", "0 s dismissed closed buy 1 replaced",
      "0 s pending pending buy 2", "0 s opened open buy 2", "0 s run open buy 2",
      "0 s opened open buy 2", "0 s done open buy 2", "0 s opened open")
  }

  @Test func oneOfSeveralTakesTheActionIfItDisconnectsBeforeDONETheNextOneTakesIt() throws {
    let desk = Desk()
    for connection in 2...4 { desk.connect(UInt64(connection)) }
    desk.subscribe(1, "gate:s")
    #expect(try desk.take(gate: "s", by: 2) == .noAction)
    try desk.check("s", "buy", ttl: 10_000)
    #expect(try desk.take(gate: "s", by: 2) == .login)
    try desk.open(gate: "s")
    #expect(try desk.take(gate: "s", by: 2) == nil)
    #expect(try desk.take(gate: "s", by: 2) == nil)
    #expect(try desk.take(gate: "s", by: 3) == .taken)
    #expect(try !desk.done(gate: "s", by: 3))
    #expect(desk.gate("s")?.isTaken == true)
    desk.at(1_000)
    desk.disconnect(2)
    desk.at(1_000)
    #expect(try desk.take(gate: "s", by: 3) == nil)
    desk.disconnect(3)
    // TAKE works before the cleanup of connection 3.
    #expect(try desk.take(gate: "s", by: 4) == nil)
    desk.at(60_000)
    #expect(try desk.done(gate: "s", by: 4))
    #expect(try !desk.done(gate: "s", by: 4))
    #expect(try desk.take(gate: "s", by: 4) == .noAction)
    desk.disconnect(4)
    desk.at(60_000).hears(
      1, "0 s snapshot closed", "0 s pending pending buy", "0 s opened open buy",
      "0 s run open buy",
      "0 s taken open buy", "1000 s run open buy", "1000 s taken open buy", "1000 s run open buy",
      "1000 s taken open buy", "60000 s done open buy")
    #expect(desk.engine.armedCount == 0)
  }

  @Test func anActionEndsWithItsTTLOrWithTheSessionUnlessSomebodyRunsIt() throws {
    let desk = Desk()
    desk.connect(2)
    desk.subscribe(1, pattern: "gate:*")
    try desk.check("late", "buy", ttl: 1_000)
    try desk.open(gate: "late", ttl: 5_000)
    try desk.check("short", "buy", ttl: 9_000)
    try desk.open(gate: "short", ttl: 2_000)
    try desk.check("out", "buy", ttl: 9_000)
    try desk.open(gate: "out")
    try desk.check("busy", "buy", ttl: 1_000)
    try desk.open(gate: "busy", ttl: 4_000)
    #expect(try desk.take(gate: "busy", by: 2) == nil)
    _ = desk.takeHeard(1)
    try desk.close(gate: "out")
    desk.at(6_000).hears(
      1, "0 out dismissed open buy closed", "0 out closed closed",
      "1000 late dismissed open buy expired", "2000 short dismissed open buy closed",
      "2000 short closed closed expired", "4000 busy closed closed expired",
      "5000 late closed closed expired")
    #expect(try !desk.done(gate: "busy", by: 2))
    desk.disconnect(2)
    desk.at(6_000).hears(1)
    desk.unsubscribe(1, "gate:*")
    #expect(desk.engine.entityCount == 0 && desk.engine.armedCount == 0)
  }

  @Test func anActionWhoseTTLHasPassedWhileItRanIsDroppedIfItsConnectionCloses() throws {
    let desk = Desk()
    desk.connect(2)
    try desk.check("s", "buy", ttl: 1_000)
    try desk.open(gate: "s")
    _ = try desk.take(gate: "s", by: 2)
    desk.subscribe(1, "gate:s")
    desk.at(2_000)
    desk.disconnect(2)
    desk.at(2_000).hears(1, "0 s snapshot open buy", "2000 s dismissed open buy expired")
    #expect(desk.gate("s")?.state == .open)
    // Action and session expire unnoticed: each is reported, in order of deadline.
    try desk.open(gate: "t", ttl: 9_000)
    try desk.close(gate: "t")
    try desk.check("t", "buy", ttl: 1_000)
    try desk.open(gate: "t", ttl: 2_000)
    desk.subscribe(1, "gate:t")
    _ = desk.takeHeard(1)
    desk.unnoticed(at: 9_000)
    #expect(desk.gate("t") == nil)
    desk.hears(1, "9000 t dismissed open buy expired", "9000 t closed closed expired")
  }

  @Test func requiredOffIsAlwaysAcceptedAndLeavesTheWaitingAction() throws {
    let desk = Desk()
    let view = try desk.check("s", "look", required: false)
    #expect(view.isAccepted && view.view.state == .closed)
    desk.expectEmpty()
    try desk.check("s", "buy")
    #expect(try desk.check("s", "look", required: false).isAccepted)
    #expect(desk.gate("s")?.action == Array("buy".utf8))
  }

  @Test func cancelDropsOnlyTheWaitingActionCLOSEOnlyLogsOut() throws {
    let desk = Desk()
    desk.subscribe(1, "gate:s")
    let pending = try desk.check("s", "buy").view.generation.value
    #expect(try !desk.close(gate: "s"))
    #expect(throws: EngineError.stale(now: Generation(pending))) {
      try desk.cancel(gate: "s", pending - 1)
    }
    #expect(try desk.cancel(gate: "s", pending))
    #expect(try !desk.cancel(gate: "s"))
    let open = try desk.open(gate: "s").generation
    #expect(try !desk.cancel(gate: "s"))
    #expect(throws: EngineError.stale(now: open)) { try desk.close(gate: "s", open.value - 1) }
    #expect(try desk.close(gate: "s", open.value))
    #expect(try !desk.close(gate: "s"))
    desk.hears(
      1, "0 s snapshot closed", "0 s pending pending buy", "0 s dismissed closed buy cancelled",
      "0 s opened open", "0 s closed closed")
    desk.unsubscribe(1, "gate:s")
    desk.expectEmpty()
  }

  @Test func aWaitingActionEndsWithItsOwnerAnOpenSessionHasNone() throws {
    let desk = Desk()
    desk.connect(2)
    desk.subscribe(1, "gate:a")
    try desk.check("a", "buy", owner: .connection(2))
    try desk.check("b", "buy", owner: .connection(2))
    try desk.open(gate: "b")
    #expect(try desk.take(gate: "b", by: 2) == nil)
    desk.disconnect(2)
    #expect(desk.gate("b")?.isTaken == false)
    try desk.open(gate: "a")
    #expect(desk.gate("b")?.state == .open)
    desk.hears(
      1, "0 a snapshot closed", "0 a pending pending buy", "0 a dismissed closed buy owner-gone",
      "0 a opened open")
  }

  @Test func openOfAnOpenSessionReplacesItsTTL() throws {
    let desk = Desk()
    try desk.open(gate: "s", ttl: 1_000)
    desk.at(900)
    try desk.open(gate: "s", ttl: 5_000)
    desk.at(5_899)
    #expect(desk.gate("s")?.remainingMS == 1)
    try desk.open(gate: "s")
    desk.at(9_999_999)
    #expect(desk.gate("s")?.state == .open)
  }
}

@Suite struct DebounceEngineTests {
  @Test func manyCallsCauseOneEventWithTheNewestPayload() throws {
    let desk = Desk()
    desk.subscribe(1, "debounce:k")
    let first = try desk.call("k", payload: "a")
    desk.at(900)
    let second = try desk.call("k", payload: "b")
    #expect(second.generation == first.generation && second.calls == 2)
    #expect(second.remainingMS == 1_000 && second.state == .waiting)
    desk.at(1_899)
    #expect(desk.debounce("k")?.remainingMS == 1)
    desk.at(5_000).hears(1, "0 k snapshot idle", "1900 k fired idle 2 b quiet")
    desk.unsubscribe(1, "debounce:k")
    desk.expectEmpty()
  }

  @Test func flushFiresAtOnceCANCELNeverEitherWayTheNextCallIsAFirstOne() throws {
    let desk = Desk()
    desk.subscribe(1, "debounce:k")
    #expect(try !desk.flush("k"))
    #expect(try !desk.cancel(debounce: "k"))
    let first = try desk.call("k", payload: "a").generation
    #expect(throws: EngineError.stale(now: first)) { try desk.flush("k", first.value + 1) }
    #expect(try desk.flush("k", first.value))
    let second = try desk.call("k", payload: "b").generation
    #expect(second > first)
    #expect(throws: EngineError.stale(now: second)) { try desk.cancel(debounce: "k", first.value) }
    #expect(try desk.cancel(debounce: "k"))
    try desk.call("k", edges: .both)
    #expect(try !desk.flush("k"), "nothing waits")
    desk.at(9_000).hears(
      1, "0 k snapshot idle", "0 k fired idle 1 a flush", "0 k cancelled idle 0 cancelled",
      "0 k fired resting 1 leading")
    desk.unsubscribe(1, "debounce:k")
    desk.expectEmpty()
  }

  @Test func aCallWhoseMAXWAITHasPassedFiresAtOnceAndIsNotLate() throws {
    let desk = Desk()
    desk.subscribe(1, "debounce:k")
    try desk.call("k", quiet: 60_000)
    desk.at(30_000)
    #expect(try desk.call("k", longest: 2_000).state == .resting)
    #expect(desk.takeEvents(1).last?.lateMicroseconds == 0)
    desk.at(31_000).hears(1, "0 k snapshot idle", "30000 k fired resting 2 max-wait")
    #expect(desk.debounce("k") == nil)
  }

  @Test func aDebouncerEndsWithTheOwnerOfItsNewestCall() throws {
    let desk = Desk()
    desk.connect(2)
    desk.connect(3)
    desk.subscribe(1, pattern: "debounce:*")
    try desk.call("a", owner: .connection(2))
    try desk.call("b", owner: .connection(2))
    try desk.call("b", owner: .connection(3))
    try desk.call("c", owner: .connection(2))
    try desk.call("c")
    desk.disconnect(2)
    desk.at(1_000).hears(
      1, "1000 a cancelled idle 0 owner-gone", "1000 b fired idle 2 quiet",
      "1000 c fired idle 2 quiet")
  }
}

/// Behavior that all guards share.
@Suite struct GuardEngineTests {
  @Test func withOWNERScopeWhatIsNotDoneEndsWithTheScopeAndIsNotPersisted() throws {
    let desk = Desk()
    desk.engine.noteChanges()
    try desk.open("page")
    let page = try desk.scoped("page")
    try desk.begin("o", owner: page)
    try desk.begin("done", owner: page)
    try desk.done("done", "r")
    try desk.check("g", "buy", owner: page)
    try desk.call("d", owner: page)
    desk.subscribe(1, pattern: "*")
    #expect(desk.scope("page")?.owned == 3)
    _ = desk.takeHeard(1)
    try desk.close("page")
    #expect(desk.once("o") == nil)
    desk.at(0)
    let heard = desk.takeHeard(1)
    for line in [
      "0 o cancelled idle owner-gone", "0 g dismissed closed buy owner-gone",
      "0 d cancelled idle 0 owner-gone",
    ] { #expect(heard.contains(line), "\(heard)") }
    #expect(desk.once("done")?.state == .done)
    #expect(desk.engine.entityCount == 1)
  }

  @Test func eachChangeOfAGuardWithoutAnOwnerIsStoredOnceOwnedGuardsAreNot() throws {
    let desk = Desk()
    desk.connect(2)
    desk.engine.noteChanges()
    func taken() -> [String] { desk.engine.takenChanges() }
    try desk.take("t", 2, 1, per: 1_000)
    try desk.take("t", 2, 1, per: 1_000)
    try desk.begin("o", owner: .connection(2))
    try desk.check("g", "a")
    try desk.call("d")
    try desk.call("e", owner: .connection(2))
    #expect(taken() == ["throttle 0 t", "gate 0 g", "debounce 0 d"])
    #expect(taken() == [])
    try desk.take("t", 2, 1, per: 1_000)
    try desk.take("t", 2, 1, per: 1_000, peek: true)
    try desk.check("g", "a", required: false)
    _ = desk.once("o")
    #expect(taken() == [], "a refusal or a look changes nothing")
    try desk.done("o", "r")
    try desk.call("d", owner: .connection(2))
    #expect(taken() == ["once 0 o", "debounce 0 gone"])
    desk.at(2_000)
    #expect(taken() == ["throttle 0 gone"])
    desk.engine.noteEverything()
    #expect(taken() == ["once 0 o", "gate 0 g"])
  }

  @Test func restoredGuardsRunLateWhatFellDueMeanwhile() throws {
    let old = Desk()
    old.engine.noteChanges()
    try old.take("t", 3, 7, per: 1_000)
    try old.begin("o", ttl: 10_000)
    try old.done("o", "r")
    try old.check("g", "buy", payload: "p", ttl: 1_000)
    try old.open(gate: "h", ttl: 10_000)
    try old.check("run", "sell", payload: "q", ttl: 9_000)
    try old.open(gate: "run", ttl: 10_000)
    _ = try old.take(gate: "run", by: 1)
    try old.check("lost", "sell", ttl: 2_000)
    try old.open(gate: "lost")
    try old.call("d", payload: "x", longest: 5_000)
    let batch = ChangeWriter(offset: 0)
    old.engine.takeChanges(into: batch)
    var kept = StoredEntities()
    _ = ChangeEntry.forEach(of: batch.bytes[...]) {
      guard case .current(let kind, let place, let bytes) = $0 else { return }
      kept.append(kind, place, bytes.span)
    }
    #expect(kept.count == 7)

    let desk = Desk()
    desk.subscribe(1, pattern: "*")
    desk.unnoticed(at: 3_000)
    #expect(desk.engine.restore(kept, offset: 0, at: desk.now).isEmpty)
    #expect(desk.engine.entityCount == 7)
    desk.late(at: 3_000)
    #expect(
      desk.takeHeard(1).sorted() == [
        "3000 d fired idle 1 x quiet", "3000 g dismissed closed buy p expired",
        "3000 lost dismissed open sell expired", "3000 t ready idle 3",
      ])
    let late = desk.takeEvents(1).map { $0.lateMicroseconds ?? -1 }
    #expect(late.sorted() == [1_000_000, 2_000_000, 2_000_000, 2_857_142])
    #expect(desk.once("o")?.result == Array("r".utf8))
    #expect(desk.gate("h")?.remainingMS == 7_000)
    // The connection that ran the action belongs to the old daemon.
    let run = try #require(desk.gate("run"))
    #expect(run.action == Array("sell".utf8) && run.payload == Array("q".utf8) && !run.isTaken)
    #expect(run.generation == old.gate("run")?.generation)
    #expect(try desk.take(gate: "run", by: 1, run.generation.value) == nil)
  }

  @Test func whileTheStoreIsReadOnlyChangesThatNeedStoringAreRefused() throws {
    let desk = Desk()
    try desk.begin("o")
    try desk.check("g", "a")
    try desk.check("r", "a")
    try desk.open(gate: "r")
    try desk.call("d")
    desk.engine.isReadOnly = true
    #expect(throws: EngineError.readOnly) { try desk.begin("new") }
    #expect(throws: EngineError.readOnly) { try desk.done("o", "r") }
    #expect(throws: EngineError.readOnly) { try desk.cancel(once: "o") }
    #expect(throws: EngineError.readOnly) { try desk.check("g", "b") }
    #expect(throws: EngineError.readOnly) { try desk.open(gate: "g") }
    #expect(throws: EngineError.readOnly) { try desk.cancel(gate: "g") }
    #expect(throws: EngineError.readOnly) { try desk.take(gate: "r", by: 1) }
    #expect(throws: EngineError.readOnly) { try desk.done(gate: "r", by: 1) }
    #expect(throws: EngineError.readOnly) { try desk.call("d") }
    #expect(throws: EngineError.readOnly) { try desk.call("d", owner: .connection(1)) }
    #expect(throws: EngineError.readOnly) { try desk.flush("d") }
    #expect(throws: EngineError.readOnly) { try desk.cancel(debounce: "d") }
    #expect(try !desk.begin("o").isAccepted)
    #expect(try desk.begin("own", owner: .connection(1)).isAccepted)
    #expect(desk.gate("g")?.action == Array("a".utf8))
    #expect(desk.debounce("d")?.calls == 1)
  }
}
