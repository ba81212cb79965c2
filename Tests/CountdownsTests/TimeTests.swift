import Countdowns
import Testing

/// Lateness, jumps, wall-clock steps, order, budgets.
@Suite struct TimeTests {
  let desk = Desk()

  @Test func aJumpOf8HIsNotReplayedTickByTickOneReadyDueAtItsDeadline() throws {
    desk.subscribe(1, "countdown:a")
    try desk.start("a", count: 60)
    desk.late(at: 28_800_000)
    // The countdown was ready for so long that it is also forgotten.
    desk.hears(1, "0 a snapshot idle", "0 a started 60", "28800000 a ready 0")
    let ready = try #require(desk.events[1]?.last)
    #expect(ready.dueUnixMS == Desk.wallStart / 1_000 + 60_000)
    #expect(ready.lateMicroseconds == 28_740_000_000)
    desk.expectEmpty()
  }

  @Test func aReadyThatALateTickIsMergedIntoIsDueAtItsDeadlineNotAtTheTicks() throws {
    desk.subscribe(1, "countdown:a")
    try desk.start("a", count: 3)
    desk.late(at: 3_010)
    let ready = try #require(desk.events[1]?.last)
    #expect(ready.name == .ready)
    #expect(ready.dueUnixMS == Desk.wallStart / 1_000 + 3_000)
    #expect(ready.lateMicroseconds == 10_000)
    #expect(desk.engine.statistics.lateness.histogram.max <= 10_100)
  }

  @Test func deadlineAndDueTimeOfOneMomentAreTheSameNumber() throws {
    // Neither clock is at a whole millisecond.
    desk.unnoticed(microseconds: 1_234_567)
    desk.subscribe(1, "countdown:a")
    let started = try desk.start("a", count: 1).view
    // A future deadline is rounded up, so that no client is early; a past one is rounded down.
    #expect(started.deadlineUnixMS == Desk.wallStart / 1_000 + 2_235)
    desk.at(3_000)
    let ready = try #require(desk.takeEvents(1).last)
    guard ready.name == .ready, let view = ready.subject as? CountdownView else {
      Issue.record("it is not ready")
      return
    }
    #expect(ready.dueUnixMS == Desk.wallStart / 1_000 + 2_234)
    #expect(view.deadlineUnixMS == ready.dueUnixMS)
    #expect(desk.get("a")?.deadlineUnixMS == ready.dueUnixMS)
  }

  @Test func noReplyOrEventShowsARunningEntityWithNoTimeLeft() throws {
    let desk = desk
    func states() -> [String] {
      desk.takeEvents(1).compactMap { event in
        switch event.subject {
        case let view as CountdownView:
          "\(event.name.text) \(view.state.rawValue) \(view.remainingMS)"
        case let view as TimerView:
          "\(event.name.text) \(view.state.rawValue) \(view.remainingMS)"
        default: nil
        }
      }
    }
    desk.subscribe(1, "countdown:a")
    desk.subscribe(1, "timer:t")
    _ = desk.takeEvents(1)
    #expect(try desk.start("a", count: 1, fire: true).view.state == .ready)
    #expect(states() == ["started ready 0", "ready ready 0"])
    try desk.start("a")
    #expect(try desk.retime("a", 0).state == .ready)
    #expect(states() == ["started counting 60000", "retimed ready 0", "ready ready 0"])
    let generation = try desk.start("a").view.generation
    try desk.refund("a", generation)
    #expect(states() == ["started counting 60000", "refunded ready 0", "ready ready 0"])

    #expect(try desk.set("t", 0).state == .idle)
    #expect(states() == ["set idle 0", "fired idle 0"])
    let again = try desk.set("t", 0, every: 1_000)
    #expect(again.state == .running && again.remainingMS == 1_000 && again.fired == 1)
    #expect(states() == ["set idle 0", "fired running 1000"])
    try desk.pauseTimer("t")
    let retimed = try desk.retimeTimer("t", 0)
    #expect(retimed.state == .running && retimed.remainingMS == 1_000 && retimed.fired == 2)
    #expect(states() == ["paused paused 1000", "retimed idle 0", "fired running 1000"])
  }

  @Test func lateTicksAreMergedAndShowTheRightNumber() throws {
    desk.subscribe(1, "countdown:a")
    try desk.start("a", count: 10)
    desk.late(at: 4_500).at(6_000).hears(
      1, "0 a snapshot idle", "0 a started 10", "4500 a tick 6", "5000 a tick 5", "6000 a tick 4")
  }

