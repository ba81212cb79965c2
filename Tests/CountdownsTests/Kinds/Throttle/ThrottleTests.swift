import SeededRandom
import Testing

@testable import Countdowns

private func rate(_ burst: Int64, _ count: Int64, per period: Interval) -> Throttle.Rate {
  Throttle.Rate(burst: burst, count: count, period: period)!
}

/// A rate limit on a virtual clock; times are in milliseconds.
private struct ThrottleTimeline {
  var machine: Throttle
  var now = Instant(microseconds: 0)

  init(_ rate: Throttle.Rate) { machine = Throttle(rate, at: now) }

  /// Returns `yes remaining reset` or `no remaining retry reset`.
  mutating func take(_ cost: UInt32 = 1, at milliseconds: Int64) -> String {
    now = Instant(microseconds: milliseconds * 1_000)
    let before = machine
    let answer = machine.take(cost, at: now)
    let reset = answer.resetAfter.millisecondsRoundedUp
    if answer.isAccepted {
      #expect(answer.retryAfter == .zero)
      return "yes \(answer.remaining) \(reset)"
    }
    #expect(machine == before, "a refusal changes nothing")
    return "no \(answer.remaining) \(answer.retryAfter.millisecondsRoundedUp) \(reset)"
  }
}

@Suite struct ThrottleTests {
  @Test func burstIsAvailableAtOnceThenOneForEachEmissionInterval() {
    var line = ThrottleTimeline(rate(3, 1, per: .seconds(1)))
    #expect(line.take(at: 0) == "yes 2 1000")
    #expect(line.take(at: 0) == "yes 1 2000")
    #expect(line.take(at: 0) == "yes 0 3000")
    #expect(line.take(at: 0) == "no 0 1000 3000")
    #expect(line.take(at: 999) == "no 0 1 2001")
    #expect(line.take(at: 1_000) == "yes 0 3000")
    #expect(line.take(at: 1_001) == "no 0 999 2999")
    #expect(line.take(at: 3_500) == "yes 1 1500")
  }

  @Test func costIsTakenInFullOrNotAtAllAndCheaperRequestsStillPass() {
    var line = ThrottleTimeline(rate(5, 5, per: .seconds(10)))
    #expect(line.take(3, at: 0) == "yes 2 6000")
    #expect(line.take(3, at: 0) == "no 2 2000 6000")
    #expect(line.take(2, at: 0) == "yes 0 10000")
    #expect(line.take(5, at: 9_999) == "no 4 1 1")
    #expect(line.take(5, at: 10_000) == "yes 0 10000")
  }

  @Test func peekingGivesTheAnswerOfTakingAndChangesNothing() {
    var machine = Throttle(rate(2, 1, per: .seconds(1)), at: Instant(microseconds: 0))
    let now = Instant(microseconds: 0)
    for remaining in [2, 1] as [Int64] {
      let before = machine
      let answer = machine.answer(to: 1, at: now)
      #expect(answer.isAccepted && answer.remaining == remaining)
      #expect(machine == before)
      _ = machine.take(1, at: now)
    }
    #expect(!machine.answer(to: 1, at: now).isAccepted)
    #expect(machine.answer(to: 1, at: now).retryAfter == .seconds(1))
  }

  @Test func refundGivesBackWhatWasUsedAndNeverMore() {
    var line = ThrottleTimeline(rate(3, 1, per: .seconds(1)))
    #expect(line.take(3, at: 0) == "yes 0 3000")
    line.machine.refund(2, at: line.now)
    #expect(line.take(at: 0) == "yes 1 2000")
    line.machine.refund(1_000_000_000, at: line.now)
    #expect(line.machine.nextExpiry == line.now)
    #expect(line.take(3, at: 0) == "yes 0 3000")
    #expect(line.take(at: 0) == "no 0 1000 3000")
  }

