import CountdownClient

let client = CountdownClient.unconnected(path: "/nowhere")
do {
  let countdown = try await client.startCountdown("+4512345678", count: 60)
  print(countdown.state, countdown.accepted == true, countdown.retryAfter)
  let reply = try await client.send("PING")
  print(reply.string ?? "no text")
  for try await event in client.events(channels: ["countdown:+4512345678"]) {
    print(event.name, event.countdown?.title ?? "")
  }
} catch {
  print(error)
}
