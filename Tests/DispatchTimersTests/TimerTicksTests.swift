import DispatchTimers
import Testing

@Suite struct TimerTicksTests {
  private let timers = TimerQueue()

  @Test("Ticks stay in phase, and count what a slow loop missed")
  func staysInPhase() async throws {
    var deadline: UInt64?
    var count = 0
    var missed = 0
    for await tick in timers.ticks(every: .milliseconds(1)) {
      #expect(BootClock.now >= tick.deadline)
      if let deadline { #expect(tick.deadline == deadline) }
      deadline = tick.deadline + UInt64(tick.missed + 1) * 1_000
      missed += tick.missed
      count += 1
      if count == 30 { break }
      if count.isMultiple(of: 5) { try await Task.sleep(for: .milliseconds(5)) }
    }
    #expect(count == 30)
    #expect(missed >= 5, "the test did not make it miss any")
    #expect(timers.count == 0)
  }

  @Test("The loop ends with its task, and leaves no timer behind")
  func endsWithItsTask() async throws {
    let ticks = Counter()
    let loops = (0..<100).map { index in
      Task { [timers] in
        let interval = Duration.milliseconds(index.isMultiple(of: 10) ? 2 : 3_600_000)
        for await _ in timers.ticks(every: interval) { ticks.add() }
      }
    }
    try await eventually { ticks.value > 20 && timers.count >= 90 }
    for loop in loops { loop.cancel() }
    for loop in loops { await loop.value }
    #expect(timers.count == 0)
  }

  @Test("A task that was cancelled before gets no tick")
  func isCancelledBefore() async {
    let ticks = Counter()
    let loop = Task { [timers] in
      withUnsafeCurrentTask { $0?.cancel() }
      for await _ in timers.ticks(every: .microseconds(1)) { ticks.add() }
    }
    await loop.value
    #expect(ticks.value == 0)
    #expect(timers.count == 0)
  }

  @Test("While a loop waits, its timers do not end")
  func keepsItsQueue() async {
    weak var ended: TimerQueue?
    do {
      let ticks = {
        let timers = TimerQueue()
        ended = timers
        return timers.ticks(every: .milliseconds(2))
      }()
      var iterator = ticks.makeAsyncIterator()
      #expect(await iterator.next() != nil)
      #expect(await iterator.next() != nil)
    }
    #expect(ended == nil)
  }

  @Test("Each iteration has a phase of its own, on any actor")
  @MainActor func iteratesAnew() async {
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
}