  @Test func aRateOf7PerSecondDoesNotDrift70000Take10000SToTheMicrosecond() {
    // With BURST 2, rounding each wait up to a whole microsecond loses nothing.
    var machine = Throttle(rate(2, 7, per: .seconds(1)), at: Instant(microseconds: 0))
    var now = Instant(microseconds: 0)
    #expect(machine.take(2, at: now).isAccepted == true)
    for number in 1...70_000 as ClosedRange<Int64> {
      let wait = machine.answer(to: 1, at: now).retryAfter
      now = now + (wait - Interval(microseconds: 1))
      #expect(machine.take(1, at: now).isAccepted == false)
      now = now + Interval(microseconds: 1)
      #expect(machine.take(1, at: now).isAccepted == true)
      #expect(now.microseconds == (number * 1_000_000 + 6) / 7)
    }
    #expect(now == Instant(microseconds: 10_000_000_000))
  }

  @Test func aRateOf1PerDayIsExactToTheMicrosecond() {
    var machine = Throttle(rate(1, 1, per: .days(1)), at: Instant(microseconds: 0))
    let day = Interval.days(1)
    #expect(machine.take(1, at: Instant(microseconds: 17)).isAccepted == true)
    let early = Instant(microseconds: 16) + day
    #expect(machine.take(1, at: early).retryAfter == Interval(microseconds: 1))
    #expect(machine.take(1, at: Instant(microseconds: 17) + day).isAccepted == true)
  }

  @Test func aRateOf1000000PerSecondFreesOneEachMicrosecond() {
    var machine = Throttle(rate(1_000, 1_000_000, per: .seconds(1)), at: Instant(microseconds: 0))
    #expect(machine.take(1_000, at: Instant(microseconds: 0)).isAccepted == true)
    for now in 1...5_000 as ClosedRange<Int64> {
      #expect(machine.take(1, at: Instant(microseconds: now)).isAccepted == true)
      #expect(machine.take(1, at: Instant(microseconds: now)).isAccepted == false)
    }
    #expect(machine.take(1_000, at: Instant(microseconds: 5_999)).remaining == 999)
    #expect(machine.take(1_000, at: Instant(microseconds: 6_000)).isAccepted == true)
  }

  @Test func aRateMayExceedOnePerMicrosecond() {
    let rate = rate(1_000_000_000, 1_000_000_000, per: .milliseconds(1))
    var machine = Throttle(rate, at: Instant(microseconds: 0))
    #expect(machine.take(1_000_000_000, at: Instant(microseconds: 0)).isAccepted == true)
    #expect(machine.take(1_000_001, at: Instant(microseconds: 1)).remaining == 1_000_000)
    #expect(machine.take(1_000_000, at: Instant(microseconds: 1)).isAccepted == true)
  }

  @Test func aRateLimitIsForgottenAtItsTheoreticalArrivalTimeRoundedUp() {
    var machine = Throttle(rate(3, 7, per: .seconds(1)), at: Instant(microseconds: 5))
    #expect(machine.emptyAt == Instant(microseconds: 5))
    _ = machine.take(1, at: Instant(microseconds: 5))
    #expect(machine.emptyAt == Instant(microseconds: 5 + 142_858))
    #expect(machine.answer(to: 1, at: machine.emptyAt).resetAfter == .zero)
    let before = Instant(microseconds: machine.emptyAt.microseconds - 1)
    #expect(machine.answer(to: 1, at: before).resetAfter == Interval(microseconds: 1))
  }

  @Test func aNewRateKeepsWhatWasUsedAtMostTheNewBURST() {
    let now = Instant(microseconds: 0)
    var machine = Throttle(rate(10, 10, per: .seconds(1)), at: now)
    _ = machine.take(4, at: now)
    machine.change(rate(10, 1, per: .days(1)), at: now)
    #expect(machine.answer(to: 6, at: now).isAccepted)
    #expect(machine.answer(to: 7, at: now).retryAfter == .days(1))
    machine.change(rate(2, 1, per: .seconds(1)), at: now)
    #expect(machine.answer(to: 1, at: now).remaining == 0)
    #expect(machine.answer(to: 1, at: now).retryAfter == .seconds(1))
  }

