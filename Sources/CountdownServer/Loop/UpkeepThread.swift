import Dispatch
import Glibc
import Synchronization

/// A thread of lower priority that runs one task after another.
final class UpkeepThread: Sendable {
  private static let niceness: Int32 = 10

  private struct State {
    var bodies: [@Sendable () -> Void] = []
    var isStopping = false
  }
  private let state = Mutex(State())
  private let changed = DispatchSemaphore(value: 0)
  private let ended = DispatchSemaphore(value: 0)

  init() {
    // `run` returns only at the end, so the queue's thread, with its priority, runs nothing else.
    DispatchQueue(label: "countdownd.upkeep").async { [self] in
      // If this is not permitted, the priority stays.
      setpriority(Int32(PRIO_PROCESS.rawValue), 0, Self.niceness)
      run()
      ended.signal()
    }
  }

  func submit(_ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.bodies.append(body) }
    changed.signal()
  }

  /// Ends the thread, and returns once the current task is done; tasks not begun are dropped.
  func stop() {
    state.withLock { $0.isStopping = true }
    changed.signal()
    ended.wait()
  }

  private func run() {
    while true {
      changed.wait()
      let body: (@Sendable () -> Void)? = state.withLock { state in
        state.isStopping || state.bodies.isEmpty ? nil : state.bodies.removeFirst()
      }
      guard let body else { return }
      body()
    }
  }
}
