import Countdowns
import Testing

/// A plain timer on a virtual clock. Lines read `when fired due missed count`; times are in ms.
private final class TimerTimeline {
  private(set) var machine: PlainTimer
  private(set) var now = Instant(microseconds: 0)
  private var lines: [String] = []

  init(after delay: Int64, every: Int64? = nil, late: PlainTimer.Late = .fire) {
    machine = PlainTimer(
      after: .milliseconds(delay), every: every.map { .milliseconds($0) }, late: late, at: now)!
  }

  @discardableResult
  func at(_ milliseconds: Int64) -> TimerTimeline {
    let moment = Instant(microseconds: milliseconds * 1_000)
    while let next = machine.nextExpiry, next <= moment {
      now = max(now, next)
      if expire() { break }
    }
    now = moment
    return self
  }

  @discardableResult
  func late(at milliseconds: Int64) -> TimerTimeline {
    now = Instant(microseconds: milliseconds * 1_000)
    _ = expire()
    return self
  }

  private func expire() -> Bool {
    guard let firing = machine.expire(at: now) else { return false }
    let due = firing.due.microseconds / 1_000
    lines.append("\(now.microseconds / 1_000) fired \(due) missed \(firing.missed)")
    return firing.last
  }

  func pause() { machine.pause(at: now) }
  func resume() { machine.resume(at: now) }
  func retime(_ left: Int64) { machine.retime(.milliseconds(left), at: now) }
  var remaining: Int64 { machine.remainingTime(at: now).millisecondsRoundedUp }

  func expect(_ expected: String..., sourceLocation: SourceLocation = #_sourceLocation) {
    let happened = lines
    lines = []
    #expect(happened == expected, sourceLocation: sourceLocation)
  }
}

@Suite struct PlainTimerTests {
  @Test func aOneShotTimerFiresAtItsDeadlineNotBeforeAndEnds() {
    let timer = TimerTimeline(after: 500)
    timer.late(at: 499).expect()
    timer.at(500).expect("500 fired 500 missed 0")
  }

  @Test func aRepeatingTimerStaysInPhaseWithItsFirstDeadlineHoweverLateItIsNoticed() {
    let timer = TimerTimeline(after: 100, every: 1_000)
    for late in [130, 1_199, 2_101, 3_900] as [Int64] { timer.late(at: late) }
    timer.expect(
      "130 fired 100 missed 0", "1199 fired 1100 missed 0", "2101 fired 2100 missed 0",
      "3900 fired 3100 missed 0")
    #expect(timer.machine.nextExpiry == Instant(microseconds: 4_100_000))
  }

  @Test func lateFireMergesMissedPeriodsIntoOneFiringForTheFirstOfThem() {
    let timer = TimerTimeline(after: 1_000, every: 1_000, late: .fire)
    timer.late(at: 4_500).at(5_000)
    timer.expect("4500 fired 1000 missed 3", "5000 fired 5000 missed 0")
    #expect(timer.machine.fired == 2)
    #expect(timer.machine.missed == 3)
  }

  @Test func lateCoalesceMergesMissedPeriodsIntoOneFiringForTheNewestOfThem() {
    let timer = TimerTimeline(after: 1_000, every: 1_000, late: .coalesce)
    timer.late(at: 4_500).at(5_000)
    timer.expect("4500 fired 4000 missed 3", "5000 fired 5000 missed 0")
    #expect(timer.machine.missed == 3)
  }

  @Test func lateSkipDropsMissedPeriods() {
    let timer = TimerTimeline(after: 1_000, every: 1_000, late: .skip)
    timer.late(at: 4_500).at(5_000)
    timer.expect("5000 fired 5000 missed 0")
    #expect(timer.machine.fired == 1)
    #expect(timer.machine.missed == 4)
  }

  @Test func lateSkipFiresIfLessThanAPeriodLate() {
    let timer = TimerTimeline(after: 1_000, every: 1_000, late: .skip)
    timer.late(at: 1_999).expect("1999 fired 1000 missed 0")
  }

  @Test func lateSkipDropsAPeriodThatIsASecondLate() {
    let timer = TimerTimeline(after: 10_000, every: 10_000, late: .skip)
    timer.late(at: 11_000).expect()
    #expect(timer.machine.missed == 1)
    timer.late(at: 20_999).expect("20999 fired 20000 missed 0")
    timer.late(at: 52_000).expect()
    #expect(timer.machine.missed == 4)
  }

  @Test func aJumpOf8HCausesOneFiringNot28800() {
    let timer = TimerTimeline(after: 1_000, every: 1_000)
    timer.late(at: 28_800_000).expect("28800000 fired 1000 missed 28799")
    timer.late(at: 28_800_500).expect()
  }

  @Test func pauseKeepsTheTimeLeftRESUMEContinuesWithItInTheNewPhase() {
    let timer = TimerTimeline(after: 1_000, every: 1_000)
    timer.at(400).pause()
    timer.at(50_000)
    #expect(timer.remaining == 600)
    timer.pause()
    timer.resume()
    timer.resume()
    timer.at(51_600).expect("50600 fired 50600 missed 0", "51600 fired 51600 missed 0")
  }

  @Test func retimeMovesTheDeadlineAndThePhaseWhilePausedItSetsTheTimeLeft() {
    let timer = TimerTimeline(after: 1_000, every: 1_000)
    timer.at(500).retime(3_000)
    timer.at(4_500).expect("3500 fired 3500 missed 0", "4500 fired 4500 missed 0")
    timer.pause()
    timer.retime(10)
    timer.at(9_000).resume()
    timer.at(9_010).expect("9010 fired 9010 missed 0")
    timer.retime(0)
    timer.at(9_010).expect("9010 fired 9010 missed 0")
  }

  @Test func aPeriodOf0MsIsRefusedADelayOf0MsIsDueNow() {
    let now = Instant(microseconds: 5)
    #expect(PlainTimer(after: .zero, every: .zero, late: .fire, at: now) == nil)
    #expect(
      PlainTimer(after: .zero, every: Interval(microseconds: 999), late: .fire, at: now) == nil)
    #expect(PlainTimer(after: .zero, every: nil, late: .fire, at: now)?.nextExpiry == now)
  }

  @Test func theLongestDelayAndPeriodDoNotOverflow() {
    let timer = TimerTimeline(after: Interval.longest.microseconds / 1_000)
    #expect(timer.remaining == 3_650 * 86_400_000)
    var repeating = PlainTimer(
      after: .longest, every: .longest, late: .fire, at: Instant(microseconds: 0))!
    let firing = repeating.expire(at: Instant(microseconds: 0) + .longest)
    #expect(firing?.missed == 0)
    #expect(repeating.nextExpiry == Instant(microseconds: 0) + .longest + .longest)
  }

  @Test(arguments: PlainTimer.Late.allCases)
  func aOneShotTimerFiresWithAnyLATEHoweverLate(late: PlainTimer.Late) {
    let timer = TimerTimeline(after: 1_000, late: late)
    timer.late(at: 7_200_000).expect("7200000 fired 1000 missed 0")
  }

  @Test func afterAStepBackOfTheClockPAUSEKeepsAtMostTheLongestDuration() {
    let start = Instant(microseconds: 1_790_000_000_000_000)
    var timer = PlainTimer(after: .seconds(3_600), every: nil, late: .fire, at: start)!
    let before = Instant(microseconds: start.microseconds - Interval.days(56 * 365).microseconds)
    timer.pause(at: before)
    #expect(timer.phase == .paused(left: .longest))
    timer.resume(at: start)
    #expect(timer.nextExpiry == start + .longest)
  }
}
