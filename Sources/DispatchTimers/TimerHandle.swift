import Synchronization

/// A scheduled timer. Releasing the handle cancels it.
///
/// So a timer cannot outlive the object that stores its handle in a property. Discarding the handle
/// cancels the timer at once, and the compiler warns about it; call ``detach()`` if the timer
/// should run on its own.
public final class TimerHandle: Sendable {
  private let driver: TimerDriver
  private let key: TimerTable.Key
  private let isDetached = Atomic(false)

  init(_ driver: TimerDriver, _ key: TimerTable.Key) {
    self.driver = driver
    self.key = key
  }

  deinit {
    if !isDetached.load(ordering: .relaxed) { cancel() }
  }

  /// Whether the callback will be called: false once the last call has begun or the timer has
  /// ended. O(1).
  public var isPending: Bool { driver.isPending(key) }

  /// Cancels the timer and releases its callback. O(1), idempotent, from any thread, also from
  /// within the callback.
  ///
  /// Called on the timer's own queue, no call begins after it returns, and none is running except
  /// the one that calls `cancel()`.
  ///
  /// Called elsewhere, one call that was already due may be running, or may still begin. Work put
  /// on the queue afterwards runs after that call:
  ///
  ///     handle.cancel()
  ///     timers.queue.async { /* no call from here on */ }
  ///
  /// - Returns: whether it prevented a call.
  @discardableResult
  public func cancel() -> Bool { driver.cancel(key) }

  /// Lets the timer run without the handle, until it ends, its target is released, or its
  /// ``TimerQueue`` ends. ``cancel()`` still works.
  public func detach() { isDetached.store(true, ordering: .relaxed) }
}
