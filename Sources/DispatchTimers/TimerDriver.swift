import Dispatch

#if DEBUG
  import Glibc
  import Synchronization

  private let hasReported = Atomic(false)
#endif

/// Runs a table of timers with one clock and one alarm on one queue.
///
/// ``TimerQueue`` owns the driver and shuts it down; handles and sequences may retain it longer,
/// which keeps no timer alive. The lock guards the state only: no action is called or released
/// while it is held.
final class TimerDriver: Sendable {
  /// The number of timers that one batch touches before other work on the queue runs.
  static let timersPerBatch = 1_024

  private struct State: ~Copyable {
    var table: TimerTable
    /// The time of the clock when it was last read, if it cannot be set.
    var now: UInt64
    /// What the alarm is armed for; `.max` if it is not, or for later than all timers.
    var alarmed = UInt64.max
    /// Whether a batch is running or queued; the batch sets the alarm when it ends.
    var isRunning = false
    var isShutDown = false
    #if DEBUG
      var last: (index: TimerTable.Index, time: UInt64)?
    #endif
  }

  let queue: DispatchQueue
  let clock: AlarmClock
  let alarm: DispatchAlarm
  private let state: Lock<State>

  init(clock: AlarmClock, queue: DispatchQueue) {
    self.queue = queue
    self.clock = clock
    alarm = DispatchAlarm(clock: clock, queue: queue)
    let now = clock.now
    state = Lock(State(table: TimerTable(startingAt: now), now: now))
    alarm.setHandler { [weak self] in self?.wakeUp() }
  }

  var count: Int { state.withLock { $0.table.count } }

  var slots: Int { state.withLock { $0.table.slots } }

  /// Adds a timer and returns the handle that cancels it.
  func schedule(
    at deadline: UInt64, every interval: Duration? = nil, tolerance: Duration = .zero,
    _ action: TimerAction
  ) -> TimerHandle {
    let phase = Phase(deadline: deadline, every: interval)
    let tolerance = tolerance == .zero ? 0 : tolerance.microsecondsRoundedDown
    let index = state.withLock { state in
      precondition(!state.isShutDown, "a timer queue was used after its end")
      followClock(&state, for: deadline)
      let (index, armed) = state.table.add(phase, tolerance: tolerance, action)
      arm(noLaterThan: armed, &state)
      #if DEBUG
        state.last = (index, BootClock.now)
      #endif
      return index
    }
    return TimerHandle(self, index)
  }

  /// Prepares the table for a new deadline.
  private func followClock(_ state: inout State, for deadline: UInt64) {
    // The deadline is past, or the clock has been set back; only then is the clock read.
    if !clock.isSteady, deadline < state.table.elapsed { state.table.follow(clock.now) }
  }

  private func arm(noLaterThan deadline: UInt64, _ state: inout State) {
    guard deadline < state.alarmed, !state.isRunning else { return }
    state.alarmed = deadline
    alarm.arm(noLaterThan: deadline)
  }

  func isPending(_ index: TimerTable.Index) -> Bool {
    state.withLock { $0.table.action(index) }?.isAlive ?? false
  }

  /// Cancels a timer; false if it has ended. The alarm stays armed: a spurious wake-up is cheaper
  /// than re-arming for every cancelled timeout.
  func cancel(_ index: TimerTable.Index) -> Bool {
    state.withLock { $0.table.cancel(index) }?.isAlive ?? false
  }

  func reschedule(_ index: TimerTable.Index, after delay: Duration) -> Bool {
    guard isPending(index) else { return false }
    let deadline = clock.deadline(after: delay)
    return state.withLock { state in
      followClock(&state, for: deadline)
      guard let armed = state.table.reschedule(index, to: deadline) else { return false }
      arm(noLaterThan: armed, &state)
      return true
    }
  }

  func detach(_ index: TimerTable.Index) { state.withLock { $0.table.detach(index) } }

  /// Ends a timer whose handle has been released, unless it is detached.
  func release(_ index: TimerTable.Index) {
    let action = state.withLock { state in
      let action = state.table.release(index)
      #if DEBUG
        if action != nil { reportDiscarded(index, state.last) }
      #endif
      return action
    }
    withExtendedLifetime(action) {}
  }

