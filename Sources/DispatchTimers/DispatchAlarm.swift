import Dispatch

/// One alarm on a queue: calls its handler once, at the deadline it is armed for.
///
/// It is the only timer the system sees, however many are pending in the wheel behind it: a strict
/// `DispatchSourceTimer`, armed for one absolute deadline at a time. Disarmed, it causes no
/// wake-ups.
///
/// - It never fires before its clock has reached the deadline, even if the clock is set.
/// - It fires once per arming; the handler may arm it again.
/// - The handler runs on the alarm's queue, which should be serial. To continue elsewhere, hop from
///   there (`eventLoop.execute { … }`).
///
/// All methods may be called from any thread, and from within the handler.
package final class DispatchAlarm: Sendable {
  private struct State {
    let source: any DispatchSourceTimer
    var handler: (@Sendable () -> Void)?
    /// The deadline of the source, in microseconds of the clock; nil when disarmed.
    var deadline: UInt64?
    var timesSet = 0
  }

  private let clock: AlarmClock
  private let state: Lock<State>

  /// Creates a disarmed alarm.
  ///
  /// - Parameters:
  ///   - clock: the clock that measures deadlines.
  ///   - queue: the queue that the handler runs on.
  package init(clock: AlarmClock, queue: DispatchQueue) {
    self.clock = clock
    state = Lock(State(source: DispatchSource.makeTimerSource(flags: .strict, queue: queue)))
    state.withLock { state in
      state.source.setEventHandler { [weak self] in self?.fire() }
      state.source.schedule(deadline: .distantFuture, leeway: .nanoseconds(0))
      // Activated at once: libdispatch stops the program when an inactive or suspended source is
      // released.
      state.source.activate()
    }
  }

  deinit {
    state.withLock { state in
      clock.set(state.source, to: nil)
      state.source.cancel()
    }
  }

  /// Sets the handler to call when the alarm fires. Set it before the first arming.
  ///
  /// The alarm retains the handler, which must refer weakly to the alarm's owner.
  package func setHandler(_ handler: @escaping @Sendable () -> Void) {
    let previous = state.withLock { state in
      let previous = state.handler
      state.handler = handler
      return previous
    }
    // Released outside the lock: the `deinit` of a captured object may disarm the alarm.
    withExtendedLifetime(previous) {}
  }

  /// The deadline, in microseconds of the clock; nil when disarmed.
  package var deadline: UInt64? { state.withLock { $0.deadline } }

  /// How often the system's timer has been set, which is the cost of arming. For tests.
  package var timesSet: Int { state.withLock { $0.timesSet } }

  /// Arms the alarm for `deadline`, in microseconds of its clock, in place of the current deadline.
  /// A past deadline fires at once. Does nothing if the deadline stays the same.
  package func arm(at deadline: UInt64) {
    state.withLock { state in
      if state.deadline != deadline { set(deadline, in: &state) }
    }
  }

  /// Arms the alarm for `deadline`; does nothing if it is armed for then or earlier.
  package func arm(noLaterThan deadline: UInt64) {
    state.withLock { state in
      if let armed = state.deadline, armed <= deadline { return }
      set(deadline, in: &state)
    }
  }

  /// Disarms the alarm. Called on the alarm's queue, the handler does not start until the alarm is
  /// armed again. Called elsewhere, a handler that was due may be running or may still start once;
  /// work put on the queue afterwards runs after it.
  package func disarm() {
    state.withLock { state in
      guard state.deadline != nil else { return }
      state.deadline = nil
      clock.set(state.source, to: nil)
    }
  }

  private func fire() {
    let handler = state.withLock { state -> (@Sendable () -> Void)? in
      // Disarmed while the event was pending.
      guard let deadline = state.deadline else { return nil }
      // Early: the alarm was armed for later, the wall clock was set back, or the deadline is
      // beyond the latest dispatch time.
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
