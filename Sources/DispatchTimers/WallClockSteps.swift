import CTimerFD
import Dispatch
import Glibc

/// Calls a handler when the wall clock is set, forwards or backwards, or the machine has slept.
/// Otherwise it only wakes up once a day.
///
/// The kernel reports a step to a `timerfd` of `CLOCK_REALTIME` that waits for a later moment with
/// `TFD_TIMER_CANCEL_ON_SET`. libdispatch does not set this flag, so it misses a clock set back.
///
/// Source: timerfd_create(2), TFD_TIMER_CANCEL_ON_SET.
package final class WallClockSteps {
  private let source: any DispatchSourceRead

  /// Creates the observer; nil if the system has no descriptor left.
  ///
  /// - Parameter handler: runs on the queue; it may be called when nothing was set.
  package init?(queue: DispatchQueue, _ handler: @escaping @Sendable () -> Void) {
    let descriptor = timerfd_create(CLOCK_REALTIME, Int32(TFD_NONBLOCK) | Int32(TFD_CLOEXEC))
    guard descriptor >= 0 else { return nil }
    Self.arm(descriptor)
    source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
    source.setEventHandler {
      // Fails with ECANCELED when the clock was set.
      var times: UInt64 = 0
      _ = unsafe read(descriptor, &times, MemoryLayout.size(ofValue: times))
      Self.arm(descriptor)
      handler()
    }
    source.setCancelHandler { close(descriptor) }
    source.activate()
  }

  deinit { source.cancel() }

  /// Arms the descriptor for a day from now: a clock in the far future has no moment much later.
  private static func arm(_ descriptor: Int32) {
    var next = itimerspec()
    unsafe clock_gettime(CLOCK_REALTIME, &next.it_value)
    next.it_value.tv_sec += 86_400
    unsafe timerfd_settime(
      descriptor, Int32(TFD_TIMER_ABSTIME) | Int32(TFD_TIMER_CANCEL_ON_SET), &next, nil)
  }
}
