import Dispatch
import Glibc

/// A clock that alarms go by: how to read it, and how to set a system timer by it.
package struct AlarmClock: Sendable {
  private let read: @Sendable () -> UInt64
  private let setTimer: @Sendable (any DispatchSourceTimer, UInt64) -> Void

  /// A clock of one's own. Tests simulate with it what cannot be done to the machine's clocks.
  ///
  /// - Parameters:
  ///   - read: says the present, in nanoseconds since whatever the clock counts from.
  ///   - setTimer: sets a timer to a moment in microseconds of the clock. It has to fire once the
  ///     clock has got there, also if it gets there by being set; it may fire too early.
  package init(
    read: @escaping @Sendable () -> UInt64,
    setTimer: @escaping @Sendable (any DispatchSourceTimer, UInt64) -> Void
  ) {
    self.read = read
    self.setTimer = setTimer
  }

  /// ``BootClock``, which runs on while the machine sleeps.
  package static let boot = AlarmClock(
    read: { BootClock.nanoseconds },
    setTimer: { $0.schedule(deadline: .boot(microseconds: $1), leeway: .nanoseconds(0)) })

  /// ``WallClock``: what waits for a moment of it waits shorter or longer when the clock is set.
  ///
  /// The kernel sees to that: libdispatch sets its `timerfd` of `CLOCK_REALTIME` to an absolute
  /// time, and such a one fires at once when the clock is set past it.
  package static let wall = AlarmClock(
    read: { WallClock.nanoseconds },
    setTimer: { timer, deadline in
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

  /// The present, in microseconds, rounded down: what is due by it, is due.
  package var now: UInt64 { read() / 1_000 }

  /// The first microsecond that is at least `delay` from now; `UInt64.max` if none is.
  ///
  /// Summed in nanoseconds and rounded once, upwards. To add a delay to `now` instead would be
  /// early by the part of a microsecond that `now` leaves out. A negative delay counts as zero.
  package func deadline(after delay: Duration) -> UInt64 {
    delay.microseconds(after: nanoseconds)
  }

  /// Sets a system timer to a moment of this clock, in microseconds.
  func set(_ timer: any DispatchSourceTimer, to deadline: UInt64) { setTimer(timer, deadline) }
}

/// A dispatch time keeps its clock in the two highest bits, so this is as far as one can reach: 146
/// years. The alarm wakes up then, finds it is early, and arms itself again.
private let latestNanoseconds: UInt64 = 1 << 62 - 1

/// How a system timer is set to a moment of the wall clock.
package enum WallSetting: Equatable {
  /// In nanoseconds since 1970: the kernel sees to it that it fires then, also if the clock is set.
  case moment(nanoseconds: UInt64)
  /// From 2116 on, which no dispatch time can say: after so many microseconds the clock is looked
  /// at.
  case look(afterMicroseconds: UInt64)

  /// When it is noticed, at the latest, that such a clock was set.
  package static let mostMicroseconds: UInt64 = 60_000_000

  /// Both in microseconds since 1970.
  package init(_ deadline: UInt64, at now: UInt64) {
    let isBeyond = deadline > now && dispatchNanoseconds(now) == latestNanoseconds
    self =
      isBeyond
      ? .look(afterMicroseconds: min(deadline - now, Self.mostMicroseconds))
      : .moment(nanoseconds: dispatchNanoseconds(deadline))
  }
}

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
  fileprivate static func unix(nanoseconds: UInt64) -> DispatchWallTime {
    // The first few nanoseconds after 1970 mean "now" and "never" in libdispatch.
    let nanoseconds = max(nanoseconds, 1_000)
    return DispatchWallTime(
      timespec: timespec(
        tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000)))
  }
}
