/// Timers that are due after a delay.
extension TimerQueue {
  /// Calls `callback` after a delay, and then again and again if it repeats. O(1).
  ///
  /// - Parameters:
  ///   - delay: to the first call; rounded up to a microsecond, negative counts as zero. A sum
  ///     beyond 584,000 years is never.
  ///   - interval: from one deadline to the next; rounded up to a microsecond. Nil: only once.
  ///     - Precondition: greater than zero.
  ///   - clock: what the delay and the interval are measured by.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Letting go of the handle cancels it**; see ``TimerHandle/detach()``.
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

  /// As above, for a callback that does not ask how late it is.
  public func schedule(
    after delay: Duration, repeating interval: Duration? = nil, clock: TimeBase = .continuous,
    _ callback: @escaping @Sendable () -> Void
  ) -> TimerHandle {
    schedule(after: delay, repeating: interval, clock: clock) { (_: Firing) in callback() }
  }

  /// Calls `callback` with `target` after a delay, and then again and again if it repeats, for as
  /// long as there is a target. O(1).
  ///
  /// The target is held weakly but for the calls themselves. Take care that `callback` does not
  /// capture it: it is the callback's first argument.
  ///
  /// - Parameters:
  ///   - delay: to the first call; rounded up to a microsecond, negative counts as zero. A sum
  ///     beyond 584,000 years is never.
  ///   - interval: from one deadline to the next; rounded up to a microsecond. Nil: only once.
  ///     - Precondition: greater than zero.
  ///   - clock: what the delay and the interval are measured by.
  ///   - target: whom it is done for. When it is gone, there is no call, and no further deadline.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Letting go of the handle cancels it**; see ``TimerHandle/detach()``.
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

  /// As above, for a callback that does not ask how late it is.
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
