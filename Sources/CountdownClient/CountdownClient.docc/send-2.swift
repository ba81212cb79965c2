import CountdownClient

let client = try await Client.connect(path: "/tmp/countdownd.sock")
let answer = try await client.countdown.start(
  "+4512345678", count: 60, every: .seconds(1), token: "request-81")
switch answer.decision {
case .accepted, .repeated: print("send the code, unless generation \(answer.generation) has it")
case .refused(_, let retryAfter): print("try again in \(retryAfter)")
}
