import Dispatch
import DispatchTimers
import Testing

@Suite struct TimerTicksTests {
  private let timers = TimerQueue()

  @Test(arguments: bothClocks)
  func ticksStayInPhaseAndCountWhatASlowLoopMissed(clock: TimeBase) async throws {
    var deadline: UInt64?
    var count = 0
    var missed = 0
    for await tick in timers.ticks(every: .milliseconds(1), clock: clock) {
      #expect(clock.machine.now >= tick.deadline)
      if let deadline { #expect(tick.deadline == deadline) }
      deadline = tick.deadline + UInt64(tick.missed + 1) * 1_000
      missed += tick.missed
      count += 1
      if count == 30 { break }
      guard count.isMultiple(of: 5) else { continue }
      let end = tick.deadline + 5_000
      try await eventually { clock.machine.now >= end }
    }
    #expect(count == 30)
    #expect(missed >= 5, "the test did not make it miss any")
    #expect(timers.count == 0)
  }

  @Test(arguments: bothClocks)
  func theLoopEndsWithItsTaskAndLeavesNoTimerBehind(clock: TimeBase) async throws {
    let ticks = Counter()
    let loops = (0..<100).map { index in
      Task { [timers] in
        let interval = Duration.milliseconds(index.isMultiple(of: 10) ? 2 : 3_600_000)
        for await _ in timers.ticks(every: interval, clock: clock) { ticks.add() }
      }
    }
    try await eventually { ticks.value > 20 && timers.count >= 90 }
    for loop in loops { loop.cancel() }
    for loop in loops { await loop.value }
    #expect(timers.count == 0)
  }

  @Test(arguments: bothClocks)
  func aTaskThatIsAlreadyCancelledGetsNoTick(clock: TimeBase) async {
    let ticks = Counter()
    let loop = Task { [timers] in
      withUnsafeCurrentTask { $0?.cancel() }
      for await _ in timers.ticks(every: .microseconds(1), clock: clock) { ticks.add() }
    }
    await loop.value
    #expect(ticks.value == 0)
    #expect(timers.count == 0)
  }

  @Test(arguments: bothClocks)
  func aLoopKeepsItsQueueAliveWhileItWaits(clock: TimeBase) async {
    weak var ended: TimerQueue?
    do {
      let ticks = {
        let timers = TimerQueue()
        ended = timers
        return timers.ticks(every: .milliseconds(2), clock: clock)
      }()
      var iterator = ticks.makeAsyncIterator()
      #expect(await iterator.next() != nil)
      #expect(await iterator.next() != nil)
    }
    #expect(ended == nil)
  }

  @Test
  @MainActor func eachIterationHasItsOwnPhaseOnAnyActor() async {
    let ticks = timers.ticks(every: .milliseconds(1))
    for _ in 0..<3 {
      let start = BootClock.now
      for await tick in ticks {
        MainActor.assertIsolated()
        #expect(tick.deadline >= start + 1_000)
        break
      }
    }
  }

  @Test
  @MainActor func aTickIsOnTimeIfTheClockIsSetBackBeforeTheLoopRuns() async throws {
    let clock = SettableClock(at: 1_000)
    let timers = TimerQueue(queue: DispatchQueue(label: "ticks"), wallClock: clock.alarmClock)
    let loop = Task { @MainActor in
      var ticks: [Firing] = []
      let first = WallTime(since1970: .microseconds(1_100))
      for await tick in timers.ticks(from: first, every: .microseconds(100)) {
        ticks.append(tick)
        if ticks.count == 2 { break }
      }
      return ticks
    }
    try await eventually { timers.count == 1 }
    clock.set(to: 1_130)
    // The wait is over then, but the loop cannot go on: this actor is busy here.
    while timers.count == 1 {}
    clock.set(to: 500)
    try await eventually { timers.count == 1 }
    clock.set(to: 1_450)
    #expect(
      await loop.value == [
        Firing(lateness: .zero, missed: 0, deadline: 1_100),
        Firing(lateness: .microseconds(250), missed: 2, deadline: 1_200),
      ])
  }

  @Test func ticksFromAWallTimeOnAreInPhaseWithItEvenIfItHasPassed() async throws {
    let clock = SettableClock(at: 10_030)
    let timers = TimerQueue(queue: DispatchQueue(label: "ticks"), wallClock: clock.alarmClock)
    let past = timers.ticks(from: WallTime(since1970: .zero), every: .microseconds(1_000))
    var iterator = past.makeAsyncIterator()
    #expect(
      await iterator.next() == Firing(lateness: .microseconds(10_030), missed: 10, deadline: 0))
    let next = Task { [iterator] in
      var iterator = iterator
      return await iterator.next()
    }
    try await eventually { timers.alarm(.wall).deadline == 11_000 }
    clock.set(to: 11_000)
    #expect(await next.value == Firing(lateness: .zero, missed: 0, deadline: 11_000))

    let future = timers.ticks(
      from: WallTime(since1970: .microseconds(20_000)), every: .seconds(60))
    let first = Task { await future.first { _ in true } }
    try await eventually { timers.alarm(.wall).deadline == 20_000 }
    clock.set(to: 20_000)
    #expect(await first.value == Firing(lateness: .zero, missed: 0, deadline: 20_000))
  }
}
