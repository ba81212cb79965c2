import Dispatch

/// Timers that call back on a serial dispatch queue: any number of them, behind one system timer.
///
///     let timers = TimerQueue()
///     poll = timers.schedule(after: .zero, repeating: .seconds(30), target: self) { mailbox in
///       mailbox.poll()
///     }
///
/// - **Never early.** Delays round up to a microsecond. They are counted by a clock that runs on
///   while the machine sleeps and that nobody can set.
/// - **In order** of their deadlines; equal deadlines in the order of scheduling.
/// - **No drift.** A repeating timer stays in phase with its first deadline. Periods that went by
///   unserved are reported (``Firing/missed``) and not made up for in a burst.
/// - **Nobody is kept alive.** A `target` is held weakly; there is a strong reference only while its
///   callback runs. When the target is gone the timer goes too, as soon as it would have been due.
/// - **Fair.** After every 1,024 due timers, other work on the queue has its turn.
///
/// Scheduling and cancelling are O(1), from any thread. The timers end with their `TimerQueue`; a
/// callback of a repeating timer that captures it strongly keeps both for good.
public final class TimerQueue: Sendable {
  let driver: TimerDriver

  /// No timers yet.
  ///
  /// - Parameter queue: where callbacks run. It must be serial.
  public init(queue: DispatchQueue = DispatchQueue(label: "DispatchTimers.TimerQueue")) {
    driver = TimerDriver(queue: queue)
  }

  deinit { driver.shutDown() }

  /// Where callbacks run.
  public var queue: DispatchQueue { driver.queue }

  /// How many timers are scheduled, including a repeating one whose callback is running. O(1).
  public var count: Int { driver.count }

  /// Calls `callback` after a delay, and then again and again if it repeats. O(1).
  ///
  /// - Parameters:
  ///   - delay: to the first call; rounded up to a microsecond, negative counts as zero. A sum
  ///     beyond 584,000 years is never.
  ///   - interval: from one deadline to the next; rounded up to a microsecond. Nil: only once.
  ///     - Precondition: greater than zero.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Letting go of the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule(
    after delay: Duration, repeating interval: Duration? = nil,
    _ callback: @escaping @Sendable (Firing) -> Void
  ) -> TimerHandle {
    schedule(after: delay, every: interval) { firing in
      callback(firing)
      return true
    }
  }

  /// As above, for a callback that does not ask how late it is.
  public func schedule(
    after delay: Duration, repeating interval: Duration? = nil,
    _ callback: @escaping @Sendable () -> Void
  ) -> TimerHandle {
    schedule(after: delay, repeating: interval) { (_: Firing) in callback() }
  }

  /// Calls `callback` with `target` after a delay, and then again and again if it repeats, for as
  /// long as there is a target. O(1).
  ///
  /// The target is held weakly but for the calls themselves. Take care that `callback` does not
  /// capture it: it is the callback's first argument.
  ///
  /// - Parameters:
  ///   - delay: to the first call; rounded up to a microsecond, negative counts as zero. A sum
  ///     beyond 584,000 years is never.
  ///   - interval: from one deadline to the next; rounded up to a microsecond. Nil: only once.
  ///     - Precondition: greater than zero.
  ///   - target: whom it is done for. When it is gone, there is no call, and no further deadline.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Letting go of the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule<Target: AnyObject & Sendable>(
    after delay: Duration, repeating interval: Duration? = nil, target: Target,
    _ callback: @escaping @Sendable (Target, Firing) -> Void
  ) -> TimerHandle {
    schedule(after: delay, every: interval) { [weak target] firing in
      guard let target else { return false }
      callback(target, firing)
      return true
    }
  }

  /// As above, for a callback that does not ask how late it is.
  public func schedule<Target: AnyObject & Sendable>(
    after delay: Duration, repeating interval: Duration? = nil, target: Target,
    _ callback: @escaping @Sendable (Target) -> Void
  ) -> TimerHandle {
    schedule(after: delay, repeating: interval, target: target) { target, _ in callback(target) }
  }

  /// The one alarm behind all timers. For tests.
  package var alarm: DispatchAlarm { driver.alarm }

  private func schedule(
    after delay: Duration, every interval: Duration?, _ action: @escaping TimerAction
  ) -> TimerHandle {
    let phase = Phase(after: delay, every: interval)
    return TimerHandle(driver, driver.add(phase, action))
  }
}

extension Phase {
  /// The first deadline `delay` from now, the others `interval` apart.
  init(after delay: Duration, every interval: Duration?) {
    if let interval { precondition(interval > .zero, "a timer that repeats needs time in between") }
    self.init(
      deadline: BootClock.deadline(after: delay), interval: interval?.microsecondsRoundedUp ?? 0)
  }
}
