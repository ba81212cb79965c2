import CountdownClient
import Foundation
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct CommandTests {
  static let counting = map(
    ("key", bulk("+45")), ("state", bulk("counting")), ("generation", ":5\r\n"),
    ("accepted", "#t\r\n"), ("reason", "_\r\n"), ("remaining", ":60\r\n"),
    ("remaining_ms", ":60000\r\n"), ("retry_after_ms", ":60000\r\n"),
    ("deadline_unix_ms", ":1790000060000\r\n"), ("now_unix_ms", ":1790000000000\r\n"),
    ("count", ":60\r\n"), ("every_ms", ":1000\r\n"), ("title", bulk("60s后重发")),
    ("sends", ":1\r\n"), ("owner", bulk("none")), ("meta", bulk("m")))

  @Test func startSendsAllOptionsAndReadsTheView() async throws {
    let server = try await StandInServer { _, _ in Self.counting }
    let client = try await Client.connect(path: server.path)
    let view = try await client.countdown.start(
      "+45", count: 60, every: .microseconds(999_001), fire: true, title: "%ds后重发",
      readyTitle: "r", owner: .connection, meta: Array("m".utf8), token: "t")
    #expect(
      server.commands == [
        [
          "COUNTDOWN", "START", "+45", "COUNT", "60", "EVERY", "1000", "FIRE", "TITLE", "%ds后重发",
          "READYTITLE", "r", "OWNER", "connection", "META", "m", "TOKEN", "t",
        ]
      ])
    #expect(view.state == .counting)
    #expect(view.decision == .accepted)
    #expect(view.reason == nil)
    #expect(view.generation == 5)
    #expect(view.timeLeft == .seconds(60))
    #expect(view.every == .seconds(1))
    #expect(view.title == "60s后重发")
    await client.close()
    await #expect(throws: CountdownClientError.clientClosed) { try await client.send("PING") }
    await #expect(throws: CountdownClientError.clientClosed) {
      for try await _ in client.events(.everything) {}
    }
  }

  @Test func policiesAreSentAndTheirFieldsAreRead() async throws {
    let server = try await StandInServer { words, _ in
      map(
        ("key", bulk("+45")), ("state", bulk("counting")), ("generation", ":5\r\n"),
        ("accepted", "#f\r\n"), ("reason", bulk(words[1] == "ATTEMPT" ? "locked" : "window")),
        ("retry_after_ms", ":7000\r\n"), ("sends", ":3\r\n"), ("sends_left", ":0\r\n"),
        ("policy", bulk("login")), ("channel", bulk("sms")), ("next_channel", "_\r\n"),
        ("expires_in_ms", ":1500\r\n"), ("attempts_left", ":2\r\n"))
    }
    let client = try await Client.connect(path: server.path)
    let view = try await client.countdown.start("+45", policy: "login", token: "t")
    #expect(view.decision == .refused(reason: .window, retryAfter: .seconds(7)))
    #expect(view.policy == "login" && view.sends == 3 && view.sendsLeft == 0)
    #expect(view.channel == "sms" && view.nextChannel == nil)
    #expect(view.expiresIn == .milliseconds(1_500) && view.attemptsLeft == 2)
    // The time until another code may be sent does not help this one.
    let attempt = try await client.countdown.attempt("+45", generation: 5, token: "a")
    #expect(attempt.decision == .refused(reason: .locked, retryAfter: .zero))
    #expect(attempt.retryAfter == .seconds(7))
    try await client.countdown.refund("+45", generation: 5)
    try await client.countdown.pass("+45")
    #expect(
      server.commands == [
        ["COUNTDOWN", "START", "+45", "POLICY", "login", "TOKEN", "t"],
        ["COUNTDOWN", "ATTEMPT", "+45", "GENERATION", "5", "TOKEN", "a"],
        ["COUNTDOWN", "REFUND", "+45", "GENERATION", "5"], ["COUNTDOWN", "PASS", "+45"],
      ])
  }

  @Test func aHostThatDecidesAloneIsReported() async throws {
    let server = try await StandInServer { _, _ in
      map(
        ("key", bulk("+45")), ("state", bulk("counting")), ("generation", ":5\r\n"),
        ("accepted", "#t\r\n"), ("reason", bulk("degraded")))
    }
    let client = try await Client.connect(path: server.path)
    let view = try await client.countdown.start("+45", policy: "login")
    #expect(view.decision == .accepted && view.isDegraded)
  }

  @Test func whatNoCommandCanBeIsRefusedWithoutAConnection() async {
    let client = Client.unconnected(path: "/nowhere")
    for commands in [[["PING"], ["psubscribe", "*"]], [[]], [["PING"], []]] {
      await #expect { try await client.pipeline(commands) } throws: { isInvalidUse($0) }
    }
    await #expect { try await client.send([]) } throws: { isInvalidUse($0) }
    await #expect { try await client.send("SUBSCRIBE", "a") } throws: { isInvalidUse($0) }
  }

  private func isInvalidUse(_ error: any Error) -> Bool {
    if case .invalidUse = error as? CountdownClientError { return true }
    return false
  }

  @Test func aSecondIterationOfEventsThrows() async throws {
    let server = try await StandInServer { _, _ in nil }
    let client = try await Client.connect(path: server.path)
    let events = client.events(.countdown("k"))
    let first = events.makeAsyncIterator()
    await #expect {
      for try await _ in events {}
    } throws: { isInvalidUse($0) }
    _ = first
  }

  @Test func explanationsAreRead() async throws {
    let server = try await StandInServer { _, _ in
      map(
        ("key", bulk("+45")), ("state", bulk("counting")), ("why", bulk("refused: 3 of 3 in 10 m")),
        ("reason", bulk("window")), ("retry_after_ms", ":7000\r\n"),
        ("limits", "*1\r\n" + bulk("3 of 3 in 10 m")), ("code", bulk("locked")),
        ("code_why", bulk("refused: 2 of 2 attempts made")))
    }
    let client = try await Client.connect(path: server.path)
    let view = try await client.countdown.why("+45")
    #expect(view.state == .counting && view.reason == .window && view.retryAfter == .seconds(7))
    #expect(view.why == "refused: 3 of 3 in 10 m" && view.limits == ["3 of 3 in 10 m"])
    #expect(view.code == .locked && view.codeWhy == "refused: 2 of 2 attempts made")
    #expect(server.commands == [["COUNTDOWN", "WHY", "+45"]])
  }

  @Test func concurrentCommandsEachGetTheirOwnReply() async throws {
    let server = try await StandInServer { words, _ in bulk(words[1]) }
    let client = try await Client.connect(path: server.path)
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for number in 0..<1000 {
        group.addTask {
          try await client.send("ECHO", String(number)).string == String(number)
        }
      }
      for try await isRight in group { #expect(isRight) }
    }
    let replies = try await client.pipeline((0..<100).map { ["ECHO", String($0)] })
    #expect(replies.map(\.string) == (0..<100).map { String($0) })
    #expect(server.connections.count == 1)
  }

  @Test func anErrorReplyIsThrownWithItsCode() async throws {
    let server = try await StandInServer { words, _ in
      words[1] == "LIST" ? "*2\r\n$1\r\n0\r\n*0\r\n" : "-STALE it has generation 7 by now\r\n"
    }
    let client = try await Client.connect(path: server.path)
    await #expect(
      throws: CountdownClientError.server(code: .stale, message: "it has generation 7 by now")
    ) { try await client.countdown.cancel("k", generation: 5) }
    let page = try await client.countdown.list(match: "k*")
    #expect(page.isLast && page.elements.isEmpty)
  }

  @Test func aLostConnectionFailsTheCallAndTheNextOneConnectsAgain() async throws {
    let server = try await StandInServer { words, peer in
      if words == ["DIE"] { peer.hangUp() }
      return words == ["PING"] ? "+PONG\r\n" : nil
    }
    let client = try await Client.connect(path: server.path)
    let unanswered = Task { try await client.send("SLOW") }
    try await eventually { server.commands.contains(["SLOW"]) }
    await #expect(throws: CountdownClientError.unsure(.connectionClosed)) {
      try await client.send("DIE")
    }
    await #expect(throws: CountdownClientError.unsure(.connectionClosed)) {
      try await unanswered.value
    }
    #expect(try await client.send("PING").string == "PONG")
  }

  @Test func aReleasedClientClosesItsConnection() async throws {
    let server = try await StandInServer { _, _ in "+PONG\r\n" }
    do {
      let client = try await Client.connect(path: server.path)
      _ = try await client.send("PING")
      #expect(server.connections.count == 1)
    }
    try await eventually { server.connections.isEmpty }
  }

  @Test func malformedRepliesAreAProtocolViolation() async throws {
    let server = try await StandInServer { _, _ in "?what\r\n" }
    let client = try await Client.connect(path: server.path)
    await #expect {
      try await client.send("PING")
    } throws: { error in
      if case .protocolViolation = error as? CountdownClientError { return true }
      return false
    }
  }

  @Test func connectionErrorsSayWhatToDo() async throws {
    let missing = "/tmp/there-is-no-such.sock"
    await #expect(throws: CountdownClientError.daemonNotRunning(path: missing)) {
      try await Client.connect(path: missing)
    }
    #expect(
      "\(CountdownClientError.daemonNotRunning(path: missing))".contains("countdownd --socket"))
    let usual = CountdownClientError.daemonNotRunning(path: "/run/countdownd/countdownd.sock")
    #expect("\(usual)".contains("systemctl start"))
    await #expect(throws: CountdownClientError.notASocket(path: "/etc/passwd")) {
      try await Client.connect(path: "/etc/passwd")
    }
    let long = "/tmp/" + String(repeating: "x", count: 200)
    await #expect(throws: CountdownClientError.pathTooLong(path: long, limit: 107)) {
      try await Client.connect(path: long)
    }
  }

  @Test func hudAndTimerCommandsSendTheirOptions() async throws {
    let server = try await StandInServer { words, _ in
      switch (words[0], words[1]) {
      case ("HUD", "POP"), ("TIMER", "GET"): return "_\r\n"
      case ("TIMER", "DEL"): return ":1\r\n"
      case ("HUD", _):
        return map(
          ("key", bulk("main")), ("state", bulk("visible")), ("fraction", ",0.5\r\n"),
          ("remaining_ms", "_\r\n"), ("dismissing", "#f\r\n"))
      default: return map(("key", bulk("t")), ("state", bulk("running")), ("every_ms", ":5\r\n"))
      }
    }
    let client = try await Client.connect(path: server.path)
    #expect(try await client.hud.show("main", min: .milliseconds(500)).state == .visible)
    #expect(try await client.hud.progress("main", fraction: 0.5)?.fraction == 0.5)
    #expect(try await client.hud.pop("main") == nil)
    #expect(try await client.timer.set("t", after: .seconds(1)).every == .milliseconds(5))
    let date = Date(timeIntervalSince1970: 1_795_795_200.123)
    _ = try await client.timer.set("t", at: date, every: .seconds(60), keep: true)
    #expect(try await client.timer.get("t") == nil)
    #expect(try await client.timer.delete("t"))
    #expect(
      server.commands == [
        ["HUD", "SHOW", "main", "MIN", "500"], ["HUD", "PROGRESS", "main", "0.5"],
        ["HUD", "POP", "main"], ["TIMER", "SET", "t", "1000"],
        ["TIMER", "SET", "t", "AT", "1795795200123", "EVERY", "60000", "KEEP"],
        ["TIMER", "GET", "t"],
        ["TIMER", "DEL", "t"],
      ])
  }
}
