// cancelled-calls SOCKET COUNT - how long a call of the Swift client still takes after its task is
// cancelled, while the daemon is stopped. It connects, prints a line, and waits for a line; stop the
// daemon meanwhile. Then it prints one line for each state of a call: its name, and the times in
// microseconds.

import CountdownClient
import Glibc

guard CommandLine.arguments.count == 3, let count = Int(CommandLine.arguments[2]) else {
  fatalError("usage: cancelled-calls SOCKET COUNT")
}
let path = CommandLine.arguments[1]

/// Cancels a call that waits, and returns how long it took to end.
func cancelled(_ body: @escaping @Sendable () async throws -> Void) async throws -> Duration {
  let task = Task { try await body() }
  try await Task.sleep(for: .milliseconds(2))
  let start = ContinuousClock.now
  task.cancel()
  if case .success = await task.result { fatalError("the daemon answers") }
  return .now - start
}

let client = try await Client.connect(path: path, connectTimeout: nil, timeout: nil)
print("connected")
fflush(nil)
_ = readLine()

let states: [(String, @Sendable () async throws -> Void)] = [
  ("call", { _ = try await client.countdown.start("k", token: "t") }),
  ("pipeline", { _ = try await client.pipeline(Array(repeating: ["PING"], count: 100)) }),
  ("connecting", { _ = try await Client.connect(path: path, connectTimeout: nil) }),
  ("events", { for try await _ in client.events(.countdown("k")) {} }),
]
for (name, body) in states {
  var times: [Duration] = []
  for _ in 0..<count { times.append(try await cancelled(body)) }
  print(name, times.map { String(Int($0 / .microseconds(1))) }.joined(separator: " "))
}
