import CTimerFD
import Dispatch
import Glibc

/// Calls back when somebody has set the clock on the wall, forwards or backwards, or the machine
/// has slept. Nothing runs until then, but once a day.
///
/// The kernel reports it to a `timerfd` that waits for a far moment of `CLOCK_REALTIME` and asks
/// for it. A libdispatch timer does not ask, so it does not notice a clock that is set back.
///
/// Source: timerfd_create(2), TFD_TIMER_CANCEL_ON_SET.
package final class WallClockSteps {
  private let source: any DispatchSourceRead

  /// Nil where the system has no descriptor left.
  ///
  /// - Parameter handler: runs on the queue; it may be called where nothing was set.
  package init?(queue: DispatchQueue, _ handler: @escaping @Sendable () -> Void) {
    let descriptor = timerfd_create(CLOCK_REALTIME, Int32(TFD_NONBLOCK) | Int32(TFD_CLOEXEC))
    guard descriptor >= 0 else { return nil }
    Self.arm(descriptor)
    source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
    source.setEventHandler {
      // It fails with ECANCELED when the clock was set, which is what is waited for.
      var times: UInt64 = 0
      _ = read(descriptor, &times, MemoryLayout.size(ofValue: times))
      Self.arm(descriptor)
      handler()
    }
    source.setCancelHandler { close(descriptor) }
    source.activate()
  }

  deinit { source.cancel() }

  /// For a day from now: a clock that is far in the future has no moment that is far from it.
  private static func arm(_ descriptor: Int32) {
    var next = itimerspec()
    clock_gettime(CLOCK_REALTIME, &next.it_value)
    next.it_value.tv_sec += 86_400
    timerfd_settime(
      descriptor, Int32(TFD_TIMER_ABSTIME) | Int32(TFD_TIMER_CANCEL_ON_SET), &next, nil)
  }
}
