import Countdowns
import Testing

/// Defects of other schedulers, named by their issue numbers.
@Suite struct TimerKnownCaseTests {
  private static let hour: Int64 = 3_600_000
  private static let day: Int64 = 24 * hour
  let desk = Desk()

  // MARK: Late

  /// quartz-239: a period that is hours late is missed, also if no other one has passed
  @Test func aPeriodThatIsHoursLateIsMissed() throws {
    desk.subscribe(1, "timer:n")
    try desk.set("n", Self.day, every: Self.day, late: .skip)
    desk.at(23 * Self.hour).late(at: 31 * Self.hour)
    #expect(desk.timer("n")?.missed == 1)
    #expect(desk.timer("n")?.fired == 0)
    #expect(desk.timer("n")?.remainingMS == 17 * Self.hour)
    desk.at(48 * Self.hour).hears(
      1, "0 n snapshot idle", "0 n set", "\(48 * Self.hour) n fired 1")
  }

  @Test(
    arguments: [
      (every: 60_000, late: 999, fires: true), (every: 60_000, late: 1_000, fires: false),
      (every: 1_500, late: 999, fires: true), (every: 1_500, late: 1_000, fires: false),
      (every: 400, late: 399, fires: true), (every: 400, late: 400, fires: false),
      (every: 1, late: 0, fires: true), (every: 1, late: 1, fires: false),
    ] as [(every: Int64, late: Int64, fires: Bool)])
  func aPeriodIsMissedOnceItIsAsLateAsEVERYOrASecond(
    every: Int64, late: Int64, fires: Bool
  ) throws {
    try desk.set("t", 5_000, every: every, late: .skip)
    desk.late(at: 5_000 + late)
    #expect(desk.timer("t")?.fired == (fires ? 1 : 0))
    let passed = late / every + 1
    #expect(desk.timer("t")?.missed == (fires ? 0 : passed))
    #expect(desk.timer("t")?.remainingMS == passed * every - late)
  }

  @Test(arguments: [PlainTimer.Late.fire, .coalesce])
  func aLatePeriodFiresWithoutSKIPAndIsNotMissed(late: PlainTimer.Late) throws {
    try desk.set("t", Self.day, every: Self.day, late: late)
    desk.late(at: 31 * Self.hour)
    #expect(desk.timer("t")?.fired == 1)
    #expect(desk.timer("t")?.missed == 0)
  }

  // MARK: The wall clock is set back

  /// quartznet-1440: a timer of the wall clock is not silent until that is where it was
  @Test func aRepeatingTimerGoesOnAfterTheWallClockIsSetBack() throws {
    desk.subscribe(1, "timer:t")
    try desk.set("t", 5_000, every: 5_000, clock: .wall)
    desk.at(12_000).setWall(by: -Self.hour)
    desk.advance()
    #expect(desk.timer("t")?.remainingMS == 3_000)
    desk.at(20_000).hears(
      1, "0 t snapshot idle", "0 t set", "5000 t fired 1", "10000 t fired 2", "15000 t fired 3",
      "20000 t fired 4")
  }

  @Test func aOneShotTimerKeepsItsMoment() throws {
    try desk.set("t", 5_000, clock: .wall)
    desk.at(2_000).setWall(by: -Self.hour)
    desk.advance()
    #expect(desk.timer("t")?.remainingMS == 3_000 + Self.hour)
  }

  @Test(
    arguments: [
      // Set back by, after the last firing; then it fires after.
      (back: 3_000, since: 3_000, after: 0), (back: 2_000, since: 3_000, after: 4_000),
      (back: 4_999, since: 4_000, after: 999), (back: 2_499, since: 2_499, after: 5_000),
      (back: 2_500, since: 2_500, after: 0), (back: 5_000, since: 0, after: 5_000),
      (back: 1, since: 1, after: 5_000), (back: 7_300, since: 1_000, after: 1_300 + 5_000),
    ] as [(back: Int64, since: Int64, after: Int64)])
  func itFiresNoSoonerThanHalfAPeriodAfterTheLastTime(
    back: Int64, since: Int64, after: Int64
  ) throws {
    desk.subscribe(1, "timer:t")
    try desk.set("t", 5_000, every: 5_000, clock: .wall)
    desk.at(10_000 + since)
    _ = desk.takeHeard(1)
    desk.setWall(by: -back)
    desk.advance()
    desk.at(10_000 + since + after).hears(1, "\(10_000 + since + after) t fired 3")
  }

