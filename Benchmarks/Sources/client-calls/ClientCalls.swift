// client-calls SOCKET SECONDS - measures how many calls per second the Swift client makes: START,
// GET and TAKE in turn, one at a time and 50 at once. Prints a line for each: the number of
// concurrent calls, calls per second, and the client's CPU time per call in microseconds.

import CountdownClient
import Glibc

guard CommandLine.arguments.count == 3, let seconds = Int(CommandLine.arguments[2]) else {
  fatalError("usage: client-calls SOCKET SECONDS")
}
let client = try await Client.connect(path: CommandLine.arguments[1])

let rate = Rate(1_000_000, per: .seconds(1))

/// Makes calls until a moment, and returns how many.
@Sendable func calls(of number: Int, until end: ContinuousClock.Instant) async throws -> Int {
  let key = "client-calls-\(number)"
  var count = 0
  while ContinuousClock.now < end {
    _ = try await client.countdown.start(key, count: 60)
    _ = try await client.countdown.get(key)
    _ = try await client.throttle.take(key, burst: 1_000_000, rate: rate)
    count += 3
  }
  return count
}

/// The CPU time that this program has used so far, in microseconds.
func used() -> Int {
  var usage = rusage()
  _ = unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
  func microseconds(_ time: timeval) -> Int { Int(time.tv_sec) * 1_000_000 + Int(time.tv_usec) }
  return microseconds(usage.ru_utime) + microseconds(usage.ru_stime)
}

for atOnce in [1, 50] {
  let (start, before) = (ContinuousClock.now, used())
  let count = try await withThrowingTaskGroup(of: Int.self) { group in
    for number in 0..<atOnce {
      group.addTask { try await calls(of: number, until: start + .seconds(seconds)) }
    }
    var sum = 0
    for try await count in group { sum += count }
    return sum
  }
  let time = (ContinuousClock.now - start) / .seconds(1)
  print(atOnce, Int(Double(count) / time), (used() - before) / count)
}
await client.close()
