import Countdowns
import Glibc
import Testing

/// Entities end with the connection that owns them.
@Suite struct OwnerTests {
  let desk = Desk()
  let two = Owner.connection(2)

  init() { desk.connect(2) }

  @Test func whenAConnectionClosesItsEntitiesEndAsOwnerGoneAndOthersStay() throws {
    desk.subscribe(1, pattern: "*")
    try desk.start("a", owner: two)
    try desk.start("b")
    try desk.set("t", 60_000, owner: two)
    try desk.show("s", owner: two)
    _ = desk.takeHeard(1)
    desk.disconnect(2)
    desk.advance()
    #expect(
      Set(desk.takeHeard(1)) == [
        "0 a cancelled 60 owner-gone", "0 t cancelled owner-gone", "0 s will-disappear owner-gone",
        "0 s did-disappear owner-gone",
      ])
    #expect(desk.engine.entityCount == 1)
    #expect(desk.engine.armedCount == 1)
  }

  @Test func entitiesOfAClosedConnectionFallSilentAtOnceBeforeTheCleanup() throws {
    desk.subscribe(1, pattern: "*")
    try desk.start("a", count: 1, owner: two)
    try desk.start("b", count: 1, owner: two)
    try desk.set("t", 1_000, owner: two)
    try desk.show("s", Presentation.Request(grace: .seconds(1)), owner: two)
    _ = desk.takeHeard(1)
    desk.disconnect(2)
    #expect(desk.get("b") == nil)
    desk.unnoticed(at: 1_000)
    // All entities fall due before the cleanup begins.
    #expect(!desk.step(3))
    desk.advance()
    let heard = desk.takeHeard(1)
    #expect(
      Set(heard) == [
        "0 b cancelled 1 owner-gone", "1000 a cancelled 0 owner-gone",
        "1000 t cancelled owner-gone",
        "1000 s did-disappear never-shown",
      ])
    #expect(heard.count == 4)
    desk.expectEmpty()
  }

  @Test func aHUDOfAClosedConnectionIsNotShownEvenIfItsGraceEndsBeforeTheCleanup() throws {
    desk.subscribe(1, "hud:s")
    try desk.show("s", Presentation.Request(grace: .seconds(1)), owner: two)
    desk.disconnect(2)
    desk.late(at: 1_000).hears(1, "0 s snapshot hidden", "1000 s did-disappear never-shown")
    desk.expectEmpty()
  }

  @Test func keysOfAClosedConnectionAreFreeForSTARTGETAndTIMERSET() throws {
    try desk.start("a", owner: two)
    try desk.set("t", 60_000, owner: two)
    desk.disconnect(2)
    #expect(try desk.start("a").decision == .accepted)
    #expect(desk.get("a")?.sends == 1)
    try desk.set("t", 1_000)
    desk.advance()
    // The cleanup spares the successors.
    #expect(desk.engine.entityCount == 2)
    #expect(desk.get("a")?.owner == Owner.none)
    #expect(desk.timer("t") != nil)
  }

  @Test func theCleanupSparesAnIndexThatWasReused() throws {
    desk.connect(3)
    try desk.start("keep")
    try desk.start("old", count: 1, owner: two)
    desk.disconnect(2)
    // GET removes the entity, and the next one reuses its index.
    #expect(desk.get("old") == nil)
    try desk.start("new", owner: .connection(3))
    desk.advance()
    #expect(desk.get("new")?.state == .counting)
    #expect(desk.engine.entityCount == 2)
  }

  @Test func entitiesThatEndedBeforeTheirOwnerAreNotCancelledAgain() throws {
    desk.subscribe(1, "timer:t")
    try desk.set("t", 500, owner: two)
    desk.at(1_000)
    desk.disconnect(2)
    desk.advance()
    desk.hears(1, "0 t snapshot idle", "0 t set", "500 t fired 1")
  }

  @Test func anAcceptedSTARTChangesTheOwnerARefusedOneDoesNot() throws {
    try desk.start("a", count: 1, owner: two)
    try desk.start("a", owner: .none)
    #expect(desk.get("a")?.owner == two)
    desk.at(1_000)
    try desk.start("a", owner: .none)
    desk.disconnect(2)
    desk.advance()
    #expect(desk.get("a") != nil)
  }

  @Test func aHUDWithSeveralOwnersStaysUntilTheLastOneEnds() throws {
    desk.connect(3)
    desk.subscribe(1, "hud:s")
    try desk.show("s", owner: two)
    try desk.show("s", owner: .connection(3))
    _ = desk.takeHeard(1)
    desk.disconnect(2)
    desk.advance()
    #expect(desk.hud("s")?.leases == 1)
    desk.disconnect(3)
    desk.advance()
    desk.hears(
      1, "0 s updated", "0 s will-disappear owner-gone", "0 s did-disappear owner-gone")
    desk.expectEmpty()
  }

  @Test func aPausedEntityEndsWithItsOwner() throws {
    try desk.start("a", owner: two)
    try desk.pause("a")
    try desk.show("s", owner: two)
    _ = try desk.with("s") { try desk.engine.pauseHUD($0, HUDTarget(), at: desk.now) }
    desk.disconnect(2)
    desk.advance()
    desk.expectEmpty()
  }

  @Test func theCleanupTakesNoMoreStepsAtOnceThanTheBudgetAllows() throws {
    for index in 0..<100 { try desk.start("\(index)", owner: two) }
    desk.disconnect(2)
    var left = [desk.engine.entityCount]
    while !desk.step(10) { left.append(desk.engine.entityCount) }
    left.append(desk.engine.entityCount)
    for (before, after) in zip(left, left.dropFirst()) {
      #expect(before - after <= 10)
    }
    #expect(left.last == 0)
  }

  /// Returns the time that a processor works for `body` on this thread, in nanoseconds. A busy
  /// machine hardly changes it, and two of them on the same machine can be compared.
  private func processorTime(_ body: () -> Void) -> Int {
    func now() -> Int {
      var time = timespec()
      unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
      return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
    let begin = now()
    body()
    return now() - begin
  }

  @Test func closingAConnectionWithManyTimersLeavesTheWorkToTheSteps() throws {
    let count = 100_000
    var set = TimerSet(after: .seconds(3_600))
    set.owner = two
    for index in 0..<count {
      _ = try desk.engine.setTimer("\(index)".utf8.span, set, by: desk.client(2), at: desk.now)
    }
    let hangUp = processorTime { desk.disconnect(2) }
    let steps = processorTime { while !desk.step(100) {} }
    #expect(hangUp * 20 < steps)
    desk.expectEmpty()
  }

  @Test func cleaningUpManySubscriptionsCopiesNoneOfThoseThatAreLeft() {
    for index in 0..<50_000 {
      _ = desk.engine.subscribe(
        desk.client(2), to: Array("countdown:\(index)".utf8), at: desk.now)
    }
    desk.disconnect(2)
    var steps: [Int] = []
    var isFinished = false
    while !isFinished { steps.append(processorTime { isFinished = desk.step(100) }) }
    // A copy would take the longer, the more are left.
    func median(_ some: ArraySlice<Int>) -> Int { some.sorted()[some.count / 2] }
    #expect(median(steps.prefix(50)) < 4 * median(steps.suffix(50)))
    #expect(desk.engine.channelCount == 0)
    #expect(desk.engine.subscriptionCount(of: 2) == 0)
  }

  @Test func manyConnectionsThatCloseAtOnceAreAllCleanedUp() throws {
    for connection in 10..<510 as Range<UInt64> {
      desk.connect(connection)
      try desk.start("\(connection)", owner: .connection(connection), by: connection)
      desk.subscribe(connection, "countdown:\(connection + 1)")
      desk.subscribe(connection, pattern: "timer:*")
    }
    for connection in 10..<510 as Range<UInt64> {
      desk.disconnect(connection)
      if connection.isMultiple(of: 7) { _ = desk.step(3) }
    }
    desk.advance()
    desk.expectEmpty()
    #expect(desk.engine.channelCount == 0)
    #expect(desk.engine.patternCount == 0)
  }
}