  @Test func aTimerThatHasNotFiredKeepsAboutItsDuration() throws {
    desk.subscribe(1, "timer:t")
    try desk.set("t", 600_000, every: 5_000, clock: .wall)
    _ = desk.takeHeard(1)
    desk.at(1_000).setWall(by: -Self.hour)
    desk.advance()
    #expect(desk.timer("t")?.remainingMS == 599_000)
    desk.at(600_000).hears(1, "600000 t fired 1")
  }

  @Test func eachSetBackCountsAndAJumpForwardIsMissed() throws {
    desk.subscribe(1, "timer:t")
    try desk.set("t", 60_000, every: 60_000, clock: .wall)
    desk.at(60_000)
    for step in [-Self.hour, -Self.hour, 2 * Self.hour, -Self.hour] {
      desk.setWall(by: step)
      desk.advance()
    }
    // The jump of two hours has passed 120 periods, of which one fired.
    desk.at(120_000).hears(
      1, "0 t snapshot idle", "0 t set", "60000 t fired 1", "60000 t fired 2 missed 119",
      "120000 t fired 3")
  }

  @Test func aSkippedPeriodComesAgainIfTheClockIsSetBackBeforeIt() throws {
    desk.subscribe(1, "timer:t")
    try desk.set("t", Self.day, every: Self.day, late: .skip, clock: .wall)
    // The machine sleeps for two hours around it; then the clock, which was ahead, is set back.
    desk.late(at: 25 * Self.hour)
    desk.setWall(by: -90 * 60_000)
    desk.advance()
    #expect(desk.timer("t")?.remainingMS == Self.hour / 2)
    #expect(desk.timer("t")?.missed == 1)
    desk.at(26 * Self.hour).hears(
      1, "0 t snapshot idle", "0 t set", "\(25 * Self.hour + 30 * 60_000) t fired 1")
  }

  @Test func aSmallStepBackNeverMakesItSilentForLonger() throws {
    try desk.set("t", Self.day, every: Self.day, clock: .wall)
    // It fires thirteen hours late, so the next moment is less than half a period away.
    desk.late(at: 37 * Self.hour)
    desk.setWall(by: -100)
    desk.advance()
    #expect(desk.timer("t")?.remainingMS == 11 * Self.hour + 100)
  }

