import Dispatch

/// One alarm on a queue: calls its handler once when the moment it is armed for has come.
///
/// It is the only timer the system ever sees, however many are pending in the wheel behind it: a
/// strict `DispatchSourceTimer`, armed for one absolute deadline at a time. While it is not armed
/// nothing ticks.
///
/// - It never fires before its clock has reached the deadline, whatever becomes of the clock.
/// - It fires once; the handler arms it again.
/// - The handler runs on the alarm's queue, which should be serial. To continue elsewhere, hop from
///   there (`eventLoop.execute { … }`).
///
/// All methods may be called from any thread, and from within the handler.
package final class DispatchAlarm: Sendable {
  private struct State {
    let source: any DispatchSourceTimer
    var handler: (@Sendable () -> Void)?
    /// What the source is set to, in microseconds; nil when disarmed.
    var deadline: UInt64?
    var timesSet = 0
  }

  private let clock: AlarmClock
  private let state: Lock<State>

  /// A disarmed alarm.
  ///
  /// - Parameters:
  ///   - clock: what its deadlines are measured by.
  ///   - queue: where the handler runs.
  package init(clock: AlarmClock, queue: DispatchQueue) {
    self.clock = clock
    state = Lock(State(source: DispatchSource.makeTimerSource(flags: .strict, queue: queue)))
    state.withLock { state in
      state.source.setEventHandler { [weak self] in self?.fire() }
      state.source.schedule(deadline: .distantFuture, leeway: .nanoseconds(0))
      // From the start, because libdispatch stops the program when a source that never was
      // activated (or is suspended) is released.
      state.source.activate()
    }
  }

  deinit {
    state.withLock { $0.source.cancel() }
  }

  /// Says what is to be called when the alarm fires. Set it before the first arming.
  ///
  /// The alarm holds the handler for as long as it lives: let it refer weakly to the alarm's owner.
  package func setHandler(_ handler: @escaping @Sendable () -> Void) {
    let previous = state.withLock { state in
      let previous = state.handler
      state.handler = handler
      return previous
    }
    // Released here, not under the lock: what it captured may disarm the alarm as it goes.
    withExtendedLifetime(previous) {}
  }

  /// What the alarm is armed for, in microseconds of its clock; nil when it is not.
  package var deadline: UInt64? { state.withLock { $0.deadline } }

  /// How often the system's timer has been set so far. For tests: it is what arming costs.
  package var timesSet: Int { state.withLock { $0.timesSet } }

  /// Arms the alarm for `deadline`, in microseconds of its clock, instead of what it was armed for.
  /// What is past fires at once. Costs nothing if it is armed for that already.
  package func arm(at deadline: UInt64) {
    state.withLock { state in
      if state.deadline != deadline { set(deadline, in: &state) }
    }
  }

  /// Arms the alarm for `deadline` unless it is armed for an earlier moment. Costs nothing then.
  package func arm(noLaterThan deadline: UInt64) {
    state.withLock { state in
      if let armed = state.deadline, armed <= deadline { return }
      set(deadline, in: &state)
    }
  }

  /// Disarms the alarm. Called on the alarm's queue, the handler does not start until the alarm is
  /// armed again. Called elsewhere, the handler may be running, or may still start once if it was
  /// due; what is put on the queue afterwards runs later than that.
  package func disarm() {
    state.withLock { state in
      guard state.deadline != nil else { return }
      state.deadline = nil
      state.source.schedule(deadline: .distantFuture, leeway: .nanoseconds(0))
    }
  }

  private func fire() {
    let handler = state.withLock { state -> (@Sendable () -> Void)? in
      // Disarmed while the event was on its way.
      guard let deadline = state.deadline else { return nil }
      // Armed for later meanwhile; or the wall clock was set back; or the deadline is further off
      // than a dispatch time can say.
      guard clock.now >= deadline else {
        set(deadline, in: &state)
        return nil
      }
      state.deadline = nil
      return state.handler
    }
    handler?()
  }

  private func set(_ deadline: UInt64, in state: inout State) {
    precondition(state.handler != nil, "an alarm needs a handler before it is armed")
    state.deadline = deadline
    state.timesSet += 1
    clock.set(state.source, to: deadline)
  }
}
