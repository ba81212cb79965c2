extension TimerQueue {
  /// Returns ticks every `interval`, the first one `interval` after the iteration begins.
  ///
  ///     for await tick in timers.ticks(every: .seconds(1)) {
  ///       redraw(skipping: tick.missed)
  ///     }
  ///
  /// The ticks stay in phase with the first. A slow loop body misses ticks, which the next one
  /// counts as ``Firing/missed``. The loop ends when its task is cancelled. While it waits, it
  /// keeps the queue's timers alive.
  ///
  /// - Parameter interval: by the queue's clock, rounded up to a microsecond.
  ///   - Precondition: greater than zero.
  public func ticks(every interval: Duration) -> TimerTicks {
    precondition(interval > .zero, "ticks need time in between")
    return TimerTicks(timers: self, first: nil, interval: interval)
  }

  /// Returns ticks at `first`, and then every `interval`.
  ///
  ///     for await _ in timers.ticks(from: fullHour, every: .seconds(3_600)) { chime() }
  ///
  /// Otherwise behaves like ``ticks(every:)``. If `first` has passed when the iteration
  /// begins, a tick comes at once, and counts the ticks since `first` as missed.
  ///
  /// - Parameters:
  ///   - first: the first tick, rounded up to a microsecond.
  ///   - interval: rounded up to a microsecond.
  ///     - Precondition: greater than zero.
  public func ticks(from first: some TimerInstant, every interval: Duration) -> TimerTicks {
    precondition(interval > .zero, "ticks need time in between")
    return TimerTicks(timers: self, first: first.timerDeadline, interval: interval)
  }
}

/// The ticks of ``TimerQueue/ticks(every:)`` and ``TimerQueue/ticks(from:every:)``. Each
/// iteration has its own phase.
public struct TimerTicks: AsyncSequence, Sendable {
  public typealias Element = Firing
  public typealias Failure = Never

  fileprivate let timers: TimerQueue
  /// The first tick; nil: `interval` after the iteration begins.
  fileprivate let first: TimerDeadline?
  fileprivate let interval: Duration

  public func makeAsyncIterator() -> Iterator {
    let (driver, first) =
      first.map { timers.place($0) }
      ?? (timers.driver, timers.driver.clock.deadline(after: interval))
    return Iterator(
      timers: timers, driver: driver, phase: Phase(deadline: first, every: interval))
  }

  public struct Iterator: AsyncIteratorProtocol, Sendable {
    fileprivate let timers: TimerQueue
    fileprivate let driver: TimerDriver
    fileprivate var phase: Phase

    /// Waits for the next tick. No timer is armed between the calls.
    ///
    /// - Returns: nil once the task is cancelled.
    public mutating func next(
      isolation actor: isolated (any Actor)? = #isolation
    ) async -> Firing? {
      let sleep = TimerSleep()
      let deadline = phase.deadline
      let driver = driver
      let wokeUp = await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
          sleep.begin(on: driver, until: deadline, continuation)
        }
      } onCancel: {
        sleep.cancel()
      }
      // Keeps the queue alive until here; without it, the wait would never end.
      withExtendedLifetime(timers) {}
      // The tick was due when the wait ended, even if the clock has been set back since.
      return wokeUp ? phase.fire(at: Swift.max(driver.clock.now, deadline)) : nil
    }
  }
}

/// One wait of a task, until its deadline or its cancellation, whichever comes first.
private final class TimerSleep: Sendable {
  /// Receives true at the deadline, false on cancellation.
  typealias Continuation = CheckedContinuation<Bool, Never>

  private enum State {
    case new
    case asleep(Continuation, TimerHandle)
    case over
  }

  private let state = Lock(State.new)

  func begin(on driver: TimerDriver, until deadline: UInt64, _ continuation: Continuation) {
    let isOver = state.withLock { state in
      guard case .new = state else { return true }
      // Under the lock: if the timer is due at once, `end` waits until the state is set.
      let handle = driver.schedule(at: deadline, .plain { [self] in end(wokeUp: true) })
      state = .asleep(continuation, handle)
      return false
    }
    if isOver { continuation.resume(returning: false) }
  }

  func cancel() { end(wokeUp: false) }

  private func end(wokeUp: Bool) {
    let last = state.withLock { state in
      let last = state
      state = .over
      return last
    }
    guard case .asleep(let continuation, let handle) = last else { return }
    handle.cancel()
    continuation.resume(returning: wokeUp)
  }
}
