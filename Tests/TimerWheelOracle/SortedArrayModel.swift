import TimerWheel

/// A naive model of a wheel: an array in the order of expiry.
struct SortedArrayModel {
  struct Timer {
    var id: Int
    var deadline: UInt64
    /// The deadline for the order: one in the past counts as the moment of arming.
    var effective: UInt64
    var payload: UInt64
  }

  private(set) var timers: [Timer] = []
  private(set) var elapsed: UInt64

  init(startingAt start: UInt64) { elapsed = start }

  var nextDeadline: UInt64? { timers.map(\.deadline).min() }

  func deadline(of id: Int) -> UInt64? { timers.first { $0.id == id }?.deadline }

  mutating func schedule(id: Int, deadline: UInt64, payload: UInt64) {
    let effective = max(deadline, elapsed)
    // Behind all timers due at the same moment or before: equal deadlines keep their order.
    var low = 0
    var high = timers.count
    while low < high {
      let middle = (low + high) / 2
      if timers[middle].effective <= effective { low = middle + 1 } else { high = middle }
    }
    timers.insert(
      Timer(id: id, deadline: deadline, effective: effective, payload: payload), at: low)
  }

  mutating func cancel(id: Int) -> Bool {
    guard let index = timers.firstIndex(where: { $0.id == id }) else { return false }
    timers.remove(at: index)
    return true
  }

  mutating func reschedule(id: Int, deadline: UInt64) -> Bool {
    guard let index = timers.firstIndex(where: { $0.id == id }) else { return false }
    let timer = timers.remove(at: index)
    schedule(id: id, deadline: deadline, payload: timer.payload)
    return true
  }

  /// Removes the next timer due by `now`; time moves to its deadline, or to `now` if there is none.
  mutating func popDue(by now: UInt64) -> Timer? {
    guard let first = timers.first, first.effective <= max(now, elapsed) else {
      elapsed = max(elapsed, now)
      return nil
    }
    elapsed = max(elapsed, first.effective)
    return timers.removeFirst()
  }

  /// Moves time to `tick`; nothing may be due before it.
  mutating func move(to tick: UInt64) {
    precondition(timers.first.map { $0.effective >= tick } ?? true)
    elapsed = max(elapsed, tick)
  }
}
