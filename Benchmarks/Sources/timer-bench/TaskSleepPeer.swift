import Glibc
import Synchronization

/// A sleeping task for each timer.
final class TaskSleepPeer: RealClockPeer {
  static let name = "Task.sleep"
  static func limit(_ workload: String) -> Int { 100_000 }
  static let isReusable = false
  static let armingMicroseconds: UInt64 = 30

  private final class Started: Sendable { let count = Atomic<Int>(0) }

  private let remaining: Remaining
  private let started = Started()
  private var tasks: [Task<Void, Never>] = []

  var left: Int { remaining.left }

  init(count: Int) {
    remaining = Remaining(count)
    tasks.reserveCapacity(count)
  }

  private func task(sleeping microseconds: UInt64, countsAlways: Bool) -> Task<Void, Never> {
    Task { [remaining, started] in
      started.count.add(1, ordering: .relaxed)
      do {
        try await Task.sleep(for: .microseconds(microseconds))
        remaining.one()
      } catch {
        if countsAlways { remaining.one() }
      }
    }
  }

  private func settle(_ total: Int) {
    while started.count.load(ordering: .relaxed) < total { usleep(50) }
  }

  func arm(_ delays: [UInt32], margin: UInt64) {
    for delay in delays {
      tasks.append(task(sleeping: margin + UInt64(delay), countsAlways: true))
    }
    settle(delays.count)
  }

  /// Cancels the tasks and waits until all have ended.
  func cancel(_ order: [UInt32]) {
    for i in order { tasks[Int(i)].cancel() }
    _ = remaining.wait()
  }

  /// Cancels each task and starts another, because a sleep cannot be moved.
  func reschedule(_ picks: [UInt32], delay: UInt64) {
    let before = started.count.load(ordering: .relaxed)
    for i in picks {
      tasks[Int(i)].cancel()
      tasks[Int(i)] = task(sleeping: delay, countsAlways: true)
    }
    settle(before + picks.count)
  }

  func fire(dueBy deadline: UInt64) -> UInt64 {
    let start = stopProcess(until: deadline)
    return remaining.wait() - start
  }
}
