/// Timers that are due after a delay.
extension TimerQueue {
  /// Calls `callback` after a delay, and then repeatedly if it has an interval. O(1).
  ///
  /// - Parameters:
  ///   - delay: the time to the first call by the queue's clock; rounded up to a microsecond,
  ///     negative counts as zero. A timer more than 584,000 years ahead never fires.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - tolerance: how much later the timer may fire, to fire together with others.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule(
    after delay: Duration, repeating interval: Duration? = nil, tolerance: Duration = .zero,
    _ callback: @escaping @Sendable (Firing) -> Void
  ) -> TimerHandle {
    add(after: delay, interval, tolerance, .firing(callback))
  }

  /// Behaves like the overload whose callback takes a ``Firing``.
  public func schedule(
    after delay: Duration, repeating interval: Duration? = nil, tolerance: Duration = .zero,
    _ callback: @escaping @Sendable () -> Void
  ) -> TimerHandle {
    add(after: delay, interval, tolerance, .plain(callback))
  }

  /// Calls `callback` with `target`, as long as the target lives. O(1).
  ///
  /// The target is held weakly, except during the calls. `callback` must not capture it: it is the
  /// callback's first argument.
  ///
  /// - Parameters:
  ///   - delay: the time to the first call by the queue's clock; rounded up to a microsecond,
  ///     negative counts as zero. A timer more than 584,000 years ahead never fires.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - tolerance: how much later the timer may fire, to fire together with others.
  ///   - target: the owner. Once it is released, the timer makes no more calls and ends.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule<Target: AnyObject & Sendable>(
    after delay: Duration, repeating interval: Duration? = nil, tolerance: Duration = .zero,
    target: Target,
    _ callback: @escaping @Sendable (Target, Firing) -> Void
  ) -> TimerHandle {
    add(after: delay, interval, tolerance, .target(WeakTarget(target, callback)))
  }

  /// Behaves like the overload whose callback takes a ``Firing``.
  public func schedule<Target: AnyObject & Sendable>(
    after delay: Duration, repeating interval: Duration? = nil, tolerance: Duration = .zero,
    target: Target,
    _ callback: @escaping @Sendable (Target) -> Void
  ) -> TimerHandle {
    add(
      after: delay, interval, tolerance,
      .target(WeakTarget(target) { target, _ in callback(target) }))
  }

  /// Calls `callback` on an actor, as long as the actor lives. O(1).
  ///
  /// A repeating timer is armed again after the call: while the actor is busy, periods are missed,
  /// and calls do not pile up. Calls of several timers on one actor come in any order.
  ///
  /// - Parameters:
  ///   - delay: the time to the first call by the queue's clock; rounded up to a microsecond,
  ///     negative counts as zero. A timer more than 584,000 years ahead never fires.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - tolerance: how much later the timer may fire, to fire together with others.
  ///   - actor: the owner, held weakly. Once it is released, the timer ends.
  ///   - callback: runs on the actor, and may use its state.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule<Target: Actor>(
    after delay: Duration, repeating interval: Duration? = nil, tolerance: Duration = .zero,
    actor: Target,
    _ callback: @escaping @Sendable (isolated Target, Firing) -> Void
  ) -> TimerHandle {
    add(after: delay, interval, tolerance, .actor(WeakActorCall(actor, callback)))
  }

  /// Calls `callback` with `target` on the main actor, as long as the target lives. O(1).
  ///
  /// A repeating timer is armed again after the call: while the main actor is busy, periods are
  /// missed, and calls do not pile up.
  ///
  /// - Parameters:
  ///   - delay: the time to the first call by the queue's clock; rounded up to a microsecond,
  ///     negative counts as zero. A timer more than 584,000 years ahead never fires.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - tolerance: how much later the timer may fire, to fire together with others.
  ///   - target: the owner, held weakly. Once it is released, the timer ends.
  ///   - callback: runs on the main actor.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule<Target: AnyObject & Sendable>(
    after delay: Duration, repeating interval: Duration? = nil, tolerance: Duration = .zero,
    mainActor target: Target,
    _ callback: @escaping @MainActor @Sendable (Target, Firing) -> Void
  ) -> TimerHandle {
    add(after: delay, interval, tolerance, .actor(MainActorCall(target, callback)))
  }
}