  #if DEBUG
    /// Writes a warning, once, if a handle was released at once: `_ = timers.schedule(…)` compiles,
    /// and cancels the timer.
    private func reportDiscarded(
      _ index: TimerTable.Index, _ last: (index: TimerTable.Index, time: UInt64)?
    ) {
      guard let last, last.index == index, BootClock.now < last.time + 500,
        !hasReported.exchange(true, ordering: .relaxed)
      else { return }
      let line = """
        DispatchTimers: a timer was cancelled at once, because its handle was released. Keep the \
        handle, or call detach().\n
        """
      _ = unsafe line.withCString { unsafe write(STDERR_FILENO, $0, strlen($0)) }
    }
  #endif

  /// Ends all timers permanently.
  func shutDown() {
    let actions = state.withLock { state in
      state.isShutDown = true
      return state.table.removeAll()
    }
    alarm.disarm()
    withExtendedLifetime(actions) {}
  }

  // MARK: Calls

  private func wakeUp() {
    let isFree = state.withLock { state in
      if state.isRunning { return false }
      state.isRunning = true
      return true
    }
    if isFree { runBatch() }
  }

  /// Calls the actions of due timers until none is due or the budget is used up.
  private func runBatch() {
    var budget = Self.timersPerBatch
    while let due = popDue(&budget) {
      switch due.action {
      case .plain(let call):
        if due.repeats { _ = firing(due) }
        call()
        if due.repeats { settle(due, isAlive: true) }
      case .firing(let call):
        call(firing(due))
        if due.repeats { settle(due, isAlive: true) }
      case .target(let target):
        let isAlive = target.call(firing(due))
        if due.repeats { settle(due, isAlive: isAlive) }
      case .actor(let call): start(call, due)
      }
    }
    if budget == 0 {
      queue.async { [weak self] in self?.runBatch() }
      return
    }
    state.withLock { state in
      state.isRunning = false
      if let next = state.table.nextDeadline {
        state.alarmed = next
        alarm.arm(at: next)
      } else {
        state.alarmed = .max
        alarm.disarm()
      }
    }
  }

  private func popDue(_ budget: inout Int) -> TimerTable.Due? {
    state.withLock { state in
      // A clock that can be set is read for each timer: the callback before may have set it.
      guard clock.isSteady else { return state.table.popDue(by: clock.now, budget: &budget) }
      if let due = state.table.popDue(by: state.now, budget: &budget) { return due }
      guard budget > 0 else { return nil }
      state.now = clock.now
      return state.table.popDue(by: state.now, budget: &budget)
    }
  }

  /// Returns the firing of a call that begins now: a callback takes time, and lateness is exact.
  private func firing(_ due: TimerTable.Due) -> Firing {
    let now = max(clock.now, due.deadline)
    guard due.repeats else { return Phase.once(due.deadline, at: now) }
    return state.withLock { $0.table.fire(due.index, at: now) }
      // Cancelled or moved since it was popped, by another thread: this call was due already.
      ?? Phase.once(due.deadline, at: now)
  }

  private func settle(_ due: TimerTable.Due, isAlive: Bool) {
    let ended = state.withLock { $0.table.settle(due.index, isAlive: isAlive) }
    withExtendedLifetime(ended) {}
  }

  private func start(_ call: ActorCall, _ due: TimerTable.Due) {
    call.start(
      begin: { [self] in
        state.withLock { state in
          state.table.beginCall(due.index, call, deadline: due.deadline, at: clock.now)
        }
      },
      end: { [self] isAlive in
        state.withLock { state in
          state.table.endCall(due.index, call, isAlive: isAlive)
          if !state.isRunning, let next = state.table.nextDeadline {
            arm(noLaterThan: next, &state)
          }
        }
      })
  }
}

// MARK: Virtual time

extension TimerDriver: VirtualTimers {
  package var nextDeadline: UInt64? { state.withLock { $0.table.nextDeadline } }

  package var deadlines: [UInt64] { state.withLock { $0.table.allDeadlines() } }

  package func runDue() async {
    repeat {
      await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
        queue.async {
          self.wakeUp()
          done.resume()
        }
      }
      while state.withLock({ $0.table.callCount > 0 && !$0.isRunning }) {
        try? await Task.sleep(for: .microseconds(100))
      }
    } while isDue
  }

  private var isDue: Bool {
    let now = clock.now
    return state.withLock { $0.isRunning || ($0.table.nextDeadline ?? .max) <= now }
  }
}
