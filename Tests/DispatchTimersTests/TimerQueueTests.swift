import Dispatch
import DispatchTimers
import SeededRandom
import Testing

@Suite struct TimerQueueTests {
  private let timers = TimerQueue()

  /// libuv-4773: 2,000 random timers, none early by a nanosecond, each called once
  @Test(arguments: bothClocks, SeededGenerator.seeds)
  func isNeverEarly(clock: TimeBase, seed: UInt64) async throws {
    var generator = SeededGenerator(seed: seed)
    let called = Log<Int>()
    let early = Log<Int>()
    for id in 0..<2_000 {
      let delay = Duration.nanoseconds(Int.random(in: 0...300_000_000, using: &generator))
      let start = clock.machine.nanoseconds
      timers.schedule(after: delay, clock: clock) { firing in
        let passed = Duration.nanoseconds(Int64(clock.machine.nanoseconds) - Int64(start))
        if passed < delay || firing.lateness < .zero || firing.missed != 0 { early.append(id) }
        called.append(id)
      }.detach()
    }
    try await eventually { timers.count == 0 }
    timers.queue.sync {}
    #expect(early.all.isEmpty)
    #expect(called.all.sorted() == Array(0..<2_000))
  }

  @Test(arguments: bothClocks, SeededGenerator.seeds)
  func timersAreCalledInOrderOfTheirDeadlinesInWhateverOrderTheyWereMade(
    clock: TimeBase, seed: UInt64
  ) async throws {
    var generator = SeededGenerator(seed: seed)
    let deadlines = Log<UInt64>()
    let roadblock = try await Roadblock(on: timers.queue)
    for delay in (0..<1_000).shuffled(using: &generator) {
      timers.schedule(after: .microseconds(delay), clock: clock) { (firing: Firing) in
        deadlines.append(firing.deadline)
      }.detach()
    }
    roadblock.open()
    try await eventually { deadlines.all.count == 1_000 }
    #expect(deadlines.all == deadlines.all.sorted())
  }

  @Test func afterAPeakOf200000TimersOldHandlesDoNotAffectNewTimers() async throws {
    var peak: [TimerHandle] = []
    for _ in 0..<200_000 { peak.append(timers.schedule(after: .seconds(3_600)) {}) }
    for handle in peak.dropFirst(10) { handle.cancel() }
    #expect(timers.count == 10)
    for handle in peak.prefix(10) { handle.cancel() }
    #expect(timers.count == 0)

    let called = Counter()
    let kept = (0..<10).map { _ in timers.schedule(after: .milliseconds(20)) { called.add() } }
    // The memory of the old ones is theirs now.
    for handle in peak { handle.cancel() }
    peak = []
    try await eventually { called.value == 10 }
    withExtendedLifetime(kept) {}
  }

  @Test func timersOneAfterTheOtherUseOnePlaceDetachedOrNot() async throws {
    let called = Counter()
    for round in 1...50 {
      timers.schedule(after: .zero) { called.add() }.detach()
      let kept = timers.schedule(after: .zero) { called.add() }
      try await eventually { called.value == 2 * round }
      withExtendedLifetime(kept) {}
    }
    #expect(timers.slots <= 4)
  }

  @Test(arguments: bothClocks)
  func aRepeatingTimerStaysInPhaseWithItsFirstDeadlineHoweverSlowItsCallback(
    clock: TimeBase
  ) async throws {
    let firings = Log<Firing>()
    let early = Counter()
    let interval: UInt64 = 2_000
    let start = clock.machine.now
    let handle = timers.schedule(after: .milliseconds(5), repeating: .milliseconds(2), clock: clock)
    { firing in
      if clock.machine.now < firing.deadline { early.add() }
      firings.append(firing)
      // Slower than the period, every third time.
      if firings.all.count.isMultiple(of: 3) {
        let end = clock.machine.now + 5_000
        while clock.machine.now < end {}
      }
    }
    try await eventually { firings.all.count >= 60 }
    handle.cancel()
    timers.queue.sync {}
    let all = firings.all
    var deadline = all[0].deadline
    #expect(deadline >= start + 5_000)
    for firing in all {
      #expect(firing.deadline == deadline)
      deadline += UInt64(firing.missed + 1) * interval
    }
    #expect(early.value == 0)
    #expect(all.contains { $0.missed > 0 }, "the test did not make it miss any")
  }

