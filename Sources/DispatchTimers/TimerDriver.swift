import Dispatch

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
    /// Whether a batch is running or queued; the batch sets the alarm when it ends.
    var isRunning = false
    var isShutDown = false
  }

  let queue: DispatchQueue
  let clock: AlarmClock
  let alarm: DispatchAlarm
  private let state: Lock<State>

  init(clock: AlarmClock, queue: DispatchQueue) {
    self.queue = queue
    self.clock = clock
    alarm = DispatchAlarm(clock: clock, queue: queue)
    state = Lock(State(table: TimerTable(startingAt: clock.now)))
    alarm.setHandler { [weak self] in self?.wakeUp() }
  }

  var count: Int { state.withLock { $0.table.count } }

  func add(_ phase: Phase, _ action: @escaping TimerAction) -> TimerTable.Key {
    state.withLock { state in
      precondition(!state.isShutDown, "a timer queue was used after its end")
      // The deadline is past, or the clock has been set back; only then is the clock read.
      if phase.deadline < state.table.elapsed { state.table.follow(clock.now) }
      let key = state.table.add(phase, action)
      if !state.isRunning { alarm.arm(noLaterThan: phase.deadline) }
      return key
    }
  }

  /// Adds a timer and returns the handle that cancels it.
  func schedule(
    at deadline: UInt64, every interval: Duration?, _ action: @escaping TimerAction
  ) -> TimerHandle {
    TimerHandle(self, add(Phase(deadline: deadline, every: interval), action))
  }

  func isPending(_ key: TimerTable.Key) -> Bool {
    state.withLock { $0.table.isPending(key) }
  }

  /// Cancels a timer; false if it has ended. The alarm stays armed: a spurious wake-up is cheaper
  /// than re-arming for every cancelled timeout.
  func cancel(_ key: TimerTable.Key) -> Bool {
    let action = state.withLock { $0.table.remove(key) }
    return action != nil
  }

  /// Ends all timers permanently.
  func shutDown() {
    let actions = state.withLock { state in
      state.isShutDown = true
      return state.table.removeAll()
    }
    alarm.disarm()
    withExtendedLifetime(actions) {}
  }

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
      let goesOn = due.action(due.firing)
      guard due.repeats else { continue }
      let ended = state.withLock { $0.table.settle(due.key, goesOn: goesOn) }
      withExtendedLifetime(ended) {}
    }
    if budget == 0 {
      queue.async { [weak self] in self?.runBatch() }
      return
    }
    state.withLock { state in
      state.isRunning = false
      if let next = state.table.nextDeadline { alarm.arm(at: next) } else { alarm.disarm() }
    }
  }

  private func popDue(_ budget: inout Int) -> TimerTable.Due? {
    // Reads the clock for each timer, because a callback takes time and lateness must be exact.
    state.withLock { $0.table.popDue(by: clock.now, budget: &budget) }
  }
}
