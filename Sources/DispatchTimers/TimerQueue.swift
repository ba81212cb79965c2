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
/// - **Never early**, by the ``TimeBase`` they are scheduled on. Times round up to a microsecond.
/// - **In order** of their deadlines on a clock; equal deadlines in the order of scheduling.
/// - **No drift.** A repeating timer stays in phase with its first deadline. Periods that went by
///   unserved are reported (``Firing/missed``) and not made up for in a burst.
/// - **Nobody is kept alive.** A `target` is held weakly; there is a strong reference only while its
///   callback runs. When the target is gone the timer goes too, as soon as it would have been due.
/// - **Fair.** After every 1,024 due timers of a clock, other work on the queue has its turn.
///
/// Scheduling and cancelling are O(1), from any thread. The timers end with their `TimerQueue`; a
/// callback of a repeating timer that captures it strongly keeps both for good.
public final class TimerQueue: Sendable {
  /// What a timer is measured by.
  public enum TimeBase: Sendable {
    /// Runs on while the machine sleeps, and nobody can set it: for delays and timeouts. It is what
    /// Swift's `ContinuousClock` reads, on Linux `CLOCK_BOOTTIME`.
    ///
    /// Not `SuspendingClock` or Dispatch's uptime (`CLOCK_MONOTONIC`), which stand still while the
    /// machine sleeps and make an hour of a laptop's day longer than an hour.
    case continuous

    /// The clock on the wall (`CLOCK_REALTIME`), for what was agreed on as a time of day. It runs on
    /// while the machine sleeps, and follows whoever sets it:
    ///
    /// - Set forward past a deadline, the timer is due at once. A repeating one is called once, and
    ///   told what it missed.
    /// - Set back, the timer waits for its deadline as the clock now shows it. What has been called
    ///   is not called again; a repeating timer waits for the first deadline it has not served.
    case wall
  }

  private let continuous: TimerDriver
  private let wall: TimerDriver

  /// No timers yet.
  ///
  /// - Parameter queue: where callbacks run. It must be serial.
  public convenience init(
    queue: DispatchQueue = DispatchQueue(label: "DispatchTimers.TimerQueue")
  ) {
    self.init(queue: queue, wallClock: .wall)
  }

  /// With another clock for ``TimeBase/wall``. For tests: it can be set.
  package init(queue: DispatchQueue, wallClock: AlarmClock) {
    continuous = TimerDriver(clock: .boot, queue: queue)
    wall = TimerDriver(clock: wallClock, queue: queue)
  }

  deinit {
    continuous.shutDown()
    wall.shutDown()
  }

  /// Where callbacks run.
  public var queue: DispatchQueue { continuous.queue }

  /// How many timers are scheduled, including a repeating one whose callback is running. O(1).
  public var count: Int { continuous.count + wall.count }

  func driver(_ clock: TimeBase) -> TimerDriver {
    switch clock {
    case .continuous: continuous
    case .wall: wall
    }
  }

  /// The one alarm behind all timers of a clock. For tests.
  package func alarm(_ clock: TimeBase) -> DispatchAlarm { driver(clock).alarm }
}
