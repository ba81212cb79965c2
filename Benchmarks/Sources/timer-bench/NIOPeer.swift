import NIOCore
import NIOPosix

/// `scheduleTask` on a real event loop (`MultiThreadedEventLoopGroup`), called on the loop itself,
/// which is cheaper because it does not wake the loop up.
final class NIOPeer: RealClockPeer {
  static let name = "NIO scheduleTask"
  /// Cancelling searches all scheduled tasks of the loop, so cancelling a million would take hours.
  static func limit(_ workload: String) -> Int { workload == "reschedule" ? 10_000 : 100_000 }
  static let armingMicroseconds: UInt64 = 20

  /// Used on the event loop only.
  private final class Tasks: @unchecked Sendable {
    var tasks: [Scheduled<Void>] = []
  }

  private let loop = MultiThreadedEventLoopGroup.singleton.next()
  private let remaining: Remaining
  private let scheduled = Tasks()

  var left: Int { remaining.left }

  init(count: Int) {
    remaining = Remaining(count)
    scheduled.tasks.reserveCapacity(count)
  }

  private func onLoop(_ body: @escaping @Sendable () -> Void) {
    try! loop.submit(body).wait()
  }

  func arm(_ delays: [UInt32], margin: UInt64) {
    onLoop { [loop, scheduled, remaining] in
      for delay in delays {
        scheduled.tasks.append(
          loop.scheduleTask(in: .microseconds(Int64(margin) + Int64(delay))) { remaining.one() })
      }
    }
  }

  func cancel(_ order: [UInt32]) {
    onLoop { [scheduled] in
      for i in order { scheduled.tasks[Int(i)].cancel() }
    }
  }

  /// Cancels each task and schedules another, because a task cannot be moved.
  func reschedule(_ picks: [UInt32], delay: UInt64) {
    onLoop { [loop, scheduled, remaining] in
      for i in picks {
        scheduled.tasks[Int(i)].cancel()
        scheduled.tasks[Int(i)] =
          loop.scheduleTask(in: .microseconds(Int64(delay))) { remaining.one() }
      }
    }
  }

  /// Keeps the loop busy until all tasks are due, so the process need not be stopped.
  func fire(dueBy deadline: UInt64) -> UInt64 {
    onLoop { sleep(until: deadline) }
    return remaining.wait() - deadline
  }
}
