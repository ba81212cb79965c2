import CountdownClient

let client = Client.unconnected(path: "/nowhere")
do {
  let countdown = try await client.countdown.start("+4512345678", count: 60, meta: [1, 2])
  switch countdown.decision {
  case .accepted, .repeated: print(countdown.state, countdown.timeLeft, countdown.meta?.count ?? 0)
  case .refused(.cooldown, let retryAfter): print(retryAfter)
  case .refused(let reason, _): print(reason.rawValue)
  }
  print(countdown.deadline?.timeIntervalSince1970 ?? 0, countdown.owner == .nobody)
  let reply = try await client.send("PING")
  print(reply.string ?? "no text")
  for try await event in client.events(.countdown("+4512345678"), .all(.hud)) {
    print(event.name, event.countdown?.title ?? "")
  }
} catch {
  print(error)
}
