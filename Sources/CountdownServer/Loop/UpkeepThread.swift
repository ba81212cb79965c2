import Dispatch
import Glibc
import Synchronization

/// A thread of lower priority that does one thing after another.
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
    // It never returns before the end, so the queue's thread, with its priority, is its own.
    DispatchQueue(label: "countdownd.upkeep").async { [self] in
      // Without permission the priority stays.
      setpriority(Int32(PRIO_PROCESS.rawValue), 0, Self.niceness)
      run()
      ended.signal()
    }
  }

  func submit(_ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.bodies.append(body) }
    changed.signal()
  }

  /// Returns once what is under way is done; the rest is not begun.
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
