import Dispatch
import DispatchTimers
import Testing

/// Who keeps whom alive: nobody, but for the time of a call.
@Suite struct WeakTargetTests {
  @Test func aCallbackThatCapturesItsQueueEndsWithItsHandle() {
    weak var queue: TimerQueue?
    var handle: TimerHandle?
    do {
      let timers = TimerQueue()
      queue = timers
      handle = timers.schedule(after: .seconds(60), repeating: .seconds(60)) { _ = timers.count }
    }
    #expect(queue != nil && handle?.isPending == true)
    handle = nil
    #expect(queue == nil)
  }

  private let timers = TimerQueue()

  /// An object as one writes it: it keeps its timer in a property.
  private final class Owner: Sendable {
    let calls = Counter()
    private let timer = Box<TimerHandle>()
    private let witness: Witness

    init(_ living: Counter, atDeath: @escaping @Sendable () -> Void = {}) {
      witness = Witness(living, atDeath: atDeath)
    }

    func start(
      _ timers: TimerQueue, after delay: Duration, repeating interval: Duration?,
      clock: TimeBase,
      _ callback: @escaping @Sendable (Owner) -> Void = { _ in }
    ) {
      timer.put(
        timers.schedule(after: delay, repeating: interval, clock: clock, target: self) { owner in
          owner.calls.add()
          callback(owner)
        })
    }
  }

  @Test(arguments: bothClocks)
  func anOwnerReleasedInItsCallbackLivesUntilItReturns(clock: TimeBase) async throws {
    let living = Counter()
    let place = Box<Owner>()
    let livingAtTheEnd = Log<Int>()
    let calls: Counter
    do {
      let owner = Owner(living)
      calls = owner.calls
      place.put(owner)
    }
    let roadblock = try await Roadblock(on: timers.queue)
    place.value?.start(timers, after: .zero, repeating: .microseconds(10), clock: clock) { owner in
      place.take()
      livingAtTheEnd.append(living.value)
      withExtendedLifetime(owner) {}
    }
    roadblock.open()
    try await eventually { living.value == 0 }
    timers.queue.sync {}
    #expect(livingAtTheEnd.all == [1])
    #expect(calls.value == 1)
    #expect(timers.count == 0)
  }

  @Test(arguments: bothClocks)
  func anOwnerCanBeReleasedOnAnotherThreadAtAnyMomentOfItsTimersLife(clock: TimeBase)
    async throws
  {
    let living = Counter()
    for round in 0..<400 {
      let owner = Owner(living)
      let calls = owner.calls
      owner.start(timers, after: .zero, repeating: .microseconds(5), clock: clock)
      if round.isMultiple(of: 2) { try await eventually { calls.value > 0 } }
      _ = consume owner
    }
    try await eventually { living.value == 0 }
    timers.queue.sync {}
    #expect(timers.count == 0)
  }

  @Test(arguments: bothClocks)
  func ifTheLastReleaseHappensInTheCallbackTheTargetsDeinitRunsOnTheQueue(
    clock: TimeBase
  ) async throws {
    let living = Counter()
    let diedOnTheQueue = Counter()
    let isInside = Counter()
    let mayGoOn = Counter()
    let place = Box<Owner>()
    place.put(
      Owner(living) { [queue = timers.queue] in
        dispatchPrecondition(condition: .onQueue(queue))
        diedOnTheQueue.add()
      })
    place.value?.start(timers, after: .zero, repeating: .microseconds(10), clock: clock) { owner in
      isInside.add()
      while mayGoOn.value == 0 {}
      withExtendedLifetime(owner) {}
    }
    try await eventually { isInside.value == 1 }
    // On this thread; but the callback still has it.
    place.take()
    #expect(living.value == 1)
    mayGoOn.add()
    try await eventually { living.value == 0 }
    timers.queue.sync {}
    #expect(diedOnTheQueue.value == 1 && isInside.value == 1)
    #expect(timers.count == 0)
  }

