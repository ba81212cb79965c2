import Synchronization

/// A scheduled timer: as long as the handle is kept, and no longer.
///
/// Letting go of the handle cancels the timer, so a timer cannot outlive the object that keeps its
/// handle in a property. A handle that is discarded where it is made cancels at once, and the
/// compiler warns about that; say ``detach()`` if the timer shall run on its own.
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

  /// Whether the callback is still to be called: false once it has been called, or is being called
  /// for the last time, or will not be. O(1).
  public var isPending: Bool { driver.isPending(key) }

  /// Cancels the timer and lets go of its callback. O(1). May be called from any thread, often,
  /// from within the callback, and when the timer is long over.
  ///
  /// Called on the timer's own queue, no call of the callback begins after it returns, and none is
  /// under way but the one that `cancel()` is called from.
  ///
  /// Called elsewhere, one call that was due already may be under way, or may still begin. Nothing
  /// that is put on the queue afterwards runs before that call is over:
  ///
  ///     handle.cancel()
  ///     timers.queue.async { /* no call from here on */ }
  ///
  /// - Returns: whether it prevented a call. Of a timer that repeats it prevents all but that one.
  @discardableResult
  public func cancel() -> Bool { driver.cancel(key) }

  /// Lets the timer run without the handle, until it is over, its target is gone, or its
  /// ``TimerQueue`` ends. ``cancel()`` still works for whoever has the handle.
  public func detach() { isDetached.store(true, ordering: .relaxed) }
}
