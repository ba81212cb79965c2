import Dispatch
import DispatchTimers
import Synchronization
import Testing

/// Waits for something that must come about, and gives up after 100,000 looks: about two minutes
/// on a machine at rest. Looks and not time, because the tests beside this one may keep all threads
/// busy, its own tasks' included.
nonisolated(nonsending) func eventually(
  _ comment: Comment? = nil, location: SourceLocation = #_sourceLocation, _ condition: () -> Bool
) async throws {
  for _ in 0..<100_000 {
    if condition() { return }
    try await Task.sleep(for: .milliseconds(1))
  }
  try #require(condition(), comment ?? "it did not come about", sourceLocation: location)
}

/// Waits until a queue has called a timer that is due in 10 ms: it could have called what was due
/// before.
nonisolated(nonsending) func passTime(
  on timers: TimerQueue = TimerQueue(), clock: TimeBase
) async throws {
  let called = Counter()
  timers.schedule(after: .milliseconds(10), clock: clock) { called.add() }.detach()
  try await eventually { called.value == 1 }
}

/// A clock of the machine whose timers behave like those of the others.
enum TimeBase: Sendable {
  case continuous, wall

  var machine: AlarmClock {
    switch self {
    case .continuous: .boot
    case .wall: .wall
    }
  }

  fileprivate func moment(after delay: Duration) -> WallTime {
    WallTime(since1970: .microseconds(exactly: machine.deadline(after: delay)))
  }
}

let bothClocks: [TimeBase] = [.continuous, .wall]

extension TimerQueue {
  func schedule(
    after delay: Duration, repeating interval: Duration? = nil, clock: TimeBase,
    _ callback: @escaping @Sendable (Firing) -> Void
  ) -> TimerHandle {
    switch clock {
    case .continuous: schedule(after: delay, repeating: interval, callback)
    case .wall: schedule(at: clock.moment(after: delay), repeating: interval, callback)
    }
  }

  func schedule(
    after delay: Duration, repeating interval: Duration? = nil, clock: TimeBase,
    _ callback: @escaping @Sendable () -> Void
  ) -> TimerHandle {
    switch clock {
    case .continuous: schedule(after: delay, repeating: interval, callback)
    case .wall: schedule(at: clock.moment(after: delay), repeating: interval, callback)
    }
  }

  func schedule<Target: AnyObject & Sendable>(
    after delay: Duration, repeating interval: Duration? = nil, clock: TimeBase, target: Target,
    _ callback: @escaping @Sendable (Target, Firing) -> Void
  ) -> TimerHandle {
    switch clock {
    case .continuous: schedule(after: delay, repeating: interval, target: target, callback)
    case .wall:
      schedule(at: clock.moment(after: delay), repeating: interval, target: target, callback)
    }
  }

  func schedule<Target: AnyObject & Sendable>(
    after delay: Duration, repeating interval: Duration? = nil, clock: TimeBase, target: Target,
    _ callback: @escaping @Sendable (Target) -> Void
  ) -> TimerHandle {
    schedule(after: delay, repeating: interval, clock: clock, target: target) { target, _ in
      callback(target)
    }
  }

  func ticks(every interval: Duration, clock: TimeBase) -> TimerTicks {
    switch clock {
    case .continuous: ticks(every: interval)
    case .wall: ticks(from: clock.moment(after: interval), every: interval)
    }
  }

  func alarm(_ clock: TimeBase) -> DispatchAlarm {
    switch clock {
    case .continuous: alarm(for: .continuous)
    case .wall: alarm(for: .wall)
    }
  }
}

/// Something that several threads count.
final class Counter: Sendable {
  private let count = Atomic(0)
  var value: Int { count.load(ordering: .sequentiallyConsistent) }
  func add(_ more: Int = 1) { count.add(more, ordering: .sequentiallyConsistent) }
}

/// Something that several threads collect.
final class Log<Element: Sendable>: Sendable {
  private let entries = Lock<[Element]>([])
  var all: [Element] { entries.withLock { $0 } }
  func append(_ element: Element) { entries.withLock { $0.append(element) } }
}

/// A place that several threads put something in and take it out.
final class Box<Value: Sendable>: Sendable {
  private let content: Lock<Value?>
  init(_ value: Value? = nil) { content = Lock(value) }
  var value: Value? { content.withLock { $0 } }
  func put(_ value: Value) {
    let previous = content.withLock { content in
      let previous = content
      content = value
      return previous
    }
    withExtendedLifetime(previous) {}
  }
  /// What was in it; let go outside of the lock.
  @discardableResult func take() -> Value? {
    content.withLock { content in
      let previous = content
      content = nil
      return previous
    }
  }
}

/// Counts how many of itself are alive, and says something when it dies.
final class Witness: Sendable {
  private let living: Counter
  private let atDeath: @Sendable () -> Void
  init(_ living: Counter, atDeath: @escaping @Sendable () -> Void = {}) {
    self.living = living
    self.atDeath = atDeath
    living.add(1)
  }
  deinit {
    atDeath()
    living.add(-1)
  }
}

/// Keeps a queue busy until it is opened.
final class Roadblock: Sendable {
  private let opened = DispatchSemaphore(value: 0)
  private let isThere = Atomic(false)

  init(on queue: DispatchQueue) async throws {
    queue.async { [self] in
      isThere.store(true, ordering: .sequentiallyConsistent)
      opened.wait()
    }
    try await eventually { isThere.load(ordering: .sequentiallyConsistent) }
  }

  func open() { opened.signal() }
}
