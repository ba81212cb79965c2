import Countdowns
import Testing

/// Defects of other resend buttons and countdowns, named by their issue numbers.
@Suite struct CountdownKnownCaseTests {
  let code = CountdownTimeline()

  /// sparrow-app-482: a refresh of the page does not start it over
  @Test func refreshDoesNotRestart() {
    code.isWatched = false
    code.at(0).start(count: 60)
    code.at(20_000).start(count: 60)
    code.at(59_999).start(count: 60)
    #expect(code.remainingMS == 1)
    code.at(60_000).expect(
      "0 accepted 60", "20000 refused 40", "59999 refused 1", "60000 ready 0")
  }

  /// wso2-15896: a double submit sends once
  @Test func doubleSubmit() {
    code.at(0).start(count: 60)
    code.at(0).start(count: 60)
    code.expect("0 accepted 60", "0 refused 60")
    #expect(code.machine?.sends == 1)
  }

  /// supabase-kt-331: never "0 seconds" while it still counts: the rest is rounded up
  @Test func noZeroWhileCounting() {
    code.isWatched = false
    code.at(0).start(count: 60)
    code.at(59_001)
    #expect(code.remaining == 1)
    code.at(59_999)
    #expect(code.remaining == 1)
    #expect(code.remainingMS == 1)
    var machine = Countdown(
      Countdown.Plan(count: 1, every: .seconds(1))!, at: .init(microseconds: 0))
    let last = Instant(microseconds: 999_999)
    #expect(machine.remainingSteps(at: last) == 1)
    #expect(machine.remainingTime(at: last).millisecondsRoundedUp == 1)
    let expiry = machine.expire(at: last, kept: .zero)
    #expect(expiry == .tick)
    let decision = machine.start(machine.plan, at: last)
    #expect(decision == .refused)
  }

  /// FormSG-4344: the first send starts a cooldown, too
  @Test func firstSendCounts() {
    code.isWatched = false
    code.at(0).start(count: 60)
    code.at(1).start(count: 60)
    code.expect("0 accepted 60", "1 refused 60")
  }

  /// clerk-android-PR-925: each resend starts the countdown again
  @Test func countsAgain() {
    code.isWatched = false
    for round in 0..<5 as Range<Int64> {
      code.at(round * 60_000).start(count: 60)
      #expect(code.remaining == 60)
      code.at(round * 60_000 + 30_000)
      #expect(code.remaining == 30)
    }
    #expect(code.machine?.sends == 5)
  }

  /// authgear-PR-3022: the reported cooldown is not always 0
  @Test func cooldownIsTold() {
    code.isWatched = false
    code.at(0).start(count: 60)
    #expect(code.remainingMS == 60_000)
    code.at(12_345).start(count: 60)
    #expect(code.remainingMS == 47_655)
  }

  /// react-native-countdown-39: remaining is never negative, however late it is noticed
  @Test func neverNegative() {
    let plan = Countdown.Plan(count: 5, every: .seconds(1))!
    var machine = Countdown(plan, at: Instant(microseconds: 0))
    let muchLater = Instant(microseconds: 86_400_000_000)
    #expect(machine.remainingSteps(at: muchLater) == 0)
    #expect(machine.remainingTime(at: muchLater) == .zero)
    let expiry = machine.expire(at: muchLater, kept: .days(2))
    #expect(expiry == .ready)
    #expect(machine.remainingSteps(at: muchLater) == 0)
  }

  /// FlipClock-23, JKCountDownButton-4: late ticks do not drift, a pause in the background counts
  @Test func noDrift() {
    code.at(0).start(count: 60)
    // Each tick is noticed 30 ms late; the steps stay aligned with the deadline.
    for step in 1..<60 as Range<Int64> { code.late(at: step * 1_000 + 30) }
    code.expect(
      "0 accepted 60", "1030 tick 59",
      "2030 tick 58", "3030 tick 57", "4030 tick 56", "5030 tick 55", "6030 tick 54",
      "7030 tick 53", "8030 tick 52", "9030 tick 51", "10030 tick 50", "11030 tick 49",
      "12030 tick 48", "13030 tick 47", "14030 tick 46", "15030 tick 45", "16030 tick 44",
      "17030 tick 43", "18030 tick 42", "19030 tick 41", "20030 tick 40", "21030 tick 39",
      "22030 tick 38", "23030 tick 37", "24030 tick 36", "25030 tick 35", "26030 tick 34",
      "27030 tick 33", "28030 tick 32", "29030 tick 31", "30030 tick 30", "31030 tick 29",
      "32030 tick 28", "33030 tick 27", "34030 tick 26", "35030 tick 25", "36030 tick 24",
      "37030 tick 23", "38030 tick 22", "39030 tick 21", "40030 tick 20", "41030 tick 19",
      "42030 tick 18", "43030 tick 17", "44030 tick 16", "45030 tick 15", "46030 tick 14",
      "47030 tick 13", "48030 tick 12", "49030 tick 11", "50030 tick 10", "51030 tick 9",
      "52030 tick 8", "53030 tick 7", "54030 tick 6", "55030 tick 5", "56030 tick 4",
      "57030 tick 3", "58030 tick 2", "59030 tick 1")
    code.at(60_000).expect("60000 ready 0")
  }

  /// JKCountDownButton-4: in the background for 40 of 60 seconds: 20 are left, not 60
  @Test func background() {
    code.at(0).start(count: 60)
    code.late(at: 40_000)
    code.expect("0 accepted 60", "40000 tick 20")
    code.at(41_000).expect("41000 tick 19")
  }
}
