import Dispatch
import Glibc

/// One alarm on a queue: calls its handler once when the moment it is armed for has come.
///
/// It is the only timer the system ever sees, however many are pending in the wheel behind it: a
/// strict `DispatchSourceTimer`, armed for one absolute deadline at a time. While it is not armed
/// nothing ticks.
///
/// - It never fires before its clock has reached the deadline, whatever becomes of the clock.
/// - It fires once; the handler arms it again.
/// - The handler runs on the alarm's queue, which should be serial. To go on elsewhere, hop from
///   there (`eventLoop.execute { … }`).
///
/// All methods may be called from any thread, and from within the handler.
package final class DispatchAlarm: Sendable {
  /// What its deadlines are measured by.
  package enum Clock: Sendable {
    /// Microseconds of ``BootClock``, which runs on while the machine sleeps.
    case boot
    /// Microseconds of ``WallClock``: the alarm comes earlier or later when that is set.
    case wall

    var now: UInt64 {
      switch self {
      case .boot: BootClock.now
      case .wall: WallClock.now
      }
    }
  }

  private struct State {
    let source: any DispatchSourceTimer
    var handler: (@Sendable () -> Void)?
    /// What the source is set to, in microseconds; nil when disarmed.
    var deadline: UInt64?
    var timesSet = 0
  }

  private let clock: Clock
  private let state: Lock<State>

  /// A disarmed alarm.
  ///
  /// - Parameters:
  ///   - clock: what its deadlines are measured by.
  ///   - queue: where the handler runs.
  package init(clock: Clock, queue: DispatchQueue) {
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

  /// Disarms the alarm. Afterwards the handler does not start, until it is armed anew; on another
  /// thread than the queue's it may be running already.
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
    switch clock {
    case .boot:
      state.source.schedule(deadline: .boot(microseconds: deadline), leeway: .nanoseconds(0))
    case .wall:
      state.source.schedule(wallDeadline: .unix(microseconds: deadline), leeway: .nanoseconds(0))
    }
  }
}

/// A dispatch time keeps its clock in the two highest bits, so this is as far as one can reach: 146
/// years. The alarm wakes up then, finds it is early, and arms itself again.
private let latestNanoseconds: UInt64 = 1 << 62 - 1

private func dispatchNanoseconds(_ microseconds: UInt64) -> UInt64 {
  let (nanoseconds, overflow) = microseconds.multipliedReportingOverflow(by: 1_000)
  return overflow ? latestNanoseconds : min(nanoseconds, latestNanoseconds)
}

extension DispatchTime {
  /// A moment of `CLOCK_BOOTTIME`.
  ///
  /// Swift's `DispatchTime` has no initializer for it: it counts `CLOCK_MONOTONIC`, which stops in
  /// suspend. But in libdispatch's encoding bit 63 set and bit 62 clear mean its "monotonic" clock
  /// that, unlike "uptime", runs on in suspend; on Linux it is a `timerfd` of `CLOCK_BOOTTIME`. The
  /// initializer passes the bits through as they are.
  ///
  /// Source: libdispatch, src/shims/time.h (`_dispatch_time_to_clock_and_value`) and
  /// src/event/event_epoll.c.
  fileprivate static func boot(microseconds: UInt64) -> DispatchTime {
    DispatchTime(uptimeNanoseconds: dispatchNanoseconds(microseconds) | 1 << 63)
  }
}

extension DispatchWallTime {
  /// A moment after 1970, by the clock on the wall.
  fileprivate static func unix(microseconds: UInt64) -> DispatchWallTime {
    // The first few nanoseconds after 1970 mean "now" and "never" in libdispatch.
    let nanoseconds = max(dispatchNanoseconds(microseconds), 1_000)
    return DispatchWallTime(
      timespec: timespec(
        tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000)))
  }
}
