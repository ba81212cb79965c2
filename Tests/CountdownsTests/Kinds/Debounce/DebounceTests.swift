import Countdowns
import Testing

/// Plays calls on a virtual clock: each character takes 100 ms, and `c` is a call. Returns
/// `when edge calls` for each firing, and `when over` when a debouncer ends.
private func play(
  _ calls: String, quiet: Int64 = 300, longest: Int64? = nil, edges: Debounce.Edges = .trailing
) -> [String] {
  let rule = Debounce.Rule(
    quiet: .milliseconds(quiet), maximumWait: longest.map { .milliseconds($0) },
    edges: edges)!
  var machine: Debounce?
  var reported: [String] = []
  func tell(_ firing: Debounce.Firing?, _ now: Int64) {
    guard let firing else { return }
    #expect(firing.due.map { $0 <= Instant(microseconds: now * 1_000) } ?? true, "early")
    reported.append("\(now) \(firing.edge) \(firing.calls)")
  }
  for now in 0..<Int64(calls.count) * 100 {
    let moment = Instant(microseconds: now * 1_000)
    while let due = machine?.nextExpiry, due <= moment {
      let (firing, isOver) = machine!.expire(at: moment)
      tell(firing, now)
      if isOver {
        machine = nil
        reported.append("\(now) over")
      }
    }
    guard now % 100 == 0, Array(calls)[Int(now / 100)] == "c" else { continue }
    if machine == nil {
      let (begun, firing) = Debounce.begin(rule, nil, at: moment)
      machine = begun
      tell(firing, now)
    } else {
      machine!.call(rule, nil, at: moment)
    }
  }
  return reported
}

@Suite struct DebounceTests {
  @Test func manyCallsFireOnceAfterTheQuietTime() {
    #expect(play("c----") == ["300 quiet 1", "300 over"])
    #expect(play("c-cc-c----") == ["800 quiet 4", "800 over"])
    #expect(play("c---c----") == ["300 quiet 1", "300 over", "700 quiet 1", "700 over"])
  }

  @Test func maxwaitLimitsTheTimeFromTheFirstCallToTheEvent() {
    #expect(
      play("ccccccccccc----", longest: 500) == [
        "500 maximumWait 5", "1000 maximumWait 5", "1300 quiet 1", "1300 over",
      ])
    #expect(play("cc-----", longest: 500) == ["400 quiet 2", "400 over"])
  }

  @Test func leadingFiresTheFirstCallAtOnceTheOthersOnceAfterTheQuietTime() {
    #expect(play("c----", edges: .both) == ["0 leading 1", "300 over"])
    #expect(play("ccc----", edges: .both) == ["0 leading 1", "500 quiet 2", "500 over"])
    #expect(
      play("c-c----c---", edges: .both) == [
        "0 leading 1", "500 quiet 1", "500 over", "700 leading 1", "1000 over",
      ])
  }

  @Test func withLEADINGAndMAXWAITFiringBeforeItIsQuietBeginsNoNewBurst() {
    #expect(
      play("cccccccccc----", longest: 400, edges: .both) == [
        "0 leading 1", "500 maximumWait 4", "900 maximumWait 4", "1200 quiet 1", "1200 over",
      ])
    #expect(
      play("cccccc---c---", longest: 500, edges: .both) == [
        "0 leading 1", "600 maximumWait 5", "800 over", "900 leading 1", "1200 over",
      ])
  }

  @Test func noticedLateItFiresOnceForTheEarlierDeadlineAndEndsIfItWasQuiet() {
    let rule = Debounce.Rule(
      quiet: .milliseconds(300), maximumWait: .milliseconds(400))!
    var (machine, _) = Debounce.begin(rule, [1], at: Instant(microseconds: 0))
    machine.call(rule, [2], at: Instant(microseconds: 200_000))
    let (firing, isOver) = machine.expire(at: Instant(microseconds: 9_000_000))
    #expect(
      firing
        == Debounce.Firing(
          edge: .maximumWait, due: Instant(microseconds: 400_000), calls: 2, payload: [2]))
    #expect(isOver)
  }

  @Test func theNewestCallsRuleAndPayloadApplyFLUSHFiresWhatWaits() {
    let slow = Debounce.Rule(quiet: .seconds(10))!
    let fast = Debounce.Rule(quiet: .seconds(1))!
    var (machine, _) = Debounce.begin(slow, [1], at: Instant(microseconds: 0))
    #expect(machine.nextExpiry == Instant(microseconds: 10_000_000))
    machine.call(fast, nil, at: Instant(microseconds: 5))
    #expect(machine.nextExpiry == Instant(microseconds: 1_000_005))
    #expect(
      machine.flush(at: Instant(microseconds: 9))
        == Debounce.Firing(edge: .flush, due: nil, calls: 2, payload: nil))
    var (resting, firing) = Debounce.begin(
      Debounce.Rule(quiet: .seconds(1), edges: .both)!, [9], at: Instant(microseconds: 0))
    #expect(firing == Debounce.Firing(edge: .leading, due: nil, calls: 1, payload: [9]))
    #expect(resting.flush(at: Instant(microseconds: 9)) == nil)
    let before = resting.expire(at: Instant(microseconds: 999_999))
    #expect(before.firing == nil && !before.isOver)
    let after = resting.expire(at: Instant(microseconds: 1_000_000))
    #expect(after.firing == nil && after.isOver)
  }

  @Test func aCallThatShortensMAXWAITBelowTheTimeWaitedFiresAtThatCallNotBefore() {
    let start = Instant(microseconds: 0)
    var (machine, _) = Debounce.begin(Debounce.Rule(quiet: .seconds(60))!, [1], at: start)
    let now = start + .seconds(30)
    machine.call(Debounce.Rule(quiet: .seconds(1), maximumWait: .seconds(2))!, [2], at: now)
    #expect(machine.nextExpiry == now)
    let (firing, isOver) = machine.expire(at: now)
    #expect(
      firing == Debounce.Firing(edge: .maximumWait, due: now, calls: 2, payload: [2]))
    #expect(!isOver)
    #expect(machine.nextExpiry == now + .seconds(1))
  }

  @Test func aQuietTimeOfZeroAndAMAXWAITShorterThanItAreRefused() {
    #expect(Debounce.Rule(quiet: Interval(microseconds: 999)) == nil)
    #expect(Debounce.Rule(quiet: .seconds(2), maximumWait: .seconds(1)) == nil)
    #expect(Debounce.Rule(quiet: .seconds(2), maximumWait: .seconds(2)) != nil)
  }
}
