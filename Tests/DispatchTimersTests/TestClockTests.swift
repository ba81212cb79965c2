import Dispatch
import DispatchTimers
import DispatchTimersTesting
import SeededRandom
import Testing

/// Timers on virtual time: nothing here waits for the machine's clock.
@Suite struct TestClockTests {
  private let clock = TestClock(wallTime: WallTime(since1970: .seconds(1_000)))
  private let timers: TimerQueue
  private let calls = Log<String>()

  init() { timers = TimerQueue(clock: clock) }

  private func note(_ name: String) -> @Sendable (Firing) -> Void {
    { [calls, clock] firing in
      calls.append("\(name) at \(clock.now.offset.components.seconds), missed \(firing.missed)")
      #expect(firing.lateness == .zero)
    }
  }

  @Test func timersRunInOrderAtTheirOwnTime() async {
    let handles = [
      timers.schedule(after: .seconds(3), note("three")),
      timers.schedule(after: .seconds(1), repeating: .seconds(2), note("odd")),
      timers.schedule(at: clock.wallTime.advanced(by: .seconds(2)), note("wall")),
    ]
    #expect(clock.pending == [.seconds(1), .seconds(2), .seconds(3)])
    #expect(calls.all.isEmpty)
    await clock.advance(by: .seconds(5))
    #expect(
      calls.all == [
        "odd at 1, missed 0", "wall at 2, missed 0", "three at 3, missed 0", "odd at 3, missed 0",
        "odd at 5, missed 0",
      ])
    #expect(clock.pending == [.seconds(2)] && clock.now.offset == .seconds(5))
    withExtendedLifetime(handles) {}
  }

  @Test func nothingRunsUnlessTheClockIsAdvanced() async {
    let handle = timers.schedule(after: .zero, note("now"))
    timers.queue.sync {}
    #expect(calls.all.isEmpty && clock.pending == [.zero])
    await clock.advance(by: .zero)
    #expect(calls.all == ["now at 0, missed 0"] && clock.pending.isEmpty)
    withExtendedLifetime(handle) {}
  }

  @Test func advanceRunsTimersThatItsCallbacksSchedule() async {
    timers.schedule(after: .seconds(1)) { [timers, note = note("inner")] in
      timers.schedule(after: .seconds(1), note).detach()
    }.detach()
    await clock.advance(by: .seconds(2))
    #expect(calls.all == ["inner at 2, missed 0"])
  }

  @Test func aBatchLargerThanTheBudgetHasRunWhenAdvanceReturns() async {
    let called = Counter()
    for _ in 0..<5_000 { timers.schedule(after: .seconds(1)) { called.add() }.detach() }
    await clock.advance(by: .seconds(1))
    #expect(called.value == 5_000 && timers.count == 0)
  }

  @Test func theWallClockCanBeSetBothWays() async {
    let start = clock.wallTime
    let called = Log<Duration>()
    let handle = timers.schedule(
      at: start.advanced(by: .seconds(60)), repeating: .seconds(60)
    ) { [clock] firing in
      called.append(clock.wallTime.since1970 - .seconds(1_000))
      #expect(firing.missed == (called.all.count == 1 ? 1 : 0))
    }
    await clock.setWallTime(to: start.advanced(by: .seconds(150)))
    #expect(called.all == [.seconds(150)])
    await clock.setWallTime(to: start)
    await clock.advance(by: .seconds(179))
    #expect(called.all == [.seconds(150)] && clock.pending == [.seconds(1)])
    await clock.advance(by: .seconds(1))
    #expect(called.all == [.seconds(150), .seconds(180)])
    withExtendedLifetime(handle) {}
  }

  @Test func aDateIsATimeOfDay() async {
    let handle = timers.schedule(at: clock.date(after: 30), note("date"))
    #expect(clock.pending == [.seconds(30)])
    await clock.advance(by: .seconds(30))
    #expect(calls.all == ["date at 30, missed 0"])
    withExtendedLifetime(handle) {}
  }

  @Test func toleranceGroupsTimersAndNeverMakesThemEarly() async {
    let times = Log<Duration>()
    var handles: [TimerHandle] = []
    for index in 1...100 {
      handles.append(
        timers.schedule(after: .milliseconds(100 + index), tolerance: .milliseconds(400)) {
          [clock] firing in
          times.append(clock.now.offset)
          #expect(firing.lateness == clock.now.offset - .milliseconds(100 + index))
          #expect(firing.lateness >= .zero && firing.lateness <= .milliseconds(400))
        })
    }
    await clock.advance(by: .seconds(1))
    #expect(times.all.count == 100)
    #expect(Set(times.all).count <= 2)
  }

  @Test func aRepeatingTimerWithToleranceStaysInPhase() async {
    let deadlines = Log<Duration>()
    let handle = timers.schedule(
      after: .seconds(1), repeating: .seconds(1), tolerance: .milliseconds(100)
    ) { [clock] firing in deadlines.append(clock.now.offset - firing.lateness) }
    await clock.advance(by: .milliseconds(3_200))
    #expect(deadlines.all == [.seconds(1), .seconds(2), .seconds(3)])
    withExtendedLifetime(handle) {}
  }

  @Test func aRescheduledTimeoutStartsAgain() async {
    let handle = timers.schedule(after: .seconds(10), note("timeout"))
    for _ in 0..<5 {
      await clock.advance(by: .seconds(9))
      #expect(handle.reschedule(after: .seconds(10)))
    }
    #expect(calls.all.isEmpty)
    await clock.advance(by: .seconds(10))
    #expect(calls.all == ["timeout at 55, missed 0"])
    #expect(!handle.reschedule(after: .seconds(1)) && clock.pending.isEmpty)
  }

  @Test func aRescheduledTimerMayBeDueEarlierThanAllOthers() async {
    let handle = timers.schedule(after: .seconds(100), note("moved"))
    #expect(handle.reschedule(after: .seconds(1)))
    await clock.advance(by: .seconds(1))
    #expect(calls.all == ["moved at 1, missed 0"])
  }

  @Test func aRepeatingTimerContinuesFromItsNewDeadline() async {
    let place = Box<TimerHandle>()
    place.put(
      timers.schedule(after: .seconds(1), repeating: .seconds(10)) { [note = note("call")] firing in
        note(firing)
        place.value?.reschedule(after: .seconds(3))
        place.take()?.detach()
      })
    await clock.advance(by: .seconds(20))
    #expect(
      calls.all == ["call at 1, missed 0", "call at 4, missed 0", "call at 14, missed 0"])
  }

  @Test func momentsOfTheMachinesClocksPassOnlyWithTheTestsClock() async {
    await clock.advance(by: .seconds(100))
    let handles = [
      timers.schedule(at: ContinuousClock.now + .seconds(5)) { [calls] in
        calls.append("continuous")
      },
      timers.schedule(at: SuspendingClock.now - .seconds(1)) { [calls] in calls.append("past") },
      timers.schedule(at: clock.now + .seconds(7), note("exact")),
    ]
    #expect(clock.pending.last == .seconds(7) && clock.pending.count == 3)
    #expect(clock.pending[1] <= .seconds(5))
    timers.queue.sync {}
    #expect(calls.all.isEmpty)
    await clock.advance(by: .seconds(7))
    #expect(calls.all == ["past", "continuous", "exact at 107, missed 0"])
    withExtendedLifetime(handles) {}
  }

  @Test func advancesAtTheSameTimeAddUp() async {
    let handle = timers.schedule(after: .seconds(1), repeating: .seconds(1), note("tick"))
    await withTaskGroup { group in
      for _ in 0..<20 { group.addTask { [clock] in await clock.advance(by: .seconds(1)) } }
    }
    #expect(clock.now.offset == .seconds(20))
    #expect(calls.all == (1...20).map { "tick at \($0), missed 0" })
    withExtendedLifetime(handle) {}
  }

  @Test func aCancelledTaskDoesNotWaitForWhatNeverComes() async {
    let task = Task { [clock] in await clock.untilPending(5) }
    task.cancel()
    await task.value
  }

  // MARK: Actors

  private actor Mailbox {
    var polls: [Int] = []
    let calls: Log<String>
    init(_ calls: Log<String>) { self.calls = calls }
    func poll(_ firing: Firing) {
      polls.append(firing.missed)
      calls.append("poll")
    }
  }

  @MainActor private final class Button {
    var left = 3
    var timer: TimerHandle?
    func start(_ timers: TimerQueue) {
      timer = timers.schedule(after: .seconds(1), repeating: .seconds(1), mainActor: self) {
        button, _ in
        button.left -= 1
        if button.left == 0 { button.timer = nil }
      }
    }
  }

  @Test func aCallbackMayUseTheStateOfItsActor() async {
    let mailbox = Mailbox(calls)
    let handle = timers.schedule(after: .seconds(1), repeating: .seconds(1), actor: mailbox) {
      mailbox, firing in
      mailbox.poll(firing)
    }
    await clock.advance(by: .seconds(3))
    #expect(await mailbox.polls == [0, 0, 0])
    #expect(handle.cancel() && !handle.cancel())
    await clock.advance(by: .seconds(3))
    #expect(calls.all.count == 3)
  }

  @Test @MainActor func aTimerOnTheMainActorMayReleaseItsOwnHandle() async {
    let button = Button()
    button.start(timers)
    await clock.advance(by: .seconds(10))
    #expect(button.left == 0 && timers.count == 0)
  }

  @Test @MainActor func cancellingOnTheActorPreventsACallThatIsOnItsWay() async throws {
    let timers = TimerQueue()
    let button = Button()
    let called = Counter()
    let handle = timers.schedule(after: .zero, mainActor: button) { _, _ in called.add() }
    let repeating = timers.schedule(after: .zero, repeating: .microseconds(1), mainActor: button) {
      _, _ in called.add()
    }
    let passed = Counter()
    timers.schedule(after: .milliseconds(5)) { passed.add() }.detach()
    // This actor is busy here, so both calls wait for it.
    while passed.value == 0 {}
    #expect(handle.isPending && repeating.isPending && timers.count == 2)
    #expect(handle.cancel() && repeating.cancel())
    #expect(timers.count == 0)
    try await passTime(on: timers, clock: .continuous)
    #expect(called.value == 0)
  }

  @Test @MainActor func anActorThatIsBusyMissesPeriodsInsteadOfCollectingCalls() async throws {
    let timers = TimerQueue()
    let button = Button()
    let missed = Log<Int>()
    let handle = timers.schedule(
      after: .zero, repeating: .milliseconds(1), mainActor: button
    ) { _, firing in missed.append(firing.missed) }
    let passed = Counter()
    timers.schedule(after: .milliseconds(30)) { passed.add() }.detach()
    while passed.value == 0 {}
    #expect(missed.all.isEmpty)
    try await eventually { !missed.all.isEmpty }
    #expect(try #require(missed.all.first) >= 20)
    handle.cancel()
  }

  @Test func aRepeatingTimerOnAnActorIsArmedAgainAfterEachCall() async throws {
    let timers = TimerQueue()
    let mailbox = Mailbox(calls)
    let handle = timers.schedule(after: .zero, repeating: .milliseconds(1), actor: mailbox) {
      mailbox, firing in
      mailbox.poll(firing)
    }
    try await eventually { calls.all.count >= 3 }
    handle.cancel()
  }

  @Test func aTimerEndsWithItsActor() async throws {
    var mailbox: Mailbox? = Mailbox(calls)
    let handle = timers.schedule(after: .seconds(1), repeating: .seconds(1), actor: mailbox!) {
      mailbox, firing in
      mailbox.poll(firing)
    }
    await clock.advance(by: .seconds(1))
    #expect(handle.isPending)
    mailbox = nil
    // The task of the call may release the actor a moment after the call has ended.
    try await eventually { !handle.isPending }
    await clock.advance(by: .seconds(1))
    #expect(timers.count == 0 && calls.all == ["poll"])
  }

  // MARK: Sleeping

  @Test func tasksSleepOnTheClockTooAndTheirCancellationIsNoticed() async throws {
    let order = Log<Int>()
    let tasks = [2, 1].map { seconds in
      Task { [clock] in
        try await clock.sleep(for: .seconds(seconds))
        order.append(seconds)
      }
    }
    let cancelled = Task { [clock] in try await clock.sleep(for: .seconds(1)) }
    await clock.untilPending(3)
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    await clock.advance(by: .seconds(1))
    try await tasks[1].value
    await clock.advance(by: .seconds(1))
    try await tasks[0].value
    #expect(order.all == [1, 2])
  }

  @Test func anyClockOfSwiftDrivesTimers() async throws {
    let called = Log<String>()
    for timers in [
      TimerQueue(clock: SuspendingClock()), TimerQueue(clock: OtherClock()), TimerQueue(),
    ] {
      let before = called.all.count
      let late = timers.schedule(after: .seconds(3_600)) { called.append("late") }
      let repeating = timers.schedule(after: .zero, repeating: .milliseconds(1)) {
        called.append("call")
      }
      try await eventually { called.all.count >= before + 3 }
      repeating.cancel()
      timers.queue.sync {}
      #expect(late.isPending && timers.count == 1)
    }
    #expect(!called.all.contains("late"))
  }

  /// One of the user's own.
  private struct OtherClock: Clock {
    var now: ContinuousClock.Instant { .now }
    var minimumResolution: Duration { .zero }
    func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
      // Too early, at times.
      try await Task.sleep(until: deadline - .microseconds(300), clock: .continuous)
    }
  }

  @Test(arguments: SeededGenerator.seeds)
  func instantsOfSwiftsClocksAreDeadlines(seed: UInt64) async throws {
    var generator = SeededGenerator(seed: seed)
    let timers = TimerQueue()
    let early = Counter()
    let called = Counter()
    func delay() -> Duration { .microseconds(Int.random(in: 0...9_000, using: &generator)) }
    for _ in 0..<100 {
      let continuous = ContinuousClock.now + delay()
      timers.schedule(at: continuous) {
        if ContinuousClock.now < continuous { early.add() }
        called.add()
      }.detach()
      let suspending = SuspendingClock.now + delay()
      timers.schedule(at: suspending) {
        if SuspendingClock.now < suspending { early.add() }
        called.add()
      }.detach()
    }
    try await eventually { called.value == 200 }
    #expect(early.value == 0 && timers.count == 0)
  }
}
