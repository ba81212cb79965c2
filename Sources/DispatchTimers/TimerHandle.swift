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
  /// After it returns no call of the callback begins. Called on the timer's own queue, none is
  /// under way either (but the one `cancel()` is called from); called elsewhere, one may be.
  ///
  /// - Returns: whether that kept any call from coming.
  @discardableResult
  public func cancel() -> Bool { driver.cancel(key) }

  /// Lets the timer run without the handle, until it is over, its target is gone, or its
  /// ``TimerQueue`` ends. ``cancel()`` still works for whoever has the handle.
  public func detach() { isDetached.store(true, ordering: .relaxed) }
}
