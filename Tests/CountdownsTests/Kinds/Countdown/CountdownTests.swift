import Countdowns
import Testing

/// The rules of countdowns, one test each.
@Suite struct CountdownTests {
  let code = CountdownTimeline()

  @Test func countsOneDownEachStepAndIsReadyAtTheLast() {
    code.at(0).start(count: 3, every: 2_000)
    code.at(10_000).expect("0 accepted 3", "2000 tick 2", "4000 tick 1", "6000 ready 0")
  }

  @Test func fireCountsTheFirstStepAtOnceCOUNT5EVERY1sLasts4S() {
    code.at(0).start(count: 5, fire: true)
    code.at(10_000).expect(
      "0 accepted 4", "1000 tick 3", "2000 tick 2", "3000 tick 1", "4000 ready 0")
  }

  @Test func fireWithCOUNT1IsReadyAtOnce() {
    code.at(0).start(count: 1, fire: true)
    code.at(0).expect("0 accepted 0", "0 ready 0")
  }

  @Test func unwatchedACountdownWakesOnceAtItsEnd() {
    code.isWatched = false
    code.at(0).start(count: 1_000)
    #expect(
      code.machine?.nextExpiry(at: code.now, watched: false, kept: .zero)
        == Instant(microseconds: 1_000_000_000))
    code.at(1_000_000).expect("0 accepted 1000", "1000000 ready 0")
  }

  @Test func startWhileCountingOrPausedChangesNothing() {
    code.at(0).start(count: 10)
    code.at(2_500)
    let counting = code.machine
    code.start(count: 99, every: 5)
    #expect(code.machine == counting)
    code.pause()
    let paused = code.machine
    code.at(50_000).start(count: 99)
    #expect(code.machine == paused)
    code.expect(
      "0 accepted 10", "1000 tick 9", "2000 tick 8", "2500 refused 8", "2500 paused 8",
      "50000 refused 8")
  }

  @Test func startWhenReadyTakesTheNewPlanAndCountsTheSends() {
    code.at(0).start(count: 1)
    code.at(1_000).start(count: 2)
    #expect(code.machine?.sends == 2)
    code.at(9_000).expect(
      "0 accepted 1", "1000 ready 0", "1000 accepted 2", "2000 tick 1", "3000 ready 0")
  }

  @Test func pauseKeepsTheRemainingTimeToTheMicrosecondRESUMEContinuesWithIt() {
    code.at(0).start(count: 3)
    code.at(1_400).pause()
    #expect(code.remainingMS == 1_600)
    code.at(99_000).resume()
    code.at(200_000).expect(
      "0 accepted 3", "1000 tick 2", "1400 paused 2", "99000 resumed 2", "99600 tick 1",
      "100600 ready 0")
  }

  @Test func pauseAndRESUMEAreIdempotent() {
    code.at(0).start(count: 3)
    code.at(500).resume()
    code.at(500).pause()
    let paused = code.machine
    code.at(900).pause()
    #expect(code.machine == paused)
    code.at(1_000).resume()
    code.at(3_500).expect(
      "0 accepted 3", "500 resumed 3", "500 paused 3", "900 paused 3", "1000 resumed 3",
      "1500 tick 2", "2500 tick 1", "3500 ready 0")
  }

  @Test func aReadyCountdownCannotBePausedResumedOrRetimed() {
    code.at(0).start(count: 1)
    code.at(1_000).pause()
    code.resume()
    code.retime(5_000)
    code.expect(
      "0 accepted 1", "1000 ready 0", "1000 nothing to pause 0", "1000 nothing to resume 0",
      "1000 nothing to retime 0")
  }

  @Test func retimeMovesTheEndLaterOrEarlierAndTheStepsWithIt() {
    code.at(0).start(count: 3)
    code.at(500).retime(10_000)
    code.at(8_400).retime(1_200)
    code.at(99_000).expect(
      "0 accepted 3", "500 retimed 10", "1500 tick 9", "2500 tick 8", "3500 tick 7", "4500 tick 6",
      "5500 tick 5", "6500 tick 4", "7500 tick 3", "8400 retimed 2", "8600 tick 1", "9600 ready 0")
  }

  @Test func retime0MakesACountdownReadyAtOnceEvenAPausedOne() {
    code.at(0).start(count: 3)
    code.at(500).retime(0)
    code.at(500).expect("0 accepted 3", "500 retimed 0", "500 ready 0")
    code.at(600).start(count: 3)
    code.at(700).pause()
    code.at(800).retime(0)
    code.at(800).expect("600 accepted 3", "700 paused 3", "800 retimed 0", "800 ready 0")
  }

  @Test func retimeOfAPausedCountdownSetsItsRemainingTime() {
    code.at(0).start(count: 3)
    code.at(0).pause()
    code.at(100).retime(1_500)
    code.at(9_000).resume()
    code.at(99_000).expect(
      "0 accepted 3", "0 paused 3", "100 retimed 2", "9000 resumed 2", "9500 tick 1",
      "10500 ready 0")
  }

  @Test func aReadyCountdownIsKeptFromItsDeadlineOnThenForgotten() {
    code.kept = .seconds(10)
    code.at(0).start(count: 1)
    code.late(at: 5_000)
    code.at(10_999).expect("0 accepted 1", "5000 ready 0")
    code.at(11_000).expect("11000 forgotten 0")
  }

  @Test func aJumpOf8HCausesOneEventNot28800() {
    code.at(0).start(count: 3_600)
    code.late(at: 8 * 3_600_000).expect("0 accepted 3600", "28800000 ready 0")
  }

  @Test func plansThatAreOutOfRangeOrWouldOverflowAreRefused() {
    #expect(Countdown.Plan(count: 0, every: .seconds(1)) == nil)
    #expect(Countdown.Plan(count: 1, every: .zero) == nil)
    #expect(Countdown.Plan(count: 1, every: Interval(microseconds: 999)) == nil)
    #expect(Countdown.Plan(count: UInt32(Int32.max) + 1, every: .milliseconds(1)) == nil)
    #expect(Countdown.Plan(count: UInt32(Int32.max), every: .milliseconds(1)) != nil)
    #expect(Countdown.Plan(count: UInt32(Int32.max), every: .longest) == nil)
    #expect(Countdown.Plan(count: 3_650, every: .days(1)) != nil)
    #expect(Countdown.Plan(count: 3_651, every: .days(1)) == nil)
  }
}
