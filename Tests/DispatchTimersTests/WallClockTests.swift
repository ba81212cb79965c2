import Dispatch
import DispatchTimers
import SeededRandom
import Testing

/// Timers on a wall clock that somebody sets.
@Suite struct WallClockTests {
  private let clock = SettableClock(at: 1_000)
  private let timers: TimerQueue
  private let calls = Log<Call>()

  /// Who was called, and when by the clock.
  private struct Call: Equatable {
    var name: Int
    var at: UInt64
    var late: UInt64
    var missed: Int

    init(_ name: Int, at: UInt64, late: UInt64 = 0, missed: Int = 0) {
      (self.name, self.at, self.late, self.missed) = (name, at, late, missed)
    }
  }

  init() {
    timers = TimerQueue(queue: DispatchQueue(label: "wall"), wallClock: clock.alarmClock)
  }

  private func schedule(
    _ name: Int, at deadline: UInt64, every interval: UInt64? = nil,
    _ body: @escaping @Sendable () -> Void = {}
  ) -> TimerHandle {
    timers.schedule(
      at: WallTime(since1970: .microseconds(Int64(deadline))),
      repeating: interval.map { .microseconds(Int64($0)) }, note(name, body))
  }

  private func note(
    _ name: Int, _ body: @escaping @Sendable () -> Void = {}
  ) -> @Sendable (Firing) -> Void {
    { [calls, clock] firing in
      let late = UInt64(firing.lateness / .microseconds(1))
      calls.append(Call(name, at: clock.now, late: late, missed: firing.missed))
      body()
    }
  }

  /// Waits until there have been so many calls, and the queue has come to rest.
  private func expect(
    _ expected: [Call], location: SourceLocation = #_sourceLocation
  ) async throws {
    try await eventually("calls so far: \(calls.all)", location: location) {
      calls.all.count >= expected.count
    }
    timers.queue.sync {}
    #expect(calls.all == expected, sourceLocation: location)
  }

  @Test func whenTheClockIsSetForwardDueTimersFireAtOnceAndTheOthersWait() async throws {
    let handles = [
      schedule(1, at: 2_000), schedule(2, at: 3_000), schedule(3, at: 3_001),
      timers.schedule(at: WallTime(since1970: .microseconds(2_500)), note(4)),
      timers.schedule(after: .seconds(3_600), clock: .continuous, note(5)),
    ]
    clock.set(to: 3_000)
    try await expect([
      Call(1, at: 3_000, late: 1_000), Call(4, at: 3_000, late: 500), Call(2, at: 3_000),
    ])
    #expect(handles.map(\.isPending) == [false, false, true, false, true])
    #expect(timers.alarm(.wall).deadline == 3_001)
  }

  @Test func whenTheClockIsSetBackTimersWaitUntilItShowsTheirDeadlinesAgain() async throws {
    let late = schedule(1, at: 9_000)
    let once = schedule(2, at: 5_000)
    clock.set(to: 5_000)
    try await expect([Call(2, at: 5_000)])
    clock.set(to: 2_000)
    // Past by what the clock showed before; now ahead, and in their order.
    let handles = [
      schedule(3, at: 4_000), schedule(4, at: 3_000), schedule(5, at: 2_500),
      schedule(6, at: 5_000),
    ]
    clock.set(to: 2_500)
    try await expect([Call(2, at: 5_000), Call(5, at: 2_500)])
    clock.set(to: 4_500)
    try await expect([
      Call(2, at: 5_000), Call(5, at: 2_500), Call(4, at: 4_500, late: 1_500),
      Call(3, at: 4_500, late: 500),
    ])
    // Nor does what was called before come again.
    clock.set(to: 9_000)
    try await expect([
      Call(2, at: 5_000), Call(5, at: 2_500), Call(4, at: 4_500, late: 1_500),
      Call(3, at: 4_500, late: 500), Call(6, at: 9_000, late: 4_000), Call(1, at: 9_000),
    ])
    withExtendedLifetime((late, once, handles)) {}
  }

  @Test func ifACallbackSetsTheClockBackTimersDueWithItWaitAgain() async throws {
    let third = Box<TimerHandle>()
    let first = schedule(1, at: 2_000) { [self] in
      third.put(schedule(3, at: 2_000))
      clock.set(to: 1_500)
    }
    let second = schedule(2, at: 2_000)
    clock.set(to: 2_000)
    try await expect([Call(1, at: 2_000)])
    #expect(!first.isPending && second.isPending && third.value?.isPending == true)
    try await eventually { timers.alarm(.wall).deadline == 2_000 }
    clock.set(to: 2_010)
    try await expect([
      Call(1, at: 2_000), Call(2, at: 2_010, late: 10), Call(3, at: 2_010, late: 10),
    ])
    third.take()
  }

