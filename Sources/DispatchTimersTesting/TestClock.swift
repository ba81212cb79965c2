import Dispatch
public import DispatchTimers

/// A clock for tests, whose time passes only when you say so.
///
///     let clock = TestClock()
///     let timers = TimerQueue(clock: clock)
///     let button = CountdownButton(timers)
///     await clock.advance(by: .seconds(60))        // runs what falls due, in order
///     #expect(button.title == "Send again")
///     #expect(clock.pending.isEmpty)
///
/// Timers of a ``DispatchTimers/TimerQueue`` run during ``advance(by:)`` and at no other time, each
/// at its own deadline, and have run when it returns: also those on an actor, and those that a
/// callback schedules. The wall clock of the queue is virtual, too; ``setWallTime(to:)`` sets it.
///
/// Moments of `ContinuousClock` and `SuspendingClock` count as the delay until then, as in
/// `schedule(at: ContinuousClock.now + …)`. Moments of this clock are exact, as in
/// `schedule(at: clock.now + …)`.
///
/// Tasks can sleep on the clock. What a task does after it has been woken up takes its own time:
/// wait for it with ``untilPending(_:)``, if it sleeps again, or await its result.
public final class TestClock: Clock, Sendable {
  /// A moment: the time since the clock was created.
  public struct Instant: InstantProtocol {
    public var offset: Duration

    public init(offset: Duration = .zero) { self.offset = offset }

    public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
    public func duration(to other: Instant) -> Duration { other.offset - offset }
    public static func + (lhs: Instant, rhs: Duration) -> Instant { lhs.advanced(by: rhs) }
    public static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.offset < rhs.offset }
  }

  private struct Timers {
    weak var timers: (any VirtualTimers)?
    let isWall: Bool
  }

  private struct Sleeper {
    let deadline: Instant
    let continuation: CheckedContinuation<Void, any Error>
  }

  private struct State {
    var now = Instant()
    /// The wall time at `Instant()`.
    var wall: WallTime
    var timers: [Timers] = []
    var sleepers: [Int: Sleeper] = [:]
    var lastID = 0
    /// Whether time is passing, and who else wants to let it pass afterwards.
    var isAdvancing = false
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  /// The continuous clock starts here: not at its epoch, so that deadlines may lie in the past.
  fileprivate static let start: Duration = .seconds(86_400)

  private let state: Lock<State>

  /// Creates a clock that is frozen until it is advanced.
  ///
  /// - Parameter wallTime: what the wall clock shows at first.
  public init(wallTime: WallTime = WallTime(since1970: .seconds(1_800_000_000))) {
    state = Lock(State(wall: wallTime))
  }

  public var now: Instant { state.withLock { $0.now } }

  public var minimumResolution: Duration { .microseconds(1) }

  /// What the wall clock shows.
  public var wallTime: WallTime { state.withLock { $0.wall.advanced(by: $0.now.offset) } }

  // MARK: Time

  /// Lets time pass, and runs what falls due: in the order of the deadlines, each at its own time.
  ///
  /// Of several calls at once, each begins when the one before has returned: their times add up.
  ///
  /// - Parameter duration: negative counts as zero. With zero, it runs what is due now.
  public func advance(by duration: Duration) async {
    await beginAdvancing()
    let target = now.advanced(by: max(duration, .zero))
    while let next = nextInstant, next <= target {
      state.withLock { $0.now = max($0.now, next) }
      await runDue()
    }
    state.withLock { $0.now = target }
    endAdvancing()
  }

  private func beginAdvancing() async {
    await withCheckedContinuation { (turn: CheckedContinuation<Void, Never>) in
      let isFree = state.withLock { state in
        if state.isAdvancing {
          state.waiting.append(turn)
          return false
        }
        state.isAdvancing = true
        return true
      }
      if isFree { turn.resume() }
    }
  }

  private func endAdvancing() {
    let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
      guard !state.waiting.isEmpty else {
        state.isAdvancing = false
        return nil
      }
      return state.waiting.removeFirst()
    }
    next?.resume()
  }

  /// Sets the wall clock, forwards or backwards, and runs the timers that are due by it. Delays do
  /// not change.
  public func setWallTime(to time: WallTime) async {
    state.withLock { $0.wall = time.advanced(by: .zero - $0.now.offset) }
    await advance(by: .zero)
  }

  /// How long it takes until each pending timer and sleep is due, sorted.
  public var pending: [Duration] {
    let (state, timers) = snapshot()
    let deadlines = timers.flatMap { entry in
      entry.timers.deadlines.map { Self.instant($0, entry.isWall, state) }
    }
    return (deadlines + state.sleepers.values.map(\.deadline))
      .map { max(state.now.duration(to: $0), .zero) }.sorted()
  }

  /// Waits until at least `count` timers and sleeps are pending: for a task that has yet to sleep.
  /// Returns early when its task is cancelled, as by the time limit of a test.
  public func untilPending(_ count: Int = 1) async {
    while !Task.isCancelled, pending.count < count { try? await Task.sleep(for: .milliseconds(1)) }
  }

  private func snapshot() -> (State, [(timers: any VirtualTimers, isWall: Bool)]) {
    state.withLock { state in
      state.timers.removeAll { $0.timers == nil }
      return (
        state,
        state.timers.compactMap { entry in
          entry.timers.map { ($0, entry.isWall) }
        }
      )
    }
  }

  private static func instant(_ deadline: UInt64, _ isWall: Bool, _ state: State) -> Instant {
    let epoch = isWall ? state.wall.since1970 : start
    return Instant(offset: .microseconds(exactly: deadline) - epoch)
  }

  private var nextInstant: Instant? {
    let (state, timers) = snapshot()
    let deadlines = timers.compactMap { entry in
      entry.timers.nextDeadline.map { Self.instant($0, entry.isWall, state) }
    }
    return (deadlines + state.sleepers.values.map(\.deadline)).min()
  }

  private func runDue() async {
    for entry in snapshot().1 { await entry.timers.runDue() }
    let due = state.withLock { state in
      let due = state.sleepers.filter { $0.value.deadline <= state.now }
      for id in due.keys { state.sleepers[id] = nil }
      return due.sorted { ($0.value.deadline, $0.key) < ($1.value.deadline, $1.key) }
    }
    for (_, sleeper) in due {
      sleeper.continuation.resume()
      await Task.yield()
    }
  }

  // MARK: Sleeping

  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    let id = state.withLock { state in
      state.lastID += 1
      return state.lastID
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation {
        (continuation: CheckedContinuation<Void, any Error>) in
        let isOver = state.withLock { state in
          if Task.isCancelled || deadline <= state.now { return true }
          state.sleepers[id] = Sleeper(deadline: deadline, continuation: continuation)
          return false
        }
        guard isOver else { return }
        if Task.isCancelled {
          continuation.resume(throwing: CancellationError())
        } else {
          continuation.resume()
        }
      }
    } onCancel: {
      let sleeper = state.withLock { $0.sleepers.removeValue(forKey: id) }
      sleeper?.continuation.resume(throwing: CancellationError())
    }
  }
}

extension TestClock.Instant: TimerInstant {
  public var timerDeadline: TimerDeadline { TimerDeadline(virtual: TestClock.start + offset) }
}

extension TestClock: ManualClock {
  package func nanoseconds(wall: Bool) -> UInt64 {
    state.withLock { (wall ? $0.wall.since1970 : Self.start) + $0.now.offset }
      .nanosecondsRoundedDown
  }

  package func attach(_ timers: any VirtualTimers, wall: Bool) {
    state.withLock { $0.timers.append(Timers(timers: timers, isWall: wall)) }
  }
}