  /// MB-wall-dates, JG-wall-dates (HUDs that hold wall dates): steps of the wall clock move neither
  /// HUDs nor countdowns nor boot timers
  @Test func wallStepsMoveNothing() throws {
    for step in [-7_200_000, 7_200_000] as [Int64] {
      let desk = Desk()
      desk.subscribe(1, "countdown:a")
      desk.subscribe(1, "hud:s")
      desk.subscribe(1, "timer:t")
      _ = desk.takeHeard(1)
      try desk.start("a", count: 1, every: 2_000)
      try desk.set("t", 2_000)
      try desk.show(
        "s", Presentation.Request(minimum: .seconds(2), fadeIn: .zero, fadeOut: .zero))
      desk.at(1_000)
      desk.setWall(by: step)
      try desk.dismiss("s")
      #expect(desk.get("a")?.remainingMS == 1_000)
      #expect(desk.get("a")?.deadlineUnixMS == Desk.wallStart / 1_000 + step + 2_000)
      desk.at(1_999)
      #expect(desk.takeHeard(1).count == 4)
      desk.at(2_000).hears(
        1, "2000 a ready 0", "2000 t fired 1", "2000 s will-disappear dismissed",
        "2000 s did-disappear dismissed")
    }
  }

  @Test func clockWallFollowsTheWallClockSetForwardItFiresSetBackItWaits() throws {
    desk.subscribe(1, pattern: "timer:*")
    try desk.set("w", 10_000, clock: .wall)
    try desk.set("v", 20_000, clock: .wall)
    desk.at(1_000)
    desk.setWall(by: 9_500)
    desk.late(at: 1_000).hears(1, "0 w set", "0 v set", "1000 w fired 1")
    #expect(desk.timer("v")?.remainingMS == 9_500)
    desk.setWall(by: -60_000)
    desk.late(at: 1_000)
    #expect(desk.timer("v")?.remainingMS == 69_500)
    #expect(desk.timer("v")?.deadlineUnixMS == Desk.wallStart / 1_000 + 20_000)
    desk.at(70_499).hears(1)
    desk.at(70_500).hears(1, "70500 v fired 1")
    desk.expectEmpty()
  }

  @Test func aWallTimerArmedAfterAStepBackBeforeWhereTheClockHadBeenIsNotEarly() throws {
    desk.subscribe(1, "timer:w")
    try desk.set("far", 3_600_000, clock: .wall)
    desk.late(at: 10_000)
    desk.setWall(by: -8_000)
    try desk.set("w", 3_000, clock: .wall)
    let finished = desk.step(100)
    #expect(finished)
    desk.hears(1, "0 w snapshot idle", "10000 w set")
    guard finished else { return }
    desk.at(13_000).hears(1, "13000 w fired 1")
  }

  @Test func wallTimersWithEqualDeadlinesFireInOrderOfArmingAlsoAfterAStepBack() throws {
    let desk = Desk()
    desk.subscribe(1, pattern: "timer:*")
    // d, e and f take the places of c, b and a: the later one is armed, the lower its place.
    for key in ["a", "b", "c"] { try desk.set(key, 1_000_000) }
    for (old, new) in [("c", "d"), ("b", "e"), ("a", "f")] {
      try desk.delete(old)
      try desk.set(new, 5_000, clock: .wall)
    }
    desk.at(1_000)
    _ = desk.takeHeard(1)
    desk.setWall(by: -60_000)
    desk.advance()
    desk.at(65_000).hears(1, "65000 d fired 1", "65000 e fired 1", "65000 f fired 1")
  }

