/// A scheduled timer. Releasing the handle cancels it.
///
/// So a timer cannot outlive the object that stores its handle in a property. Discarding the handle
/// cancels the timer at once. The compiler warns about it, and a debug build writes a warning for
/// `_ = timers.schedule(…)`; call ``detach()`` if the timer should run on its own.
public final class TimerHandle: Sendable {
  private let driver: TimerDriver
  private let index: TimerTable.Index

  init(_ driver: TimerDriver, _ index: TimerTable.Index) {
    self.driver = driver
    self.index = index
  }

  deinit { driver.release(index) }

  /// Whether the callback will be called: false once the last call has begun, the timer has ended,
  /// or its target has been released. O(1).
  public var isPending: Bool { driver.isPending(index) }

  /// Cancels the timer and releases its callback. O(1), idempotent, from any thread, also from
  /// within the callback.
  ///
  /// Called on the timer's own queue or actor, no call begins after it returns, and none is running
  /// except the one that calls `cancel()`.
  ///
  /// Called elsewhere, one call that was already due may be running, or may still begin. Work put
  /// on the queue afterwards runs after that call:
  ///
  ///     handle.cancel()
  ///     timers.queue.async { /* no call from here on */ }
  ///
  /// - Returns: whether it prevented a call: false once the target has been released.
  @discardableResult
  public func cancel() -> Bool { driver.cancel(index) }

  /// Moves the timer to `delay` from now, by its own clock. O(1), from any thread, also from within
  /// the callback of a repeating timer, which then continues in phase with the new deadline.
  ///
  /// For timeouts that start again with each heartbeat: it keeps the callback, and costs less than
  /// a new timer.
  ///
  /// - Parameter delay: rounded up to a microsecond; negative counts as zero.
  /// - Returns: false, and nothing changes, if the timer is no longer pending.
  @discardableResult
  public func reschedule(after delay: Duration) -> Bool {
    driver.reschedule(index, after: delay)
  }

  /// Lets the timer run without the handle, until it ends, its target is released, or its
  /// ``TimerQueue`` ends. ``cancel()`` still works.
  public func detach() { driver.detach(index) }
}
