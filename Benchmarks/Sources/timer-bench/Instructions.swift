import Glibc
import TimerWheel

/// Schedules timers, runs the operation `last` on all of them and exits, so that the difference
/// between two runs is the instructions of one operation.
///
/// Frees nothing at the end, because that would be counted, too.
func runForInstructions(upTo last: String, count: Int, seed: UInt64) -> Never {
  let mix = Mix(count: count, seed: seed, span: Mix.hour * 1_000)
  var wheel = TimerWheel()
  let first = wheel.schedule(deadline: 0, payload: 0)
  wheel.cancel(first)
  let tokens = UnsafeMutablePointer<TimerWheel.Token>.allocate(capacity: count)
  tokens.initialize(repeating: first, count: count)
  if last == "nothing" { exit(0) }

  mix.delays.withUnsafeBufferPointer { delays in
    for i in 0..<count {
      tokens[i] = wheel.schedule(deadline: UInt64(delays[i]), payload: UInt64(i))
    }
  }
  switch last {
  case "schedule":
    break
  case "next":
    var sum: UInt64 = 0
    for _ in 0..<count { sum &+= wheel.nextDeadline ?? 0 }
    guard sum != .max else { fail("no deadline") }
  case "cancel":
    mix.order.withUnsafeBufferPointer { order in
      for i in order { wheel.cancel(tokens[Int(i)]) }
    }
  case "reschedule":
    // Each timer gets the deadline of another one, so that the distribution stays the same.
    mix.order.withUnsafeBufferPointer { order in
      mix.delays.withUnsafeBufferPointer { delays in
        for i in 0..<count {
          wheel.reschedule(tokens[Int(order[i])], deadline: UInt64(delays[i]))
        }
      }
    }
  case "expire":
    var budget = Int.max
    var fired = 0
    while wheel.advance(to: Mix.hour * 1_000, budget: &budget) != nil { fired += 1 }
    guard fired == count else { fail("\(fired) of \(count) timers fired") }
  default:
    fail("no operation \(last)")
  }
  exit(0)
}
