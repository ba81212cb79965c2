import Dispatch

/// A `DispatchSourceTimer` for each timer, all on one serial queue.
final class DispatchSourcePeer: RealClockPeer {
  static let name = "DispatchSourceTimer"
  static func limit(_ workload: String) -> Int { 100_000 }
  static let armingMicroseconds: UInt64 = 20

  private let queue = DispatchQueue(label: "timer-bench")
  private let remaining: Remaining
  private var sources: [any DispatchSourceTimer] = []

  var left: Int { remaining.left }

  init(count: Int) {
    remaining = Remaining(count)
    sources.reserveCapacity(count)
  }

  func arm(_ delays: [UInt32], margin: UInt64) {
    for delay in delays {
      let source = DispatchSource.makeTimerSource(queue: queue)
      source.setEventHandler { [remaining] in remaining.one() }
      source.schedule(deadline: .now() + .microseconds(Int(margin) + Int(delay)))
      source.activate()
      sources.append(source)
    }
    queue.sync {}
  }

  func cancel(_ order: [UInt32]) {
    for i in order { sources[Int(i)].cancel() }
    queue.sync {}
  }

  func reschedule(_ picks: [UInt32], delay: UInt64) {
    for i in picks { sources[Int(i)].schedule(deadline: .now() + .microseconds(Int(delay))) }
    queue.sync {}
  }

  func fire(dueBy deadline: UInt64) -> UInt64 {
    let start = stopProcess(until: deadline)
    return remaining.wait() - start
  }
}
