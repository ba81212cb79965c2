import CountdownClient

let client = try await Client.connect(path: "/tmp/countdownd.sock")
let answer = try await client.countdown.start(
  "+4512345678", count: 60, every: .seconds(1))
switch answer.decision {
case .accepted, .repeated: print("send the code")
case .refused(_, let retryAfter): print("try again in \(retryAfter)")
}

for try await event in client.events(.countdown("+4512345678")) {
  print(event.countdown?.stepsLeft ?? 0, "seconds to go")
  if event.name == .ready { break }
}
