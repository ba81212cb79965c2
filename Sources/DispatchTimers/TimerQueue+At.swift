/// Timers that are due at a time of day.
extension TimerQueue {
  /// Calls `callback` at a moment of the wall clock, and then again and again if it repeats. O(1).
  ///
  /// It keeps to that moment when the clock is set; see ``TimeBase/wall``. A repeating timer whose first
  /// deadline has passed is called at once, told how many it missed, and goes on in phase: one from
  /// `WallTime(since1970: .zero)` on, every 60 s, is called now and then on each full minute.
  ///
  /// An interval is a length of time. Where summer time begins, 24 hours after 8:00 it is 9:00: for
  /// days of a calendar, schedule the next one in the callback.
  ///
  /// - Parameters:
  ///   - deadline: of the first call; rounded up to a microsecond. What has passed is due at once.
  ///   - interval: from one deadline to the next; rounded up to a microsecond. Nil: only once.
  ///     - Precondition: greater than zero.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Letting go of the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule(
    at deadline: WallTime, repeating interval: Duration? = nil,
    _ callback: @escaping @Sendable (Firing) -> Void
  ) -> TimerHandle {
    driver(.wall).schedule(at: deadline.deadline, every: interval) { firing in
      callback(firing)
      return true
    }
  }

  /// As above, for a callback that does not ask how late it is.
  public func schedule(
    at deadline: WallTime, repeating interval: Duration? = nil,
    _ callback: @escaping @Sendable () -> Void
  ) -> TimerHandle {
    schedule(at: deadline, repeating: interval) { (_: Firing) in callback() }
  }

  /// Calls `callback` with `target` at a moment of the wall clock, and then again and again if it
  /// repeats, for as long as there is a target. O(1).
  ///
  /// The target is held weakly but for the calls themselves. Take care that `callback` does not
  /// capture it: it is the callback's first argument.
  ///
  /// - Parameters:
  ///   - deadline: of the first call; rounded up to a microsecond. What has passed is due at once.
  ///   - interval: from one deadline to the next; rounded up to a microsecond. Nil: only once.
  ///     - Precondition: greater than zero.
  ///   - target: whom it is done for. When it is gone, there is no call, and no further deadline.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Letting go of the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule<Target: AnyObject & Sendable>(
    at deadline: WallTime, repeating interval: Duration? = nil, target: Target,
    _ callback: @escaping @Sendable (Target, Firing) -> Void
  ) -> TimerHandle {
    driver(.wall).schedule(at: deadline.deadline, every: interval) { [weak target] firing in
      guard let target else { return false }
      callback(target, firing)
      return true
    }
  }

  /// As above, for a callback that does not ask how late it is.
  public func schedule<Target: AnyObject & Sendable>(
    at deadline: WallTime, repeating interval: Duration? = nil, target: Target,
    _ callback: @escaping @Sendable (Target) -> Void
  ) -> TimerHandle {
    schedule(at: deadline, repeating: interval, target: target) { target, _ in
      callback(target)
    }
  }
}