  @Test(arguments: bothClocks)
  func cancellingPreventsACallThatIsAlreadyQueued(clock: TimeBase) async throws {
    let called = Counter()
    let roadblock = try await Roadblock(on: timers.queue)
    let once = timers.schedule(after: .zero, clock: clock) { called.add() }
    let repeating = timers.schedule(after: .zero, repeating: .milliseconds(1), clock: clock) {
      called.add()
    }
    // Long due, and the alarm's event waits behind the roadblock.
    try await passTime(clock: clock)
    #expect(once.cancel())
    #expect(repeating.cancel())
    roadblock.open()
    try await passTime(on: timers, clock: clock)
    timers.queue.sync {}
    #expect(called.value == 0)
    #expect(timers.count == 0)
  }

  @Test(arguments: bothClocks)
  func aTimerCanBeCancelledByAnotherOneOfTheSameWakeUp(clock: TimeBase) async throws {
    let called = Log<Int>()
    let second = Box<TimerHandle>()
    let roadblock = try await Roadblock(on: timers.queue)
    timers.schedule(after: .zero, clock: clock) {
      called.append(1)
      if let timer = second.take() { called.append(timer.cancel() ? 10 : 20) }
    }.detach()
    second.put(timers.schedule(after: .zero, clock: clock) { called.append(2) })
    try await passTime(clock: clock)
    roadblock.open()
    try await eventually { !called.all.isEmpty && timers.count == 0 }
    timers.queue.sync {}
    #expect(called.all == [1, 10])
  }

  @Test(arguments: bothClocks)
  func aDiscardedHandleCancelsADetachedOneDoesNot(clock: TimeBase) async throws {
    let living = Counter()
    let called = Log<Int>()
    let roadblock = try await Roadblock(on: timers.queue)
    _ = timers.schedule(after: .zero, clock: clock) { [witness = Witness(living)] in
      withExtendedLifetime(witness) { called.append(1) }
    }
    #expect(timers.count == 0 && living.value == 0)
    timers.schedule(after: .zero, clock: clock) { [witness = Witness(living)] in
      withExtendedLifetime(witness) { called.append(2) }
    }.detach()
    #expect(timers.count == 1 && living.value == 1)
    roadblock.open()
    try await eventually { living.value == 0 }
    #expect(called.all == [2])
  }

  @Test(arguments: bothClocks)
  func aRepeatingTimerWhoseTargetIsDeadLeavesTheWheel(clock: TimeBase) async throws {
    let living = Counter()
    let called = Counter()
    do {
      let target = Witness(living)
      timers.schedule(
        after: .milliseconds(1), repeating: .milliseconds(1), clock: clock, target: target
      ) {
        [captured = Witness(living)] _ in
        withExtendedLifetime(captured) { called.add() }
      }.detach()
      try await eventually { called.value >= 2 }
      #expect(timers.count == 1)
      withExtendedLifetime(target) {}
    }
    try await eventually { timers.count == 0 && living.value == 0 }
    timers.queue.sync {}
    let calls = called.value
    try await passTime(on: timers, clock: clock)
    timers.queue.sync {}
    #expect(called.value == calls)
    #expect(timers.alarm(clock).deadline == nil)
  }

  @Test(arguments: bothClocks)
  func aTimerDoesNotKeepItsTargetAlive(clock: TimeBase) {
    let living = Counter()
    var handles: [TimerHandle] = []
    do {
      let target = Witness(living)
      handles.append(timers.schedule(after: .seconds(3_600), clock: clock, target: target) { _ in })
      handles.append(
        timers.schedule(after: .seconds(1), repeating: .seconds(1), clock: clock, target: target) {
          _, _ in
        })
      #expect(living.value == 1)
    }
    #expect(living.value == 0)
    #expect(handles.allSatisfy { !$0.isPending && !$0.reschedule(after: .zero) && !$0.cancel() })
  }