  @Test func aRefusalByAnotherRateSaysWhenSuchARequestIsAccepted() {
    let slow = Throttle.Rate(burst: 5, count: 5, period: .seconds(3_600))!
    let quick = Throttle.Rate(burst: 5, count: 5, period: .seconds(1))!
    var throttle = Throttle(slow, at: .zero)
    _ = throttle.take(5, at: .zero)
    // The refusal leaves the rate as it is.
    #expect(throttle.answer(to: 1, by: quick, at: .zero).retryAfter == .seconds(720))
    let before = Instant(microseconds: 719_999_999)
    #expect(throttle.answer(to: 1, by: quick, at: before).retryAfter == Interval(microseconds: 1))
    #expect(throttle.answer(to: 1, by: quick, at: before).resetAfter > .seconds(2_800))
    #expect(throttle.answer(to: 1, by: quick, at: Instant(microseconds: 720_000_000)).isAccepted)
  }

  @Test func changingTheRateBackAndForthNeverGivesAnythingBack() {
    let now = Instant(microseconds: 1)
    let (one, other) = (rate(9, 7, per: .seconds(1)), rate(9, 11, per: .seconds(13)))
    var machine = Throttle(one, at: Instant(microseconds: 0))
    _ = machine.take(5, at: Instant(microseconds: 0))
    let before = machine.answer(to: 1, at: now)
    for _ in 0..<100 {
      machine.change(other, at: now)
      machine.change(one, at: now)
    }
    let after = machine.answer(to: 1, at: now)
    #expect(after.resetAfter >= before.resetAfter)
    #expect(after.resetAfter <= before.resetAfter + Interval(microseconds: 100))
  }

  @Test(arguments: 0..<20)
  func whatWasTakenForAWhileLeavesOthersNoMoreThanTheRate(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let rate = rate(3, 2, per: .seconds(1))
    var (machine, without) = (Throttle(rate, at: .zero), Throttle(rate, at: .zero))
    var (now, given) = (Instant.zero, 0)
    var borrowed: [(cost: UInt32, at: Instant)] = []
    for _ in 0..<2_000 {
      now = now + Interval(microseconds: Int64.random(in: 0...600_000, using: &random))
      let cost = UInt32.random(in: 1...2, using: &random)
      switch Int.random(in: 0..<3, using: &random) {
      case 0: if machine.take(cost, at: now).isAccepted { borrowed.append((cost, now)) }
      case 1:
        guard let place = borrowed.indices.randomElement(using: &random) else { continue }
        let (cost, taken) = borrowed.remove(at: place)
        machine.refund(cost, taken: taken, at: now)
      default:
        guard machine.take(cost, at: now).isAccepted else { continue }
        given += 1
        #expect(without.take(cost, at: now).isAccepted, "at \(now)")
      }
    }
    #expect(given > 100)
  }

  @Test func ratesOutOfRangeAreRefused() {
    #expect(Throttle.Rate(burst: 0, count: 1, period: .seconds(1)) == nil)
    #expect(Throttle.Rate(burst: 1, count: 0, period: .seconds(1)) == nil)
    #expect(Throttle.Rate(burst: 1, count: 1, period: Interval(microseconds: 999)) == nil)
    #expect(Throttle.Rate(burst: 1_000_000_001, count: 1, period: .milliseconds(1)) == nil)
    #expect(Throttle.Rate(burst: 1, count: 1_000_000_001, period: .milliseconds(1)) == nil)
    #expect(Throttle.Rate(burst: 3_651, count: 1, period: .days(1)) == nil)
    #expect(Throttle.Rate(burst: 3_650, count: 1, period: .days(1)) != nil)
    #expect(Throttle.Rate(burst: 1_000_000_000, count: 1_000_000_000, period: .longest) != nil)
    let one = rate(1, 7, per: .seconds(1))
    #expect(Throttle(one, arrival: Instant(microseconds: 0), fraction: 7) == nil)
    #expect(Throttle(one, arrival: Instant(microseconds: 0), fraction: 6) != nil)
  }
}

/// An exact model by the definition. `arrival` is the theoretical arrival time (µs) times `count`.
private struct ThrottleModel {
  let rate: Throttle.Rate
  var arrival: UInt128 = 0

  func scaled(_ now: Instant, _ more: Int64 = 0) -> UInt128 {
    UInt128(now.microseconds + more) * UInt128(rate.count)
  }

  func uses(_ number: Int64) -> UInt128 {
    UInt128(rate.period.microseconds) * UInt128(number)
  }

