import CountdownClient
import Testing

@Suite(.timeLimit(.minutes(5))) struct GuardTests {
  @Test func throttleCommandsAreSentAndViewsRead() async throws {
    let view = map(
      ("key", bulk("k")), ("generation", ":5\r\n"), ("accepted", "#f\r\n"),
      ("reason", bulk("rate")), ("state", bulk("exhausted")), ("limit", ":3\r\n"),
      ("remaining", ":0\r\n"), ("retry_after_ms", ":1500\r\n"), ("reset_after_ms", ":4500\r\n"),
      ("now_unix_ms", ":1790000000000\r\n"), ("rate_count", ":2\r\n"), ("rate_ms", ":3000\r\n"))
    let server = try await StandInServer { words, _ in words[1] == "REFUND" ? "_\r\n" : view }
    let client = try await Client.connect(path: server.path)
    let refused = try await client.throttle.take(
      "k", burst: 3, rate: .init(2, per: .seconds(3)), cost: 2, token: "t")
    #expect(refused.reason == .rate)
    #expect(refused.state == .exhausted && refused.remaining == 0 && refused.limit == 3)
    #expect(refused.retryAfter == .milliseconds(1_500))
    #expect(refused.resetAfter == .milliseconds(4_500))
    #expect(refused.rateCount == 2 && refused.ratePeriod == .seconds(3))
    _ = try await client.throttle.take(
      "k", burst: 3, rate: .init(2, per: .seconds(3)), peek: true)
    #expect(try await client.throttle.refund("k", amount: 2, generation: 5, token: "t") == nil)
    #expect(try await client.throttle.get("k")?.generation == 5)
    #expect(
      server.commands == [
        ["THROTTLE", "TAKE", "k", "BURST", "3", "RATE", "2/3000ms", "COST", "2", "TOKEN", "t"],
        ["THROTTLE", "TAKE", "k", "BURST", "3", "RATE", "2/3000ms", "PEEK"],
        ["THROTTLE", "REFUND", "k", "2", "GENERATION", "5", "TOKEN", "t"],
        ["THROTTLE", "GET", "k"],
      ])
    await client.close()
  }

  @Test func severalLimitsAreAnsweredAsOne() async throws {
    @Sendable func limit(_ key: String, left: Int) -> String {
      map(
        ("key", bulk(key)), ("state", bulk("available")), ("accepted", "#t\r\n"),
        ("reason", "_\r\n"), ("retry_after_ms", ":0\r\n"), ("remaining", ":\(left)\r\n"))
    }
    let server = try await StandInServer { words, _ in
      map(
        ("accepted", "#f\r\n"), ("reason", bulk("limit")), ("retry_after_ms", ":1500\r\n"),
        ("refused_by", bulk("b")), ("views", "*2\r\n" + limit("a", left: 3) + limit("b", left: 0)))
    }
    let client = try await Client.connect(path: server.path)
    let answer = try await client.throttle.take("a", limits: ["b"], token: "t")
    #expect(answer.decision == .refused(reason: .limit, retryAfter: .milliseconds(1_500)))
    #expect(answer.key == "b" && answer.remaining == 0)
    #expect(answer.refusedBy == "b" && answer.views.map(\.remaining) == [3, 0])
    #expect(server.commands == [["THROTTLE", "TAKE", "a", "b", "TOKEN", "t"]])
  }

  @Test func onceCommandsAreSentAndViewsRead() async throws {
    let view = map(
      ("key", bulk("k")), ("generation", ":5\r\n"), ("accepted", "#f\r\n"),
      ("reason", bulk("duplicate")), ("state", bulk("done")), ("result", bulk("paid")),
      ("remaining_ms", ":900\r\n"), ("deadline_unix_ms", ":1790000000900\r\n"),
      ("now_unix_ms", ":1790000000000\r\n"), ("owner", bulk("none")))
    let server = try await StandInServer { words, _ in words[1] == "CANCEL" ? ":1\r\n" : view }
    let client = try await Client.connect(path: server.path)
    let again = try await client.once.begin("k", ttl: .seconds(60), owner: .connection, token: "t")
    #expect(again.reason == .duplicate && again.state == .done)
    #expect(again.result == Array("paid".utf8) && again.timeLeft == .milliseconds(900))
    try await client.once.done("k", result: Array("r".utf8), generation: 5)
    #expect(try await client.once.cancel("k"))
    #expect(try await client.once.get("k")?.owner == .nobody)
    #expect(
      server.commands == [
        ["ONCE", "BEGIN", "k", "TTL", "60000", "OWNER", "connection", "TOKEN", "t"],
        ["ONCE", "DONE", "k", "r", "GENERATION", "5"], ["ONCE", "CANCEL", "k"],
        ["ONCE", "GET", "k"],
      ])
    await client.close()
  }

  @Test func gateCommandsAreSentAndViewsRead() async throws {
    let view = map(
      ("key", bulk("s")), ("generation", ":5\r\n"), ("accepted", "#f\r\n"),
      ("reason", bulk("login")), ("state", bulk("pending")), ("action", bulk("buy")),
      ("payload", bulk("p")), ("taken", "#t\r\n"), ("remaining_ms", "_\r\n"),
      ("deadline_unix_ms", "_\r\n"), ("now_unix_ms", ":1790000000000\r\n"),
      ("owner", bulk("none")))
    let server = try await StandInServer { words, _ in
      ["CANCEL", "CLOSE", "DONE"].contains(words[1]) ? ":0\r\n" : view
    }
    let client = try await Client.connect(path: server.path)
    let asked = try await client.gate.check(
      "s", action: "buy", payload: Array("p".utf8), required: false, ttl: .seconds(1))
    #expect(asked.reason == .login && asked.state == .pending)
    #expect(asked.action == "buy" && asked.payload == Array("p".utf8) && asked.timeLeft == nil)
    try await client.gate.open("s", ttl: .seconds(2))
    #expect(try await client.gate.take("s", generation: 5).isTaken)
    #expect(try await !client.gate.done("s", generation: 5))
    #expect(try await !client.gate.cancel("s"))
    #expect(try await !client.gate.close("s", generation: 5))
    #expect(
      server.commands == [
        ["GATE", "CHECK", "s", "buy", "PAYLOAD", "p", "REQUIRED", "off", "TTL", "1000"],
        ["GATE", "OPEN", "s", "TTL", "2000"], ["GATE", "TAKE", "s", "GENERATION", "5"],
        ["GATE", "DONE", "s", "GENERATION", "5"], ["GATE", "CANCEL", "s"],
        ["GATE", "CLOSE", "s", "GENERATION", "5"],
      ])
    let line = #"{"event":"run","key":"s","generation":4,"seq":9,"state":"open","action":"buy"}"#
    let event = try CountdownEvent(channel: "gate:s", message: Array(line.utf8))
    #expect(event.kind == .gate && event.name == .run && event.gate?.action == "buy")
    await client.close()
  }

  @Test func debounceCommandsAreSentAndViewsRead() async throws {
    let view = map(
      ("key", bulk("k")), ("generation", ":5\r\n"), ("state", bulk("waiting")),
      ("calls", ":2\r\n"), ("remaining_ms", ":700\r\n"),
      ("deadline_unix_ms", ":1790000000700\r\n"), ("now_unix_ms", ":1790000000000\r\n"),
      ("quiet_ms", ":1000\r\n"), ("max_wait_ms", "_\r\n"), ("leading", "#t\r\n"),
      ("owner", bulk("none")), ("payload", bulk("p")))
    let server = try await StandInServer { words, _ in
      ["CANCEL", "FLUSH"].contains(words[1]) ? ":1\r\n" : view
    }
    let client = try await Client.connect(path: server.path)
    let called = try await client.debounce.call(
      "k", quiet: .seconds(1), payload: Array("p".utf8), leading: true, maxWait: .seconds(3),
      token: "t")
    #expect(called.state == .waiting && called.calls == 2 && called.payload == Array("p".utf8))
    #expect(called.quiet == .seconds(1) && called.maxWait == nil && called.isLeading)
    #expect(try await client.debounce.flush("k"))
    #expect(try await client.debounce.cancel("k", generation: 5))
    #expect(
      server.commands == [
        [
          "DEBOUNCE", "CALL", "k", "1000", "PAYLOAD", "p", "LEADING", "MAXWAIT", "3000", "TOKEN",
          "t",
        ],
        ["DEBOUNCE", "FLUSH", "k"], ["DEBOUNCE", "CANCEL", "k", "GENERATION", "5"],
      ])
    await client.close()
  }
}
