/// Timers that are due at a moment of one of the machine's clocks: see ``TimerInstant``.
extension TimerQueue {
  /// Calls `callback` at a moment, and then repeatedly if it has an interval. O(1).
  ///
  /// A repeating timer whose first deadline has passed fires at once, reports the periods it
  /// missed, and continues in phase: with the first deadline `WallTime(since1970: .zero)` and an
  /// interval of 60 s, it fires at once and then on each full minute.
  ///
  /// An interval is a length of time: when daylight saving time begins, 24 hours after 8:00 is
  /// 9:00. For calendar days, schedule the next deadline in the callback.
  ///
  /// - Parameters:
  ///   - deadline: the time of the first call, rounded up to a microsecond; a past one is due at
  ///     once.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - tolerance: how much later the timer may fire, to fire together with others.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule(
    at deadline: some TimerInstant, repeating interval: Duration? = nil,
    tolerance: Duration = .zero,
    _ callback: @escaping @Sendable (Firing) -> Void
  ) -> TimerHandle {
    add(at: deadline.timerDeadline, interval, tolerance, .firing(callback))
  }

  /// Behaves like the overload whose callback takes a ``Firing``.
  public func schedule(
    at deadline: some TimerInstant, repeating interval: Duration? = nil,
    tolerance: Duration = .zero,
    _ callback: @escaping @Sendable () -> Void
  ) -> TimerHandle {
    add(at: deadline.timerDeadline, interval, tolerance, .plain(callback))
  }

  /// Calls `callback` with `target`, as long as the target lives. O(1).
  ///
  /// The target is held weakly, except during the calls. `callback` must not capture it: it is the
  /// callback's first argument.
  ///
  /// - Parameters:
  ///   - deadline: the time of the first call, rounded up to a microsecond; a past one is due at
  ///     once.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - tolerance: how much later the timer may fire, to fire together with others.
  ///   - target: the owner. Once it is released, the timer makes no more calls and ends.
  ///   - callback: runs on ``queue``.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule<Target: AnyObject & Sendable>(
    at deadline: some TimerInstant, repeating interval: Duration? = nil,
    tolerance: Duration = .zero,
    target: Target,
    _ callback: @escaping @Sendable (Target, Firing) -> Void
  ) -> TimerHandle {
    add(at: deadline.timerDeadline, interval, tolerance, .target(WeakTarget(target, callback)))
  }

  /// Behaves like the overload whose callback takes a ``Firing``.
  public func schedule<Target: AnyObject & Sendable>(
    at deadline: some TimerInstant, repeating interval: Duration? = nil,
    tolerance: Duration = .zero,
    target: Target,
    _ callback: @escaping @Sendable (Target) -> Void
  ) -> TimerHandle {
    add(
      at: deadline.timerDeadline, interval, tolerance,
      .target(WeakTarget(target) { target, _ in callback(target) }))
  }

  /// Calls `callback` on an actor, as long as the actor lives. O(1).
  ///
  /// A repeating timer is armed again after the call: while the actor is busy, periods are missed,
  /// and calls do not pile up. Calls of several timers on one actor come in any order.
  ///
  /// - Parameters:
  ///   - deadline: the time of the first call, rounded up to a microsecond; a past one is due at
  ///     once.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - tolerance: how much later the timer may fire, to fire together with others.
  ///   - actor: the owner, held weakly. Once it is released, the timer ends.
  ///   - callback: runs on the actor, and may use its state.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule<Target: Actor>(
    at deadline: some TimerInstant, repeating interval: Duration? = nil,
    tolerance: Duration = .zero,
    actor: Target,
    _ callback: @escaping @Sendable (isolated Target, Firing) -> Void
  ) -> TimerHandle {
    add(at: deadline.timerDeadline, interval, tolerance, .actor(WeakActorCall(actor, callback)))
  }

  /// Calls `callback` with `target` on the main actor, as long as the target lives. O(1).
  ///
  /// A repeating timer is armed again after the call: while the main actor is busy, periods are
  /// missed, and calls do not pile up.
  ///
  /// - Parameters:
  ///   - deadline: the time of the first call, rounded up to a microsecond; a past one is due at
  ///     once.
  ///   - interval: the time between deadlines, rounded up to a microsecond; nil: it fires once.
  ///     - Precondition: greater than zero.
  ///   - tolerance: how much later the timer may fire, to fire together with others.
  ///   - target: the owner, held weakly. Once it is released, the timer ends.
  ///   - callback: runs on the main actor.
  /// - Returns: the timer. **Releasing the handle cancels it**; see ``TimerHandle/detach()``.
  public func schedule<Target: AnyObject & Sendable>(
    at deadline: some TimerInstant, repeating interval: Duration? = nil,
    tolerance: Duration = .zero,
    mainActor target: Target,
    _ callback: @escaping @MainActor @Sendable (Target, Firing) -> Void
  ) -> TimerHandle {
    add(at: deadline.timerDeadline, interval, tolerance, .actor(MainActorCall(target, callback)))
  }
}