  @Test(arguments: bothClocks)
  func missedPeriodsAreReportedInOneCallAndNotReplayedInABurst(clock: TimeBase)
    async throws
  {
    let firings = Log<Firing>()
    let calledAt = Log<UInt64>()
    let roadblock = try await Roadblock(on: timers.queue)
    let handle = timers.schedule(after: .zero, repeating: .milliseconds(1), clock: clock) {
      firing in
      calledAt.append(clock.machine.now)
      firings.append(firing)
    }
    let end = clock.machine.now + 100_000
    try await eventually { clock.machine.now >= end }
    roadblock.open()
    try await eventually { firings.all.count >= 2 }
    handle.cancel()
    timers.queue.sync {}
    let first = firings.all[0]
    #expect(first.missed >= 99)
    #expect(first.lateness >= .milliseconds(99))
    #expect(calledAt.all[1] >= first.deadline + UInt64(first.missed + 1) * 1_000)
  }

  @Test(arguments: bothClocks)
  func aTimerMadeInsideACallbackForNowIsCalledToo(clock: TimeBase) async throws {
    let order = Log<Int>()
    timers.schedule(after: .zero, clock: clock) { [timers] in
      order.append(1)
      timers.schedule(after: .zero, clock: clock) { order.append(3) }.detach()
      order.append(2)
    }.detach()
    try await eventually { order.all.count == 3 }
    #expect(order.all == [1, 2, 3])
  }

  /// Schedules itself for now, again and again, until `isOver` or out of patience.
  private static func chain(
    _ timers: TimerQueue, _ clock: TimeBase, _ length: Counter, until isOver: Counter
  ) {
    length.add()
    guard isOver.value == 0, length.value < 10_000_000 else { return }
    timers.schedule(after: .zero, clock: clock) { [weak timers] in
      if let timers { chain(timers, clock, length, until: isOver) }
    }.detach()
  }

  @Test(arguments: bothClocks)
  func timersThatAreAlwaysDueDoNotBlockOtherWorkOnTheQueue(clock: TimeBase) async throws {
    let length = Counter()
    let isOver = Counter()
    Self.chain(timers, clock, length, until: isOver)
    timers.queue.async { isOver.add() }
    try await eventually { isOver.value == 1 }
    #expect(length.value < 10_000_000)
  }

