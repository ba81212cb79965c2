/// Timers that are due after a delay.
extension TimerQueue {
  /// Calls `callback` after a delay, and then repeatedly if it has an interval. O(1).
  ///
  /// - Parameters:
  ///   - delay: the time to the first call; rounded up to a microsecond, negative counts as zero. A
  ///     timer more than 584,000 years ahead never fires.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - clock: the clock that measures the delay and the interval.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule(
    after delay: Duration, repeating interval: Duration? = nil, clock: TimeBase = .continuous,
    _ callback: @escaping @Sendable (Firing) -> Void
  ) -> TimerHandle {
    let driver = driver(clock)
    return driver.schedule(at: driver.clock.deadline(after: delay), every: interval) { firing in
      callback(firing)
      return true
    }
  }

  /// Behaves like the overload whose callback takes a ``Firing``.
  public func schedule(
    after delay: Duration, repeating interval: Duration? = nil, clock: TimeBase = .continuous,
    _ callback: @escaping @Sendable () -> Void
  ) -> TimerHandle {
    schedule(after: delay, repeating: interval, clock: clock) { (_: Firing) in callback() }
  }

  /// Calls `callback` with `target` after a delay, and then repeatedly if it has an interval, as
  /// long as the target lives. O(1).
  ///
  /// The target is held weakly, except during the calls. `callback` must not capture it: it is the
  /// callback's first argument.
  ///
  /// - Parameters:
  ///   - delay: the time to the first call; rounded up to a microsecond, negative counts as zero. A
  ///     timer more than 584,000 years ahead never fires.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - clock: the clock that measures the delay and the interval.
  ///   - target: the owner. Once it is released, the timer makes no more calls and ends.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule<Target: AnyObject & Sendable>(
    after delay: Duration, repeating interval: Duration? = nil, clock: TimeBase = .continuous,
    target: Target,
    _ callback: @escaping @Sendable (Target, Firing) -> Void
  ) -> TimerHandle {
    let driver = driver(clock)
    return driver.schedule(at: driver.clock.deadline(after: delay), every: interval) {
      [weak target] firing in
      guard let target else { return false }
      callback(target, firing)
      return true
    }
  }

  /// Behaves like the overload whose callback takes a ``Firing``.
  public func schedule<Target: AnyObject & Sendable>(
    after delay: Duration, repeating interval: Duration? = nil, clock: TimeBase = .continuous,
    target: Target,
    _ callback: @escaping @Sendable (Target) -> Void
  ) -> TimerHandle {
    schedule(after: delay, repeating: interval, clock: clock, target: target) { target, _ in
      callback(target)
    }
  }
}
