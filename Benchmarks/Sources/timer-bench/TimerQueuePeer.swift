import DispatchTimers

/// Our own `TimerQueue`: the wheel with a lock, a closure per timer, and one dispatch alarm.
final class TimerQueuePeer: RealClockPeer {
  static let name = "TimerQueue"
  static func limit(_ workload: String) -> Int { 1_000_000 }
  static let armingMicroseconds: UInt64 = 3

  private let timers = TimerQueue()
  private let remaining: Remaining
  private var handles: [TimerHandle] = []

  var left: Int { remaining.left }

  init(count: Int) {
    remaining = Remaining(count)
    handles.reserveCapacity(count)
  }

  func arm(_ delays: [UInt32], margin: UInt64) {
    for delay in delays {
      let handle = timers.schedule(after: .microseconds(margin + UInt64(delay))) {
        [remaining] in remaining.one()
      }
      handles.append(handle)
    }
  }

  func cancel(_ order: [UInt32]) {
    for i in order { handles[Int(i)].cancel() }
  }

  func reschedule(_ picks: [UInt32], delay: UInt64) {
    for i in picks { handles[Int(i)].reschedule(after: .microseconds(delay)) }
  }

  func fire(dueBy deadline: UInt64) -> UInt64 {
    let start = stopProcess(until: deadline)
    return remaining.wait() - start
  }
}
