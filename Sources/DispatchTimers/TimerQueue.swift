import Dispatch

/// Timers that call back on a serial dispatch queue or an actor: any number of them, behind one
/// system timer for each clock.
///
///     let timers = TimerQueue()
///     poll = timers.schedule(after: .zero, repeating: .seconds(30), target: self) { mailbox in
///       mailbox.poll()
///     }
///     report = timers.schedule(at: eightTomorrow, mainActor: self) { office, _ in  // a Date
///       office.report()
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
/// callback may capture the queue: the handle's release ends both. Only a detached repeating timer
/// must not, as nothing would ever end it.
public final class TimerQueue: Sendable {
  private let clock: any Clock<Duration>
  /// Whether time passes only when a test says so.
  private let isVirtual: Bool
  private let main: TimerDriver
  /// The drivers of deadlines, made when needed.
  private let others: Lock<[TimerDriver?]>

  /// Creates a queue without timers.
  ///
  /// - Parameters:
  ///   - clock: the clock that measures delays and ticks. By default `ContinuousClock`, which runs
  ///     while the machine sleeps and cannot be set. With `SuspendingClock`, a timer of an hour
  ///     takes longer on a laptop. In tests, `TestClock` of the product `DispatchTimersTesting`.
  ///   - queue: the queue that callbacks run on. It must be serial.
  public init(
    clock: some Clock<Duration> = ContinuousClock(),
    queue: DispatchQueue = DispatchQueue(label: "DispatchTimers.TimerQueue")
  ) {
    self.clock = clock
    isVirtual = clock is any ManualClock
    switch clock {
    case is ContinuousClock: main = TimerDriver(clock: .boot, queue: queue)
    case is SuspendingClock: main = TimerDriver(clock: .uptime, queue: queue)
    case let virtual as any ManualClock:
      main = TimerDriver(clock: .virtual(virtual, wall: false), queue: queue)
      virtual.attach(main, wall: false)
    default: main = TimerDriver(clock: AlarmClock(clock), queue: queue)
    }
    others = Lock([nil, nil, nil])
  }

  /// Creates a queue with another wall clock, which tests can set.
  package init(queue: DispatchQueue, wallClock: AlarmClock) {
    clock = ContinuousClock()
    isVirtual = false
    main = TimerDriver(clock: .boot, queue: queue)
    others = Lock([nil, nil, TimerDriver(clock: wallClock, queue: queue)])
  }

  deinit {
    main.shutDown()
    for driver in others.withLock({ $0 }) { driver?.shutDown() }
  }

  /// The dispatch queue that callbacks run on, but those on an actor.
  public var queue: DispatchQueue { main.queue }

  /// The number of scheduled timers, including a repeating one whose callback is running. O(1).
  public var count: Int {
    others.withLock { $0 }.reduce(main.count) { $0 + ($1?.count ?? 0) }
  }

  /// The number of timers that the queue's table has memory for. For tests.
  package var slots: Int { main.slots }

  /// The driver of delays.
  var driver: TimerDriver { main }

  /// Returns the driver of a clock's instants.
  func driver(_ base: TimerDeadline.Base) -> TimerDriver {
    switch base {
    case .continuous where clock is ContinuousClock: return main
    case .suspending where clock is SuspendingClock: return main
    case .virtual:
      precondition(isVirtual, "a moment of a test's clock needs a queue of it")
      return main
    default: break
    }
    return others.withLock { [queue, clock] others in
      if let driver = others[base.rawValue] { return driver }
      let driver: TimerDriver
      switch (base, clock as? any ManualClock) {
      case (.wall, let virtual?):
        driver = TimerDriver(clock: .virtual(virtual, wall: true), queue: queue)
        virtual.attach(driver, wall: true)
      case (.wall, nil): driver = TimerDriver(clock: .wall, queue: queue)
      case (.continuous, _): driver = TimerDriver(clock: .boot, queue: queue)
      case (.suspending, _): driver = TimerDriver(clock: .uptime, queue: queue)
      case (.virtual, _): driver = main
      }
      others[base.rawValue] = driver
      return driver
    }
  }

  func add(
    after delay: Duration, _ interval: Duration?, _ tolerance: Duration, _ action: TimerAction
  ) -> TimerHandle {
    main.schedule(
      at: main.clock.deadline(after: delay), every: interval, tolerance: tolerance, action)
  }

  func add(
    at deadline: TimerDeadline, _ interval: Duration?, _ tolerance: Duration, _ action: TimerAction
  ) -> TimerHandle {
    let (driver, deadline) = place(deadline)
    return driver.schedule(at: deadline, every: interval, tolerance: tolerance, action)
  }

  /// Returns the driver of a deadline, and the deadline by the driver's clock.
  func place(_ deadline: TimerDeadline) -> (driver: TimerDriver, microseconds: UInt64) {
    guard isVirtual, let machine = deadline.base.machine else {
      return (driver(deadline.base), deadline.microseconds)
    }
    // The machine's time does not pass on a test's clock: what counts is how far ahead it is.
    let (away, now, here) = (deadline.microseconds, machine.now, main.clock.now)
    if away < now { return (main, here - min(here, now - away)) }
    return (main, here + min(.max - here, away - now))
  }

  /// Returns the alarm behind all timers of a clock. For tests.
  package func alarm(for base: TimerDeadline.Base) -> DispatchAlarm { driver(base).alarm }
}