  @Test(arguments: bothClocks)
  func tenThousandLaterTimersSetTheSystemsTimerOnce(clock: TimeBase) {
    var handles: [TimerHandle] = []
    for index in 0..<10_000 {
      handles.append(timers.schedule(after: .seconds(3_600 + index), clock: clock) {})
    }
    #expect(timers.alarm(clock).timesSet == 1)
    #expect(timers.count == 10_000)
    // Nor when they are cancelled, the earliest first.
    for handle in handles { #expect(handle.cancel()) }
    #expect(timers.alarm(clock).timesSet == 1)
    #expect(timers.count == 0)
    // But for an earlier one.
    handles = [timers.schedule(after: .seconds(60), clock: clock) {}]
    #expect(timers.alarm(clock).timesSet == 2)
  }

  @Test(arguments: bothClocks)
  func withoutTimersTheAlarmIsDisarmed(clock: TimeBase) async throws {
    let called = Counter()
    let cancelled = timers.schedule(after: .milliseconds(1), clock: clock) { called.add() }
    // On a busy machine, it may have been called already.
    let calls = cancelled.cancel() ? 1 : 2
    try await eventually { timers.alarm(clock).deadline == nil }
    let handle = timers.schedule(after: .milliseconds(1), clock: clock) { called.add() }
    try await eventually { called.value == calls && timers.alarm(clock).deadline == nil }
    #expect(!handle.isPending && !handle.cancel())
  }

  @Test(arguments: bothClocks, SeededGenerator.seeds)
  func aTimerCancelledFromAnotherThreadAsItFallsDueIsEitherCalledOrCancelled(
    clock: TimeBase, seed: UInt64
  ) async throws {
    let called = Counter()
    let cancelled = Counter()
    await withTaskGroup { group in
      for task in 0..<4 as Range<UInt64> {
        group.addTask { [timers] in
          var generator = SeededGenerator(seed: seed &+ task)
          for _ in 0..<2_000 {
            let delay = Duration.microseconds(Int.random(in: 0...200, using: &generator))
            let handle = timers.schedule(after: delay, clock: clock) { called.add() }
            let looks = Int.random(in: 0...3_000, using: &generator)
            for _ in 0..<looks where !handle.isPending { break }
            if handle.cancel() { cancelled.add() }
          }
        }
      }
    }
    timers.queue.sync {}
    #expect(called.value + cancelled.value == 8_000)
    #expect(timers.count == 0)
  }

  @Test(arguments: bothClocks, SeededGenerator.seeds)
  func afterCancellingFromAnotherThreadADueCallIsOverBeforeLaterWorkOnTheQueue(
    clock: TimeBase, seed: UInt64
  ) async throws {
    let late = Counter()
    let called = Counter()
    await withTaskGroup { group in
      for task in 0..<4 as Range<UInt64> {
        group.addTask { [timers] in
          var generator = SeededGenerator(seed: seed &+ task)
          for round in 0..<1_000 {
            let isOver = Box<Bool>()
            let interval: Duration? = round % 2 == 0 ? .microseconds(1) : nil
            let handle = timers.schedule(after: .zero, repeating: interval, clock: clock) {
              called.add()
              if isOver.value != nil { late.add() }
            }
            let looks = Int.random(in: 0...300, using: &generator)
            for _ in 0..<looks where !handle.isPending { break }
            handle.cancel()
            timers.queue.sync { isOver.put(true) }
          }
        }
      }
    }
    timers.queue.sync {}
    #expect(late.value == 0)
    #expect(called.value > 0)
  }

  @Test(arguments: bothClocks)
  func aTimerMovedToAnEarlierDeadlineWakesTheQueueForIt(clock: TimeBase) async throws {
    let called = Counter()
    let handle = timers.schedule(after: .seconds(3_600), clock: clock) { called.add() }
    #expect(handle.reschedule(after: .seconds(1_800)) && called.value == 0)
    #expect(handle.reschedule(after: .milliseconds(1)))
    try await eventually { called.value == 1 }
    #expect(!handle.isPending && !handle.reschedule(after: .zero))
  }

  @Test(arguments: bothClocks)
  func aRepeatingTimerThatCancelsItselfInItsCallbackIsNotCalledAgain(clock: TimeBase)
    async throws
  {
    let called = Counter()
    let handle = Box<TimerHandle>()
    let kept = Log<Bool>()
    let roadblock = try await Roadblock(on: timers.queue)
    handle.put(
      timers.schedule(after: .zero, repeating: .microseconds(1), clock: clock) {
        called.add()
        if called.value == 3, let timer = handle.value {
          kept.append(timer.cancel())
          kept.append(timer.cancel())
        }
      })
    roadblock.open()
    try await eventually { timers.count == 0 }
    timers.queue.sync {}
    #expect(called.value == 3)
    #expect(kept.all == [true, false])
    handle.take()
  }

  /// node-4541, tokio-5536: delays beyond 2³¹ ms, 2³⁶ ms and all time are not due now
  @Test(arguments: bothClocks)
  func reachesFar(clock: TimeBase) async throws {
    let called = Counter()
    let longest = Duration(secondsComponent: .max, attosecondsComponent: 0)
    let handles = [.milliseconds(1 << 31), .milliseconds(1 << 36), longest].map { delay in
      timers.schedule(after: delay, clock: clock) { called.add() }
    }
    let repeating = timers.schedule(after: .zero, repeating: longest, clock: clock) { called.add() }
    try await eventually { called.value == 1 }
    try await passTime(on: timers, clock: clock)
    timers.queue.sync {}
    #expect(called.value == 1)
    #expect(handles.allSatisfy { $0.isPending } && repeating.isPending)
  }

  @Test func aPeriodOf0MsIsRefused() async {
    await #expect(processExitsWith: .failure) {
      _ = TimerQueue().schedule(after: .zero, repeating: .zero) {}
    }
  }
}
