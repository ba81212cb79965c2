import Glibc
import TimerWheel

/// The workloads on our wheel, which has no clock: the workload sets the time.
struct WheelWorkloads {
  /// The ticks per millisecond: 1, as in most libraries, or 1,000, as in the daemon.
  let ticksPerMillisecond: UInt64
  let count: Int
  let mix: Mix
  let report: Report
  /// The caller's tokens, allocated beforehand, like the arrays of handles of the other programs.
  private let tokens: UnsafeMutablePointer<TimerWheel.Token>

  init(ticksPerMillisecond: UInt64, count: Int, seed: UInt64, report: (UInt64) -> Report) {
    self.ticksPerMillisecond = ticksPerMillisecond
    self.count = count
    mix = Mix(count: count, seed: seed, span: Mix.hour * ticksPerMillisecond)
    self.report = report(mix.checksum)
    var wheel = TimerWheel()
    let token = wheel.schedule(deadline: 0, payload: 0)
    tokens = .allocate(capacity: count)
    tokens.initialize(repeating: token, count: count)
  }

  func free() { tokens.deallocate() }

  func run(_ workload: String) {
    switch workload {
    case "cancel": cancel()
    case "expire": expire(workload, inSteps: 1)
    case "hour": expire(workload, inSteps: steps(for: count))
    case "same": same()
    case "reschedule": reschedule()
    case "next": next()
    default: fail("no workload \(workload)")
    }
  }

  private func ticks(milliseconds: UInt64) -> UInt64 { milliseconds * ticksPerMillisecond }

  private func arm(_ wheel: inout TimerWheel) {
    mix.delays.withUnsafeBufferPointer { delays in
      for i in 0..<count {
        tokens[i] = wheel.schedule(deadline: UInt64(delays[i]), payload: UInt64(i))
      }
    }
  }

  /// Returns the tokens in `order`: a caller has a token at hand, as it has an intrusive handle.
  private func tokens(inOrderOf order: [UInt32]) -> UnsafeMutablePointer<TimerWheel.Token> {
    let atHand = UnsafeMutablePointer<TimerWheel.Token>.allocate(capacity: order.count)
    for (place, i) in order.enumerated() {
      (atHand + place).initialize(to: tokens[Int(i)])
    }
    return atHand
  }

  private func bytesPerTimer(_ wheel: borrowing TimerWheel, before: Int) -> Double {
    Double(residentBytes() - before) / Double(count)
  }

  private func cancel() {
    var wheel = TimerWheel()
    let before = residentBytes()
    let start = now()
    arm(&wheel)
    let armed = now()
    let bytes = bytesPerTimer(wheel, before: before)
    let atHand = tokens(inOrderOf: mix.order)
    let middle = now()
    for i in 0..<count { wheel.cancel(atHand[i]) }
    let end = now()
    atHand.deallocate()
    guard wheel.count == 0 else { fail("timers were left") }
    let again = now()
    arm(&wheel)
    let armedAgain = now()
    report.print("schedule", armed - start, operations: count, bytesPerTimer: bytes)
    report.print("cancel", end - middle, operations: count)
    report.print("again", armedAgain - again, operations: count)
  }

  /// Runs one iteration of an event loop: fires all due timers and asks for the next deadline.
  @inline(__always)
  private func turn(_ wheel: inout TimerWheel, _ time: UInt64, fired: inout Int, sum: inout UInt64)
  {
    var budget = Int.max
    while let due = wheel.advance(to: time, budget: &budget) {
      fired += 1
      sum &+= due.payload
    }
    sum &+= wheel.nextDeadline ?? 0
  }

  private func expire(_ workload: String, inSteps steps: Int) {
    var wheel = TimerWheel()
    let hour = ticks(milliseconds: Mix.hour)
    var fired = 0
    var sum: UInt64 = 0
    let before = residentBytes()
    let start = now()
    arm(&wheel)
    let armed = now()
    let bytes = bytesPerTimer(wheel, before: before)
    let middle = now()
    for step in 1...steps {
      turn(&wheel, hour * UInt64(step) / UInt64(steps), fired: &fired, sum: &sum)
    }
    let end = now()
    guard fired == count, sum != .max else { fail("\(fired) of \(count) timers fired") }
    report.print("schedule", armed - start, operations: count, bytesPerTimer: bytes)
    report.print("expire", end - middle, operations: count)
  }

  private func same() {
    var wheel = TimerWheel()
    let moment = ticks(milliseconds: 60_000)
    var fired = 0
    var sum: UInt64 = 0
    let start = now()
    for i in 0..<count { tokens[i] = wheel.schedule(deadline: moment, payload: UInt64(i)) }
    let armed = now()
    turn(&wheel, moment, fired: &fired, sum: &sum)
    let end = now()
    guard fired == count, sum != .max else { fail("\(fired) of \(count) timers fired") }
    report.print("schedule", armed - start, operations: count)
    report.print("expire", end - armed, operations: count)
  }

  /// Measures connections with a timeout of 60 s: opened over 29 s, then used for another 29 s.
  private func reschedule() {
    var wheel = TimerWheel()
    var fired = 0
    var sum: UInt64 = 0
    let timeout = ticks(milliseconds: 60_000)
    let half = ticks(milliseconds: 29_000)
    let opening = steps(for: count)
    var time: UInt64 = 0
    var done = 0
    for step in 1...opening {
      let goal = count * step / opening
      for i in done..<goal {
        tokens[i] = wheel.schedule(deadline: time + timeout, payload: UInt64(i))
      }
      done = goal
      time = half * UInt64(step) / UInt64(opening)
      turn(&wheel, time, fired: &fired, sum: &sum)
    }
    let using = steps(for: 2 * count)
    done = 0
    let atHand = tokens(inOrderOf: mix.picks)
    let start = now()
    for step in 1...using {
      let goal = 2 * count * step / using
      for i in done..<goal { wheel.reschedule(atHand[i], deadline: time + timeout) }
      done = goal
      time = half + half * UInt64(step) / UInt64(using)
      turn(&wheel, time, fired: &fired, sum: &sum)
    }
    let end = now()
    atHand.deallocate()
    guard fired == 0, wheel.count == count, sum != .max else {
      fail("\(fired) connections timed out")
    }
    report.print("reschedule", end - start, operations: 2 * count)
  }

  /// Measures the time added by asking for the next deadline after every change.
  private func next() {
    func changes(asking: Bool) -> Int {
      var wheel = TimerWheel()
      var sum: UInt64 = 0
      let start = now()
      mix.delays.withUnsafeBufferPointer { delays in
        for i in 0..<count {
          tokens[i] = wheel.schedule(deadline: UInt64(delays[i]), payload: UInt64(i))
          if asking { sum &+= wheel.nextDeadline ?? 0 }
        }
      }
      let atHand = tokens(inOrderOf: mix.order)
      for i in 0..<count {
        wheel.cancel(atHand[i])
        if asking { sum &+= wheel.nextDeadline ?? 0 }
      }
      let end = now()
      atHand.deallocate()
      guard sum != .max else { fail("no deadline") }
      return Int(end - start)
    }
    let without = changes(asking: false)
    let with = changes(asking: true)
    report.print("next", with - without, operations: 2 * count)
  }
}