  @Test func equalDeadlinesKeepTheOrderOfSchedulingWhenTheClockIsSetBack() async throws {
    clock.set(to: 100_000)
    let start = schedule(0, at: 100_000)
    try await expect([Call(0, at: 100_000)])
    // In one slot and one chunk, in one slot of many chunks, before and after the step.
    var handles = (1...300).map { schedule($0, at: $0 < 100 ? 200_000 : 150_000) }
    clock.set(to: 1_000)
    handles += (301...400).map { schedule($0, at: 150_000) }
    handles += (401...500).map { schedule($0, at: 50_000) }
    clock.set(to: 200_000)
    try await eventually { calls.all.count == 501 }
    #expect(
      calls.all.map(\.name) == [0] + Array(401...500) + Array(100...400) + Array(1...99))
    withExtendedLifetime((start, handles)) {}
  }

  @Test func aRepeatingTimerStaysInPhaseWithTheWallClockThroughSteps() async throws {
    let handle = schedule(1, at: 1_100, every: 100)
    clock.set(to: 1_100)
    try await expect([Call(1, at: 1_100)])
    clock.set(to: 3_650)
    let two = [Call(1, at: 1_100), Call(1, at: 3_650, late: 2_450, missed: 24)]
    try await expect(two)
    try await eventually { timers.alarm(.wall).deadline == 3_700 }
    // An hour that comes twice is not served twice.
    clock.set(to: 2_000)
    clock.set(to: 3_699)
    #expect(timers.alarm(.wall).deadline == 3_700)
    clock.set(to: 3_700)
    try await expect(two + [Call(1, at: 3_700)])
    #expect(handle.cancel())
    clock.set(to: 9_000)
    try await eventually { timers.alarm(.wall).deadline == nil }
    try await expect(two + [Call(1, at: 3_700)])
  }

  @Test func deadlinesInThePastEvenBefore1970AreDueAtOnce() async throws {
    let handles = [
      schedule(1, at: 400), schedule(2, at: 0),
      timers.schedule(at: WallTime(since1970: .seconds(-1)), note(3)),
      schedule(4, at: 0, every: 300),
    ]
    try await eventually { calls.all.count == 4 }
    #expect(
      calls.all.sorted { $0.name < $1.name } == [
        Call(1, at: 1_000, late: 600), Call(2, at: 1_000, late: 1_000),
        Call(3, at: 1_000, late: 1_000), Call(4, at: 1_000, late: 1_000, missed: 3),
      ])
    try await eventually { timers.alarm(.wall).deadline == 1_200 }
    withExtendedLifetime(handles) {}
  }

  @Test func wallTimersReleaseWeakTargetsAndStayCancelledOverClockSteps() async throws {
    let living = Counter()
    var target: Witness? = Witness(living)
    for repeating in [nil, Duration.microseconds(10)] {
      timers.schedule(
        at: WallTime(since1970: .microseconds(2_000)), repeating: repeating, target: target!
      ) { [note = note(1)] (_: Witness, firing) in note(firing) }.detach()
    }
    let cancelled = schedule(2, at: 5_000)
    clock.set(to: 2_000)
    try await expect([Call(1, at: 2_000), Call(1, at: 2_000)])
    clock.set(to: 1_000)
    #expect(cancelled.cancel() && !cancelled.cancel())
    target = nil
    #expect(living.value == 0)
    clock.set(to: 9_000)
    try await eventually { timers.count == 0 && timers.alarm(.wall).deadline == nil }
    try await expect([Call(1, at: 2_000), Call(1, at: 2_000)])
  }

  /// A timer as the model sees it.
  private struct Pending {
    var name: Int
    var deadline: UInt64
    var interval: UInt64?
    /// Counts up with each arming.
    var armed: Int
  }

  @Test(arguments: 1...3)
  func randomHistoriesOfStepsTimersAndCancelsAgreeWithAList(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    var pending: [Pending] = []
    var handles: [Int: TimerHandle] = [:]
    var expected: [Call] = []
    var armings = 0
    for name in 0..<250 {
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<5:
        let deadline = clock.now + UInt64.random(in: 0...100_000, using: &random) - 1_000
        let interval =
          Bool.random(using: &random) ? UInt64.random(in: 1...9_999, using: &random) : nil
        armings += 1
        pending.append(
          Pending(name: name, deadline: deadline, interval: interval, armed: armings))
        handles[name] = schedule(name, at: deadline, every: interval)
      case 5:
        guard let index = pending.indices.randomElement(using: &random) else { continue }
        #expect(handles[pending.remove(at: index).name]?.cancel() == true)
      case 6, 7:
        clock.set(to: clock.now + UInt64.random(in: 0...50_000, using: &random))
      case 8:
        clock.set(to: clock.now + UInt64.random(in: 0...1_000, using: &random))
      default:
        clock.set(to: max(clock.now, 41_000) - UInt64.random(in: 0...40_000, using: &random))
      }
      let now = clock.now
      for var due in pending.filter({ $0.deadline <= now }).sorted(by: {
        ($0.deadline, $0.armed) < ($1.deadline, $1.armed)
      }) {
        let late = now - due.deadline
        let missed = due.interval.map { late / $0 } ?? 0
        expected.append(Call(due.name, at: now, late: late, missed: Int(missed)))
        pending.removeAll { $0.name == due.name }
        guard let interval = due.interval else { continue }
        armings += 1
        due.deadline += (missed + 1) * interval
        due.armed = armings
        pending.append(due)
      }
      try await expect(expected)
      try #require(calls.all == expected)
    }
    #expect(timers.count == pending.count)
    #expect(expected.count > 100)
  }
}