  @Test func wallTimersArmedBeforeAStepBackIsNoticedMoveInSlices() throws {
    desk.subscribe(1, pattern: "timer:w*")
    try desk.set("far", 3_600_000, clock: .wall)
    desk.late(at: 10_000)
    desk.setWall(by: -8_000)
    let keys = (0..<51).map { "w\($0)" }
    for key in keys.dropLast() { try desk.set(key, 3_000, clock: .wall) }
    for _ in 0..<3 { #expect(!desk.step(10)) }
    // One more while those before it are still being moved.
    try desk.set(keys[50], 3_000, clock: .wall)
    for _ in 0..<2 { #expect(!desk.step(10)) }
    #expect(desk.step(10))
    _ = desk.takeHeard(1)
    desk.at(12_999).hears(1)
    desk.at(13_000)
    #expect(desk.takeHeard(1) == keys.map { "13000 \($0) fired 1" })
  }

  /// Nothing is armed again when the clock is set back, so one step is enough for any number.
  @Test func manyWallTimersSurviveManyStepsBackInTheirOrder() throws {
    desk.subscribe(1, pattern: "timer:*")
    var expected: [(due: Int64, key: String)] = []
    var wall: Int64 = 100_000
    desk.setWall(by: wall)
    desk.late(at: 0)
    for round in 0..<20 {
      for number in 0..<20 {
        // Some deadlines are armed in several rounds, before and after steps back.
        let due = [200_000, wall + Int64(number + 1) * 500, wall + 5_000][number % 3]
        try desk.set("\(round)-\(number)", due - wall, clock: .wall)
        expected.append((due, "\(round)-\(number)"))
      }
      if round % 4 == 3 {
        try desk.delete("\(round)-0")
        expected.removeAll { $0.key == "\(round)-0" }
        try desk.set("\(round - 1)-0", 300_000 - wall, clock: .wall)
        expected.removeAll { $0.key == "\(round - 1)-0" }
        expected.append((300_000, "\(round - 1)-0"))
      }
      wall -= 3_000
      desk.setWall(by: -3_000)
      #expect(desk.step(1))
    }
    _ = desk.takeHeard(1)
    desk.at(400_000)
    let order = expected.enumerated().sorted { ($0.1.due, $0.0) < ($1.1.due, $1.0) }
    let fired = desk.takeHeard(1).filter { $0.contains(" fired ") }
      .map { String($0.split(separator: " ")[1]) }
    #expect(fired == order.map(\.1.key))
  }

  @Test func aRepeatingWallTimerCountsWhatItMissedAndStaysInPhase() throws {
    desk.subscribe(1, "timer:w")
    try desk.set("w", 1_000, every: 1_000, clock: .wall)
    desk.setWall(by: 3_500)
    desk.late(at: 0)
    desk.setWall(by: -2_000)
    desk.late(at: 0).at(2_500).hears(
      1, "0 w snapshot idle", "0 w set", "0 w fired 1 missed 2", "500 w fired 2",
      "1500 w fired 3", "2500 w fired 4")
  }

  @Test func aPausedWallTimerSurvivesAStepBackAndAResumedOneIsOnTheWheelAgain() throws {
    desk.subscribe(1, "timer:w")
    try desk.set("w", 1_000, clock: .wall)
    _ = try desk.with("w") { try desk.engine.pauseTimer($0, generation: nil, at: desk.now) }
    desk.late(at: 100)
    desk.setWall(by: -50_000)
    desk.late(at: 200)
    _ = try desk.with("w") { try desk.engine.resumeTimer($0, generation: nil, at: desk.now) }
    desk.at(1_199)
    #expect(desk.engine.count(.timer) == 1)
    desk.at(1_200)
    desk.expectEmpty()
  }

  @Test func repeatingTimersKeepPhaseLATEFireSkipCoalesce() throws {
    desk.subscribe(1, pattern: "timer:*")
    try desk.set("f", 1_000, every: 1_000, late: .fire)
    try desk.set("s", 1_000, every: 1_000, late: .skip)
    try desk.set("c", 1_000, every: 1_000, late: .coalesce)
    _ = desk.takeHeard(1)
    desk.late(at: 3_500).hears(1, "3500 f fired 1 missed 2", "3500 c fired 1 missed 2")
    let due = desk.events[1]!.suffix(2).map { $0.dueUnixMS! - Desk.wallStart / 1_000 }
    #expect(due == [1_000, 3_000])
    desk.at(4_000).hears(1, "4000 f fired 2", "4000 s fired 1", "4000 c fired 2")
    #expect(desk.timer("s")?.missed == 3)
    #expect(desk.timer("f")?.missed == 2)
  }

  @Test func equalDeadlinesFireInOrderOfArming() throws {
    desk.subscribe(1, pattern: "timer:*")
    for key in ["d", "a", "c", "b"] { try desk.set(key, 1_000) }
    _ = desk.takeHeard(1)
    desk.late(at: 5_000).hears(
      1, "5000 d fired 1", "5000 a fired 1", "5000 c fired 1", "5000 b fired 1")
  }

  @Test func deadlinesFireInOrderAcrossKinds() throws {
    desk.subscribe(1, pattern: "*")
    try desk.set("t", 3_000)
    try desk.start("c", count: 1, every: 2_000)
    try desk.show("h", Presentation.Request(grace: .seconds(1), fadeIn: .seconds(10)))
    _ = desk.takeHeard(1)
    desk.late(at: 9_000).hears(1, "9000 h will-appear", "9000 c ready 0", "9000 t fired 1")
  }

  @Test(arguments: [1, 2, 7])
  func afterABudgetRunsOutDueWorkContinuesWhereItStopped(_ budget: Int) throws {
    desk.subscribe(1, pattern: "timer:*")
    for index in 0..<50 { try desk.set("\(index)", Int64(1 + index / 5)) }
    _ = desk.takeHeard(1)
    desk.unnoticed(at: 1_000)
    var calls = 1
    while !desk.step(budget) {
      calls += 1
      guard calls < 1_000 else { break }
    }
    #expect(calls >= 50 / budget)
    #expect(desk.takeHeard(1) == (0..<50).map { "1000 \($0) fired 1" })
    desk.expectEmpty()
  }

  @Test func aTimerArmedForNowFiresNowNotOneRoundLater() throws {
    desk.subscribe(1, "timer:t")
    try desk.at(5).set("t", 0)
    desk.at(5).hears(1, "0 t snapshot idle", "5 t set", "5 t fired 1")
  }

  @Test func theLongestTimesDoNotOverflow() throws {
    let tenYears: Int64 = 3_650 * 86_400_000
    try desk.set("b", tenYears, every: tenYears)
    try desk.set("w", tenYears, every: tenYears, clock: .wall)
    try desk.start("c", count: 3_650, every: 86_400_000)
    #expect(desk.timer("w")?.remainingMS == tenYears)
    desk.late(at: tenYears * 2)
    #expect(desk.timer("b")?.fired == 1)
    #expect(desk.timer("b")?.missed == 1)
  }
}