  /// Returns whether a request would be accepted `later` microseconds after `now`.
  func accepts(_ cost: Int64, at now: Instant, later: Int64 = 0) -> Bool {
    let now = scaled(now, later)
    return max(arrival, now) + uses(cost) <= now + uses(Int64(rate.burst))
  }

  /// Returns what is wrong with an answer; nil if it is right.
  mutating func problem(
    with answer: Throttle.Answer, to cost: Int64, at now: Instant
  ) -> String? {
    guard answer.isAccepted == accepts(cost, at: now) else { return "accepted" }
    let (retry, reset) = (answer.retryAfter.microseconds, answer.resetAfter.microseconds)
    if answer.isAccepted {
      arrival = max(arrival, scaled(now)) + uses(cost)
      if retry != 0 { return "retry" }
    } else {
      guard retry > 0, accepts(cost, at: now, later: retry),
        !accepts(cost, at: now, later: retry - 1)
      else { return "retry" }
    }
    let left = answer.remaining
    guard left >= 0, left == 0 || accepts(left, at: now), !accepts(left + 1, at: now) else {
      return "remaining"
    }
    guard arrival <= scaled(now, reset), reset == 0 || arrival > scaled(now, reset - 1) else {
      return "reset"
    }
    return nil
  }

  mutating func refund(_ cost: Int64, at now: Instant) {
    guard arrival > scaled(now) else { return }
    let given = uses(cost)
    arrival = arrival < given ? scaled(now) : max(scaled(now), arrival - given)
  }
}

@Suite struct ThrottleModelTests {
  private static let rates = [
    rate(1, 1, per: .days(1)), rate(3, 1, per: .days(1)), rate(1_000, 1_000_000, per: .seconds(1)),
    rate(1, 1_000_000, per: .seconds(1)), rate(1, 7, per: .seconds(1)),
    rate(5, 7, per: .seconds(1)), rate(100, 3, per: .milliseconds(10)),
    rate(17, 999_983, per: .seconds(61)), rate(1_000_000_000, 1_000_000_000, per: .longest),
    rate(1_000_000_000, 999_999_937, per: .milliseconds(1)), rate(3_650, 1, per: .days(1)),
    rate(64, 1_000, per: .milliseconds(7)),
  ]

  /// `make simulate` plays many more calls.
  @Test(arguments: 0..<8)
  func agreesWithAModelInNumbersOfAnySize(part: Int) {
    var random = SeededGenerator(seed: UInt64(part))
    let start = Instant(microseconds: 1_790_000_000_000_000)
    var pairs = Self.rates.map {
      (machine: Throttle($0, at: start), model: ThrottleModel(rate: $0))
    }
    var moments = Array(repeating: start, count: pairs.count)
    for call in 0..<25_000 {
      let index = call % pairs.count
      let rate = pairs[index].model.rate
      let use = max(rate.period.microseconds / Int64(rate.count), 1)
      let step: Int64 =
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1: 0
        case 2: 1
        case 3: use
        case 4: use - 1
        case 5: Int64.random(in: 0...use * 2, using: &random)
        case 6: pairs[index].machine.answer(to: 1, at: moments[index]).retryAfter.microseconds
        default: Int64.random(in: 0...min(use * Int64(rate.burst), 1 << 48), using: &random)
        }
      // Time stops at 2^56 µs, about 2,300 years.
      if moments[index].microseconds < 1 << 56 {
        moments[index] = moments[index] + Interval(microseconds: step)
      }
      let now = moments[index]
      let maximum = Int64(rate.burst)
      let cost =
        Int.random(in: 0..<3, using: &random) == 0
        ? Int64.random(in: 1...maximum, using: &random) : 1
      if Int.random(in: 0..<16, using: &random) == 0 {
        pairs[index].machine.refund(UInt32(cost), at: now)
        pairs[index].model.refund(cost, at: now)
        continue
      }
      let answer = pairs[index].machine.take(UInt32(cost), at: now)
      if let problem = pairs[index].model.problem(with: answer, to: cost, at: now) {
        Issue.record("call \(call) of \(rate), cost \(cost) at \(now): \(problem) of \(answer)")
        return
      }
    }
  }
}
