/// Timers that are due at a time of day.
extension TimerQueue {
  /// Calls `callback` at a moment of the wall clock, and then repeatedly if it has an interval.
  /// O(1).
  ///
  /// The timer follows the clock when it is set; see ``TimeBase/wall``. A repeating timer whose
  /// first deadline has passed fires at once, reports the periods it missed, and continues in
  /// phase: with the first deadline `WallTime(since1970: .zero)` and an interval of 60 s, it fires
  /// at once and then on each full minute.
  ///
  /// An interval is a length of time: when daylight saving time begins, 24 hours after 8:00 is
  /// 9:00. For calendar days, schedule the next deadline in the callback.
  ///
  /// - Parameters:
  ///   - deadline: the time of the first call, rounded up to a microsecond; a past one is due at
  ///     once.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule(
    at deadline: WallTime, repeating interval: Duration? = nil,
    _ callback: @escaping @Sendable (Firing) -> Void
  ) -> TimerHandle {
    driver(.wall).schedule(at: deadline.deadline, every: interval) { firing in
      callback(firing)
      return true
    }
  }

  /// Behaves like the overload whose callback takes a ``Firing``.
  public func schedule(
    at deadline: WallTime, repeating interval: Duration? = nil,
    _ callback: @escaping @Sendable () -> Void
  ) -> TimerHandle {
    schedule(at: deadline, repeating: interval) { (_: Firing) in callback() }
  }

  /// Calls `callback` with `target` at a moment of the wall clock, and then repeatedly if it has an
  /// interval, as long as the target lives. O(1).
  ///
  /// The target is held weakly, except during the calls. `callback` must not capture it: it is the
  /// callback's first argument.
  ///
  /// - Parameters:
  ///   - deadline: the time of the first call, rounded up to a microsecond; a past one is due at
  ///     once.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - target: the owner. Once it is released, the timer makes no more calls and ends.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
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

  /// Behaves like the overload whose callback takes a ``Firing``.
  public func schedule<Target: AnyObject & Sendable>(
    at deadline: WallTime, repeating interval: Duration? = nil, target: Target,
    _ callback: @escaping @Sendable (Target) -> Void
  ) -> TimerHandle {
    schedule(at: deadline, repeating: interval, target: target) { target, _ in
      callback(target)
    }
  }
}