  @Test(arguments: bothClocks)
  func aTargetReleasedWhileItsTimerIsDueIsNotCalled(clock: TimeBase) async throws {
    let living = Counter()
    let called = Counter()
    let roadblock = try await Roadblock(on: timers.queue)
    var handles: [TimerHandle] = []
    do {
      let target = Witness(living)
      for interval in [nil, Duration.milliseconds(1)] {
        handles.append(
          timers.schedule(after: .zero, repeating: interval, clock: clock, target: target) { _ in
            called.add()
          })
      }
      // Due by now, and the alarm's event waits behind the roadblock.
      try await passTime(clock: clock)
      #expect(handles.allSatisfy { $0.isPending })
    }
    #expect(living.value == 0)
    #expect(handles.allSatisfy { !$0.isPending })
    roadblock.open()
    try await eventually { timers.count == 0 }
    #expect(called.value == 0 && handles.allSatisfy { !$0.cancel() })
  }

  @Test(arguments: bothClocks)
  func cancelReleasesCapturesAtOnceAndTheyMayCancelOthers(clock: TimeBase) {
    let living = Counter()
    let inner = timers.schedule(after: .seconds(3_600), clock: clock) {
      [witness = Witness(living)] in
      withExtendedLifetime(witness) {}
    }
    // The deinit of what the outer timer captured cancels the inner one, and makes a third.
    let last = Box<TimerHandle>()
    let witness = Witness(living) { [timers] in
      inner.cancel()
      last.put(timers.schedule(after: .seconds(3_600), clock: clock) {})
    }
    let outer = timers.schedule(after: .seconds(3_600), clock: clock) { [witness] in
      withExtendedLifetime(witness) {}
    }
    _ = consume witness
    #expect(living.value == 2 && timers.count == 2)
    outer.cancel()
    #expect(living.value == 0 && timers.count == 1)
  }

  @Test(arguments: bothClocks)
  func timersEndWithTheirQueueDetachedOrNotAndReleaseTheirCaptures(clock: TimeBase)
    async throws
  {
    let living = Counter()
    let called = Counter()
    weak var endedQueue: TimerQueue?
    weak var endedAlarm: DispatchAlarm?
    var handles: [TimerHandle] = []
    do {
      let timers = TimerQueue()
      endedQueue = timers
      endedAlarm = timers.alarm(clock)
      for index in 0..<1_000 {
        let witness = Witness(living)
        let handle = timers.schedule(
          after: .milliseconds(index), repeating: index.isMultiple(of: 2) ? .milliseconds(1) : nil,
          clock: clock
        ) { withExtendedLifetime(witness) { called.add() } }
        if index.isMultiple(of: 3) { handle.detach() } else { handles.append(handle) }
      }
      try await eventually { called.value > 20 }
    }
    try await eventually { living.value == 0 }
    #expect(endedQueue == nil)
    let calls = called.value
    try await passTime(clock: clock)
    #expect(called.value == calls)
    #expect(handles.allSatisfy { !$0.isPending && !$0.cancel() })
    // The handles keep an empty driver and a disarmed alarm; when they go, nothing is left.
    handles = []
    try await eventually { endedAlarm == nil }
  }

  @Test(arguments: bothClocks)
  func theQueueMayEndWithinOneOfItsCallbacks(clock: TimeBase) async throws {
    let living = Counter()
    let called = Counter()
    let place = Box<TimerQueue>(TimerQueue())
    let own = DispatchQueue(label: "own")
    let roadblock = try await Roadblock(on: own)
    place.put(TimerQueue(queue: own))
    for _ in 0..<3 {
      let witness = Witness(living)
      place.value?.schedule(after: .zero, repeating: .microseconds(1), clock: clock) {
        withExtendedLifetime(witness) { called.add() }
        place.take()
      }.detach()
    }
    roadblock.open()
    try await eventually { living.value == 0 }
    own.sync {}
    #expect(called.value == 1)
  }
}
