import Dispatch

/// Timers that call back on a serial dispatch queue: any number of them, behind one system timer
/// for each clock.
///
///     let timers = TimerQueue()
///     poll = timers.schedule(after: .zero, repeating: .seconds(30), target: self) { mailbox in
///       mailbox.poll()
///     }
///     report = timers.schedule(at: WallTime(secondsSince1970: eightTomorrow), target: self) {
///       $0.report()
///     }
///
/// - **Never early**, by the clock they are scheduled on. Times round up to a microsecond.
/// - **In order** of their deadlines on a clock; equal deadlines in the order of scheduling.
/// - **No drift.** A repeating timer stays in phase with its first deadline. Missed periods are
///   reported (``Firing/missed``), not made up for in a burst.
/// - **No retain cycles.** A `target` is held weakly, except while its callback runs. Once it is
///   released, the timer ends at its next deadline.
/// - **Fair.** After every 1,024 due timers of a clock, other work on the queue runs.
///
/// Scheduling and cancelling are O(1), from any thread. The timers end with their `TimerQueue`. A
/// callback of a repeating timer must not capture the queue strongly: neither would ever be
/// released.
public final class TimerQueue: Sendable {
  /// The clock of a timer.
  public enum TimeBase: Sendable {
    /// A clock that runs while the machine sleeps and cannot be set, for delays and timeouts: on
    /// Linux `CLOCK_BOOTTIME`, like Swift's `ContinuousClock`.
    ///
    /// `SuspendingClock` and Dispatch's uptime (`CLOCK_MONOTONIC`) stop while the machine sleeps,
    /// so a timer of an hour would take longer on a laptop.
    case continuous

    /// The wall clock (`CLOCK_REALTIME`), for times of day. It runs while the machine sleeps, and
    /// can be set:
    ///
    /// - Set forward past a deadline, the timer is due at once. A repeating timer fires once, and
    ///   reports what it missed.
    /// - Set back, the timer waits until the clock shows its deadline. It does not fire again for a
    ///   deadline it has served.
    case wall
  }

  private let continuous: TimerDriver
  private let wall: TimerDriver

  /// Creates a queue without timers.
  ///
  /// - Parameter queue: the queue that callbacks run on. It must be serial.
  public convenience init(
    queue: DispatchQueue = DispatchQueue(label: "DispatchTimers.TimerQueue")
  ) {
    self.init(queue: queue, wallClock: .wall)
  }

  /// Creates a queue with another clock for ``TimeBase/wall``, which tests can set.
  package init(queue: DispatchQueue, wallClock: AlarmClock) {
    continuous = TimerDriver(clock: .boot, queue: queue)
    wall = TimerDriver(clock: wallClock, queue: queue)
  }

  deinit {
    continuous.shutDown()
    wall.shutDown()
  }

  /// The dispatch queue that callbacks run on.
  public var queue: DispatchQueue { continuous.queue }

  /// The number of scheduled timers, including a repeating one whose callback is running. O(1).
  public var count: Int { continuous.count + wall.count }

  func driver(_ clock: TimeBase) -> TimerDriver {
    switch clock {
    case .continuous: continuous
    case .wall: wall
    }
  }

  /// Returns the alarm behind all timers of a clock. For tests.
  package func alarm(_ clock: TimeBase) -> DispatchAlarm { driver(clock).alarm }
}
