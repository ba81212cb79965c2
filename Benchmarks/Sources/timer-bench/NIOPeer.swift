import NIOCore
import NIOPosix

/// `scheduleTask` on a real event loop (`MultiThreadedEventLoopGroup`), called on the loop itself:
/// that is the cheap way, without a wake-up of the loop.
final class NIOPeer: RealClockPeer {
  static let name = "NIO scheduleTask"
  /// Cancelling looks through all scheduled tasks of the loop, so many cannot be cancelled in a
  /// lifetime: a million would take hours.
  static func limit(_ workload: String) -> Int {
    workload == "cancel" || workload == "reschedule" ? 10_000 : 100_000
  }
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

  /// There is no moving a task: cancel it and schedule another.
  func reschedule(_ picks: [UInt32], delay: UInt64) {
    onLoop { [loop, scheduled, remaining] in
      for i in picks {
        scheduled.tasks[Int(i)].cancel()
        scheduled.tasks[Int(i)] =
          loop.scheduleTask(in: .microseconds(Int64(delay))) { remaining.one() }
      }
    }
  }

  /// The loop is kept busy until all are due; it needs no stopped process for that.
  func fire(dueBy deadline: UInt64) -> UInt64 {
    onLoop { sleep(until: deadline) }
    return remaining.wait() - deadline
  }
}
