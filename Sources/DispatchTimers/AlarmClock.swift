import Dispatch
import Glibc

/// A clock for alarms: reads the time, and sets a system timer by it.
package struct AlarmClock: Sendable {
  private let read: @Sendable () -> UInt64
  private let setTimer: @Sendable (any DispatchSourceTimer, UInt64?) -> Void
  /// Whether nobody can set the clock back.
  let isSteady: Bool

  /// Creates a custom clock. Tests use it to simulate changes of the machine's clocks.
  ///
  /// - Parameters:
  ///   - read: returns the present, in nanoseconds since the clock's epoch.
  ///   - isSteady: whether nobody can set the clock back.
  ///   - setTimer: sets a timer to a moment in microseconds of the clock. The timer must fire once
  ///     the clock reaches the moment, even if the clock is set past it; it may fire too early. Nil:
  ///     the timer need not fire any more.
  package init(
    read: @escaping @Sendable () -> UInt64,
    isSteady: Bool = false,
    setTimer: @escaping @Sendable (any DispatchSourceTimer, UInt64?) -> Void
  ) {
    self.read = read
    self.isSteady = isSteady
    self.setTimer = setTimer
  }

  /// Creates a clock that counts from now by one of Swift's clocks, and waits in a task.
  init<C: Clock<Duration>>(_ clock: C) {
    let origin = clock.now
    let sleep = Lock<Task<Void, Never>?>(nil)
    self.init(
      read: { origin.duration(to: clock.now).nanosecondsRoundedDown },
      setTimer: { timer, deadline in
        // Centuries ahead, an instant of the clock may overflow.
        let moment = deadline.map {
          origin.advanced(by: .microseconds(exactly: min($0, Self.farthestMicroseconds)))
        }
        let target = SendableTimer(timer: timer)
        let task = moment.map { moment in
          Task {
            guard (try? await clock.sleep(until: moment, tolerance: nil)) != nil else { return }
            target.timer.schedule(deadline: .now(), leeway: .nanoseconds(0))
          }
        }
        sleep.withLock { sleep in
          sleep?.cancel()
          sleep = task
        }
      })
  }

  /// Two centuries.
  private static let farthestMicroseconds: UInt64 = 6_300_000_000_000_000

  /// `@unchecked`: a dispatch source may be set from any thread, but its protocol does not say so.
  private struct SendableTimer: @unchecked Sendable {
    let timer: any DispatchSourceTimer
  }

  /// ``BootClock``, which keeps running while the machine sleeps.
  package static let boot = AlarmClock(
    read: { BootClock.nanoseconds }, isSteady: true,
    setTimer: { timer, deadline in
      timer.schedule(
        deadline: deadline.map { .boot(microseconds: $0) } ?? .distantFuture,
        leeway: .nanoseconds(0))
    })

  /// `SuspendingClock`, which stops while the machine sleeps.
  static let uptime = AlarmClock(
    read: { UptimeClock.nanoseconds }, isSteady: true,
    setTimer: { timer, deadline in
      timer.schedule(
        deadline: deadline.map { DispatchTime(uptimeNanoseconds: dispatchNanoseconds($0)) }
          ?? .distantFuture,
        leeway: .nanoseconds(0))
    })

  /// ``WallClock``. Setting the clock makes its alarms fire earlier or later.
  ///
  /// The kernel ensures that: libdispatch sets its `timerfd` of `CLOCK_REALTIME` to an absolute
  /// time, which fires at once when the clock is set past it.
  package static let wall = AlarmClock(
    read: { WallClock.nanoseconds },
    setTimer: { timer, deadline in
      guard let deadline else {
        timer.schedule(deadline: .distantFuture, leeway: .nanoseconds(0))
        return
      }
      switch WallSetting(deadline, at: WallClock.now) {
      case .moment(let nanoseconds):
        timer.schedule(wallDeadline: .unix(nanoseconds: nanoseconds), leeway: .nanoseconds(0))
      case .look(let microseconds):
        timer.schedule(
          deadline: .boot(microseconds: BootClock.now + microseconds), leeway: .nanoseconds(0))
      }
    })

  /// The present, in nanoseconds.
  package var nanoseconds: UInt64 { read() }

  /// The present, in microseconds, rounded down, so that nothing is due early.
  package var now: UInt64 { read() / 1_000 }

  /// Returns the first microsecond at least `delay` from now; `UInt64.max` if there is none.
  ///
  /// Adds in nanoseconds and rounds up once: adding a delay to `now`, which is rounded down, would
  /// be up to a microsecond early. A negative delay counts as zero.
  package func deadline(after delay: Duration) -> UInt64 {
    delay.microseconds(after: nanoseconds)
  }

  /// Sets a system timer to a moment of this clock, in microseconds; nil: never.
  func set(_ timer: any DispatchSourceTimer, to deadline: UInt64?) { setTimer(timer, deadline) }
}

/// The latest dispatch time, 146 years: its two highest bits encode the clock. An alarm for a later
/// deadline wakes up then, finds that it is early, and arms itself again.
private let latestNanoseconds: UInt64 = 1 << 62 - 1

/// The setting of a system timer for a moment of the wall clock.
package enum WallSetting: Equatable {
  /// Nanoseconds since 1970. The kernel fires the timer then, even if the clock is set.
  case moment(nanoseconds: UInt64)
  /// From 2116 on, beyond all dispatch times: check the clock again after this delay.
  case look(afterMicroseconds: UInt64)

  /// The maximum time until a change of such a clock is noticed, in microseconds.
  package static let maximumMicroseconds: UInt64 = 60_000_000

  /// Creates the setting for a deadline; both times are in microseconds since 1970.
  package init(_ deadline: UInt64, at now: UInt64) {
    let isBeyond = deadline > now && dispatchNanoseconds(now) == latestNanoseconds
    self =
      isBeyond
      ? .look(afterMicroseconds: min(deadline - now, Self.maximumMicroseconds))
      : .moment(nanoseconds: dispatchNanoseconds(deadline))
  }
}

private func dispatchNanoseconds(_ microseconds: UInt64) -> UInt64 {
  let (nanoseconds, overflow) = microseconds.multipliedReportingOverflow(by: 1_000)
  return overflow ? latestNanoseconds : min(nanoseconds, latestNanoseconds)
}

extension DispatchTime {
  /// Returns a moment of `CLOCK_BOOTTIME`.
  ///
  /// Swift's `DispatchTime` has initializers only for `CLOCK_MONOTONIC`, which stops in suspend.
  /// But libdispatch encodes its "monotonic" clock, which unlike "uptime" keeps running in suspend,
  /// as bit 63 set and bit 62 clear; on Linux it is a `timerfd` of `CLOCK_BOOTTIME`. The
  /// initializer passes the bits through unchanged.
  ///
  /// Source: libdispatch, src/shims/time.h (`_dispatch_time_to_clock_and_value`) and
  /// src/event/event_epoll.c.
  fileprivate static func boot(microseconds: UInt64) -> DispatchTime {
    DispatchTime(uptimeNanoseconds: dispatchNanoseconds(microseconds) | 1 << 63)
  }
}

extension DispatchWallTime {
  /// Returns a moment of the wall clock, in nanoseconds since 1970.
  fileprivate static func unix(nanoseconds: UInt64) -> DispatchWallTime {
    // In libdispatch, the first few nanoseconds after 1970 mean "now" and "never".
    let nanoseconds = max(nanoseconds, 1_000)
    return DispatchWallTime(
      timespec: timespec(
        tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000)))
  }
}
