import Testing
import TimerWheel

/// Defects of other timers, by the number in their trackers. Each is a history with its outcome
/// written down, not predicted by a model.
@Suite struct KnownCaseTests {
  // MARK: Cancelled timers are removed

  /// netty-2561: a cancelled timer does not stay until its slot comes round
  @Test func cancelledTimersLeaveAtOnce() {
    var wheel = TimerWheel()
    var tokens: [TimerWheel.Token] = []
    for delay in [1, 63, 64, 4_096, 3_600_000, 1 << 40] as [UInt64] {
      tokens.append(wheel.schedule(deadline: delay, payload: delay))
    }
    let kept = wheel.schedule(deadline: 3_600_001, payload: 0)
    for token in tokens { #expect(wheel.cancel(token) == true) }
    #expect(wheel.count == 1)
    #expect(wheel.nextDeadline == 3_600_001)
    wheel.cancel(kept)
    #expect(wheel.nextDeadline == nil)
    // No work is left when the slots come round.
    var budget = 1
    #expect(wheel.advance(to: .max, budget: &budget) == nil)
    #expect(budget == 1)
  }

  /// netty-14959: the count is that of armed timers, whatever ended the others
  @Test func countsWhatIsArmed() {
    var wheel = TimerWheel()
    let early = wheel.schedule(deadline: 10, payload: 0)
    let moved = wheel.schedule(deadline: 10, payload: 1)
    let late = wheel.schedule(deadline: 70_000, payload: 2)
    #expect(wheel.count == 3)
    #expect(wheel.reschedule(moved, deadline: 80_000) == true)
    #expect(wheel.count == 3)
    #expect(wheel.expirations(to: 10).map(\.token) == [early])
    #expect(wheel.count == 2)
    // An expired timer cannot be cancelled, nor any timer twice.
    #expect(wheel.cancel(early) == false)
    #expect(wheel.reschedule(early, deadline: 99) == false)
    #expect(wheel.count == 2)
    #expect(wheel.cancel(late) == true)
    #expect(wheel.cancel(late) == false)
    #expect(wheel.count == 1)
    #expect(wheel.expirations(to: 80_000).count == 1)
    #expect(wheel.cancel(moved) == false)
    #expect(wheel.count == 0)
  }

  @Test func aMillionTimersCancelledNoneIsTouchedAgain() {
    var wheel = TimerWheel()
    let tokens = (0..<1_000_000).map { index in
      wheel.schedule(deadline: UInt64(index) &* 2_654_435_761 % 10_000_000, payload: 0)
    }
    for token in tokens { wheel.cancel(token) }
    #expect(wheel.count == 0)
    #expect(wheel.nextDeadline == nil)
    var budget = 1
    #expect(wheel.advance(to: 10_000_000, budget: &budget) == nil)
    #expect(budget == 1)
  }

  @Test func aStaleTokenMeansNothingAfterItsSlotWasReused() {
    var wheel = TimerWheel()
    var stale: [TimerWheel.Token] = []
    for round in 0..<100 as Range<UInt64> {
      // There is one record, which all timers use in turn.
      let token = wheel.schedule(deadline: round + 100, payload: round)
      for old in stale {
        #expect(wheel.isArmed(old) == false)
        #expect(wheel.deadline(of: old) == nil)
        #expect(wheel.reschedule(old, deadline: 0) == false)
        #expect(wheel.cancel(old) == false)
      }
      #expect(wheel.deadline(of: token) == round + 100)
      if round.isMultiple(of: 2) {
        wheel.cancel(token)
      } else {
        #expect(wheel.expirations(to: round + 100).map(\.payload) == [round])
      }
      stale.append(token)
    }
  }

  // MARK: Never early, never lost

  /// libuv-4773: never early, from wherever in its round the clock stands
  @Test func isNeverEarly() {
    for start in [0, 1, 62, 63, 64, 4_095, 4_096, 262_143, 1_000_003] as [UInt64] {
      for delay in [1, 2, 63, 64, 65, 4_095, 4_096, 4_097, 300_000] as [UInt64] {
        var wheel = TimerWheel(startingAt: start)
        _ = wheel.schedule(deadline: start + delay, payload: 0)
        // In steps that end within the slots on the way.
        for part in 1..<8 as Range<UInt64> {
          #expect(wheel.expirations(to: start + (delay - 1) * part / 8) == [])
        }
        #expect(wheel.expirations(to: start + delay - 1) == [])
        #expect(wheel.expirations(to: start + delay).count == 1)
      }
    }
  }

  /// rpc-perf-180: a delay longer than a level, or than all below, does not wrap round
  @Test func longDelaysDoNotWrap() {
    for level in 1...10 as ClosedRange<UInt64> {
      let span = UInt64(1) << (6 * level)
      for deadline in [span, span + 5, span + span / 64, span &* 15] {
        var wheel = TimerWheel(startingAt: 5)
        _ = wheel.schedule(deadline: deadline, payload: 0)
        // At the ticks that match only its lower digits, and all along the way.
        var tick: UInt64 = 6
        while tick < deadline {
          #expect(wheel.expirations(to: tick) == [], "\(deadline) came at \(tick)")
          tick &*= 2
          if tick < 6 { break }
        }
        #expect(wheel.expirations(to: deadline - 1) == [])
        #expect(wheel.expirations(to: deadline).count == 1)
      }
    }
  }

  /// glommio-44: a later timer on a fine level does not hide an earlier one on a coarse level
  @Test func coarseTimersAreNotHidden() {
    for coarse in [64, 70, 100, 4_096, 4_100, 5_000] as [UInt64] {
      var wheel = TimerWheel()
      // Armed far ahead, it is on a coarse level; the clock comes close but not into its slot.
      _ = wheel.schedule(deadline: coarse, payload: 1)
      #expect(wheel.expirations(to: coarse & ~63 - 1) == [])
      for later in [coarse + 1, coarse + 30, coarse + 64] {
        _ = wheel.schedule(deadline: later, payload: 2)
      }
      #expect(wheel.nextDeadline == coarse)
      #expect(wheel.expirations(to: coarse).map(\.payload) == [1])
      #expect(wheel.nextDeadline == coarse + 1)
    }
  }

  /// theine-go-64: a deadline a whole round ahead is neither due now nor a round late
  @Test func aWholeRoundAhead() {
    for level in 1...9 as ClosedRange<UInt64> {
      let round = UInt64(1) << (6 * level)
      for start in [0, 1, round - 1, round, round + 17] {
        var wheel = TimerWheel(startingAt: start)
        _ = wheel.schedule(deadline: start + round, payload: 0)
        #expect(wheel.expirations(to: start + round - 1) == [])
        #expect(wheel.nextDeadline == start + round)
        #expect(wheel.expirations(to: start + round).count == 1)
      }
    }
  }

  /// tokio-6751, tokio-8274: a timer moved to the past is due at once, and wakes
  @Test func movedToThePast() {
    for past in [0, 1, 999, 1_000] as [UInt64] {
      var wheel = TimerWheel(startingAt: 1_000)
      let token = wheel.schedule(deadline: 9_000_000, payload: 0)
      #expect(wheel.nextDeadline == 9_000_000)
      #expect(wheel.reschedule(token, deadline: past) == true)
      #expect(wheel.nextDeadline == past)
      #expect(wheel.expirations(to: 1_000).map(\.deadline) == [past])
    }
  }

  /// tokio-6751, tokio-8274: nextDeadline shows every earlier deadline, however it was made
  @Test func earlierDeadlinesMoveTheNextOne() {
    var wheel = TimerWheel()
    let moved = wheel.schedule(deadline: 9_000, payload: 0)
    _ = wheel.schedule(deadline: 5_000, payload: 1)
    #expect(wheel.nextDeadline == 5_000)
    let added = wheel.schedule(deadline: 4_000, payload: 2)
    #expect(wheel.nextDeadline == 4_000)
    wheel.reschedule(moved, deadline: 3_000)
    #expect(wheel.nextDeadline == 3_000)
    // The next one is a later deadline again when the earlier ones are moved away or cancelled.
    wheel.reschedule(moved, deadline: 9_000)
    #expect(wheel.nextDeadline == 4_000)
    wheel.cancel(added)
    #expect(wheel.nextDeadline == 5_000)
  }

  /// tokio-3619: a clock that goes backwards moves and loses nothing
  @Test func clockGoesBackwards() {
    var wheel = TimerWheel(startingAt: 1_000)
    _ = wheel.schedule(deadline: 1_500, payload: 0)
    #expect(wheel.expirations(to: 1_200) == [])
    #expect(wheel.expirations(to: 3) == [])
    #expect(wheel.elapsed == 1_200)
    _ = wheel.schedule(deadline: 1_300, payload: 1)
    #expect(wheel.expirations(to: 1_100) == [])
    #expect(wheel.expirations(to: 1_500).map(\.payload) == [1, 0])
  }

  // MARK: Large numbers

  /// tokio-5536: deadlines beyond 2³⁶ ms, up to the last tick, are exact
  @Test func beyondTwoToTheThirtySixth() {
    for deadline in [1 << 36 - 1, 1 << 36, 1 << 36 + 1, 1 << 60, .max - 1, .max] as [UInt64] {
      var wheel = TimerWheel(startingAt: 12_345)
      _ = wheel.schedule(deadline: deadline, payload: 0)
      #expect(wheel.nextDeadline == deadline)
      #expect(wheel.expirations(to: deadline - 1) == [])
      #expect(wheel.expirations(to: deadline).count == 1)
    }
  }

  /// node-4541: a delay of 2³¹ ms and more is not 1 ms
  @Test func beyondTwoToTheThirtyFirst() {
    var wheel = TimerWheel()
    for delay in [1 << 31 - 1, 1 << 31, 1 << 31 + 1, 1 << 32, 1 << 32 + 1] as [UInt64] {
      _ = wheel.schedule(deadline: delay, payload: delay)
    }
    #expect(wheel.expirations(to: 1 << 31 - 2) == [])
    #expect(wheel.expirations(to: 1 << 31 - 1).map(\.payload) == [1 << 31 - 1])
    #expect(wheel.expirations(to: 1 << 32).map(\.payload) == [1 << 31, 1 << 31 + 1, 1 << 32])
    #expect(wheel.expirations(to: .max).map(\.payload) == [1 << 32 + 1])
  }

  // MARK: Bounded work

  @Test func aJumpOf8HIsNotReplayedTickByTick() {
    let eightHours: UInt64 = 8 * 3_600 * 1_000_000
    var wheel = TimerWheel()
    var budget = 1
    #expect(wheel.advance(to: eightHours, budget: &budget) == nil)
    #expect(wheel.elapsed == eightHours && budget == 1)

    // One timer at the end: it moves down at most once per level, and then expires.
    _ = wheel.schedule(deadline: 2 * eightHours, payload: 0)
    budget = 1_000
    #expect(wheel.advance(to: 2 * eightHours, budget: &budget)?.deadline == 2 * eightHours)
    #expect(1_000 - budget <= 12)
  }

  @Test func aTimerMadeInsideACallbackForTheSameTickExpiresInTheSameBatchAfterTheRest() {
    var wheel = TimerWheel()
    for payload in 1...3 as ClosedRange<UInt64> {
      _ = wheel.schedule(deadline: 100, payload: payload)
    }
    var order: [UInt64] = []
    var budget = 100
    while let due = wheel.advance(to: 100, budget: &budget) {
      order.append(due.payload)
      if due.payload <= 2 { _ = wheel.schedule(deadline: 100, payload: due.payload + 10) }
      // A deadline in the past is due now, but not before timers that are due already.
      if due.payload == 3 { _ = wheel.schedule(deadline: 7, payload: 20) }
    }
    #expect(order == [1, 2, 3, 11, 12, 20])
  }

  @Test func aTimerThatRepeatsAfter0MsEndsWithTheBudget() {
    var wheel = TimerWheel()
    _ = wheel.schedule(deadline: 5, payload: 0)
    var budget = 500
    var count = 0
    while let due = wheel.advance(to: 5, budget: &budget) {
      count += 1
      _ = wheel.schedule(deadline: due.deadline, payload: 0)
    }
    #expect(count <= 500 && budget == 0)
  }

  @Test func aSlotWithAMillionTimersDoesNotStallItsCallerEachCallKeepsToItsBudget() {
    let count: UInt64 = 1_000_000
    let deadline: UInt64 = 3_600_000
    var wheel = TimerWheel()
    for payload in 0..<count { _ = wheel.schedule(deadline: deadline, payload: payload) }

    var next: UInt64 = 0
    var turns = 0
    var budget = 0
    repeat {
      budget = 10_000
      turns += 1
      while let due = wheel.advance(to: deadline, budget: &budget) {
        if due.payload != next { Issue.record("\(due.payload) came instead of \(next)") }
        next += 1
      }
      // Other work runs between turns: a new timer for the same tick is added at the end.
      if turns == 3 { _ = wheel.schedule(deadline: deadline, payload: count) }
    } while budget == 0
    #expect(next == count + 1)
    #expect(wheel.count == 0)
    // The budget of a turn includes moves between levels, so there are more turns than expirations
    // alone need. No timer is touched more often than once for each level that it moves down, and
    // once to expire.
    #expect((101...402).contains(turns))
  }
}

extension TimerWheel {
  /// Returns all expirations by `now`.
  fileprivate mutating func expirations(to now: UInt64) -> [Expiration] {
    var all: [Expiration] = []
    var budget = Int.max
    while let due = advance(to: now, budget: &budget) { all.append(due) }
    return all
  }
}