  @Test func manyTimersFollowInSlices() throws {
    for index in 0..<200 as Range<Int64> {
      try desk.set("t\(index)", 5_000 + index, every: 5_000, clock: .wall)
    }
    desk.at(5_300).setWall(by: -Self.hour)
    desk.budget = 7
    desk.advance()
    desk.at(10_300)
    for index in 0..<200 { #expect(desk.timer("t\(index)")?.fired == 2) }
    #expect(desk.engine.armedCount == 200)
  }

  @Test func aCommandSeesTheMovedDeadlineBeforeTheEngineAdvances() throws {
    try desk.set("t", 5_000, every: 5_000, clock: .wall)
    desk.at(7_000).setWall(by: -Self.hour)
    #expect(desk.timer("t")?.remainingMS == 3_000)
    try desk.pauseTimer("t")
    #expect(desk.timer("t")?.remainingMS == 3_000)
  }

  // MARK: Set again at each start

  /// django-celery-beat-634: a timer that each start of an app sets again does fire
  @Test func aTimerThatIsSetAgainEachTimeFires() throws {
    for minute in stride(from: 0, to: 200, by: 50) as StrideTo<Int64> {
      desk.at(minute * 60_000)
      try keep("report", Self.hour, every: Self.hour)
    }
    #expect(desk.timer("report")?.fired == 2)
  }

  @discardableResult
  private func keep(
    _ key: String, _ after: Int64, every: Int64? = nil, clock: TimerClock = .boot,
    existing: TimerSet.Existing = .keepPhase, payload: String? = nil
  ) throws -> (refusal: Reason?, view: TimerView) {
    var set = TimerSet(after: .milliseconds(after))
    set.every = every.map { .milliseconds($0) }
    set.clock = clock
    set.existing = existing
    set.payload = payload.map { Array($0.utf8) }
    return try desk.with(key) {
      try desk.engine.setTimer($0, set, by: desk.client(1), at: desk.now)
    }
  }

  @Test func keepUpdatesTheRestOfATimerWithTheSamePeriodAndClock() throws {
    desk.subscribe(1, "timer:t")
    let first = try keep("t", 5_000, every: 5_000).view
    desk.at(2_000)
    let second = try keep("t", 5_000, every: 5_000, payload: "p").view
    #expect(second.generation == first.generation)
    #expect(second.remainingMS == 3_000)
    #expect(second.payload == Array("p".utf8))
    // Nothing changes, so nothing happens.
    #expect(try keep("t", 9_000, every: 5_000, payload: "p").view == second)
    desk.at(5_000).hears(
      1, "0 t snapshot idle", "0 t set", "2000 t set", "5000 t fired 1")
  }

  @Test func keepReplacesATimerWithAnotherPeriodOrClock() throws {
    let first = try keep("t", 5_000, every: 5_000).view
    desk.at(2_000)
    let second = try keep("t", 5_000, every: 4_000).view
    #expect(second.generation > first.generation)
    #expect(second.remainingMS == 5_000)
    desk.at(3_000)
    let third = try keep("t", 5_000, every: 4_000, clock: .wall).view
    #expect(third.generation > second.generation)
    #expect(third.remainingMS == 5_000)
    desk.at(4_000)
    #expect(try keep("t", 5_000, clock: .wall).view.remainingMS == 5_000)
  }

  @Test func keepLeavesAPausedTimerPaused() throws {
    _ = try keep("t", 5_000, every: 5_000)
    desk.at(2_000)
    try desk.pauseTimer("t")
    #expect(try keep("t", 5_000, every: 5_000, payload: "p").view.state == .paused)
    #expect(desk.timer("t")?.remainingMS == 3_000)
  }

  @Test func nxLeavesATimerAsItIs() throws {
    let first = try keep("t", 5_000, existing: .refuse)
    #expect(first.refusal == nil)
    desk.at(1_000)
    let second = try keep("t", 9_000, every: 1_000, existing: .refuse, payload: "p")
    #expect(second.refusal == .exists)
    #expect(second.view.remainingMS == 4_000)
    #expect(second.view.payload == nil)
    // One that has fired for the last time is none.
    desk.unnoticed(at: 5_000)
    #expect(try keep("t", 9_000, existing: .refuse).refusal == nil)
  }

  // MARK: At a time of day

  private func at(
    _ key: String, _ milliseconds: Int64, every: Int64? = nil, late: PlainTimer.Late = .fire
  ) throws -> TimerView {
    var set = TimerSet(
      at: Instant(microseconds: Desk.wallStart) + .milliseconds(milliseconds))
    set.every = every.map { .milliseconds($0) }
    set.late = late
    return try desk.with(key) {
      try desk.engine.setTimer($0, set, by: desk.client(1), at: desk.now).view
    }
  }

  @Test func aTimerFiresAtAGivenMoment() throws {
    desk.subscribe(1, "timer:t")
    let view = try at("t", 60_000)
    #expect(view.deadlineUnixMS == Desk.wallStart / 1_000 + 60_000)
    #expect(view.clock == .wall)
    desk.setWall(by: 30_000)
    desk.advance()
    desk.at(30_000).hears(1, "0 t snapshot idle", "0 t set", "30000 t fired 1")
  }

  @Test func aMomentThatHasPassedFiresAtOnce() throws {
    desk.subscribe(1, "timer:t")
    #expect(try at("t", -60_000).state == .idle)
    desk.at(0).hears(1, "0 t snapshot idle", "0 t set", "0 t fired 1")
    #expect(desk.timer("t") == nil)
  }

  @Test func aPassedMomentWithEVERYGivesThePhase() throws {
    #expect(try at("f", -90_000, every: 60_000).fired == 1)
    #expect(desk.timer("f")?.missed == 1)
    #expect(try at("s", -90_000, every: 60_000, late: .skip).fired == 0)
    #expect(desk.timer("s")?.missed == 2)
    for key in ["f", "s"] { #expect(desk.timer(key)?.remainingMS == 30_000) }
  }

  @Test func aGivenMomentStaysWhenTheClockIsSetBackAndThePeriodsAfterItFollow() throws {
    _ = try at("t", Self.hour, every: 60_000)
    desk.setWall(by: -Self.hour)
    desk.advance()
    #expect(desk.timer("t")?.remainingMS == 2 * Self.hour)
    desk.at(2 * Self.hour)
    #expect(desk.timer("t")?.fired == 1)
    desk.setWall(by: -Self.hour)
    desk.advance()
    #expect(desk.timer("t")?.remainingMS == 60_000)
  }
}
