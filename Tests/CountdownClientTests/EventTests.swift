import Synchronization
import Testing

@testable import CountdownClient

@Suite(.timeLimit(.minutes(5))) struct EventTests {
  static func snapshot(_ channel: String, state: String, generation: Int = 1) -> String {
    let key = channel.split(separator: ":")[1]
    return message(
      channel,
      #"{"event":"snapshot","key":"\#(key)","generation":\#(generation),"state":"\#(state)"}"#)
  }

  /// Answers SUBSCRIBE as the daemon does: a confirmation and a snapshot for each.
  static func subscribed(_ words: [String], state: String = "counting") -> String? {
    guard words[0] == "SUBSCRIBE" else { return nil }
    return words.dropFirst().map { channel in
      confirmation(words[0], channel) + snapshot(channel, state: state)
    }.joined()
  }

  @Test func eventsAreDecoded() async throws {
    let tick = #"""
      {"event":"tick","key":"é\"+45","generation":5,"seq":19,"due_unix_ms":1790000001000,\#
      "late_us":143,"state":"counting","remaining":58,"remaining_ms":57999,"title":"\u4f60\ud83d\ude00"}
      """#
    let server = try await StandInServer { words, _ in
      guard words == ["PSUBSCRIBE", "countdown:*"] else { return Self.subscribed(words) }
      return message("later:later", "{}") + message("later:a:b", #"{"event":"new"}"#) + ">4\r\n"
        + bulk("pmessage") + bulk("countdown:*")
        + bulk("countdown:é\"+45")
        + bulk(tick)
    }
    let client = try await Client.connect(path: server.path)
    var iterator = client.events(.hud("main"), .all(.countdown))
      .makeAsyncIterator()
    let first = try #require(try await iterator.next())
    #expect(first.kind == .hud && first.name == .snapshot && first.key == "main")
    // A kind that this client does not know.
    let later = try #require(try await iterator.next())
    #expect(later.kind == "later" && later.key == "a:b" && later.name == "new")
    let second = try #require(try await iterator.next())
    #expect(second.kind == .countdown && second.name == .tick && second.key == "é\"+45")
    #expect(second.seq == 19 && second.generation == 5 && second.late == .microseconds(143))
    #expect(second.due?.timeIntervalSince1970 == 1_790_000_001)
    #expect(second.countdown?.stepsLeft == 58)
    #expect(second.countdown?.timeLeft == .milliseconds(57_999))
    #expect(second.countdown?.title == "你😀")
  }

  @Test func eventsComeBackAfterAReconnection() async throws {
    let server = try await StandInServer { words, _ in Self.subscribed(words) }
    let client = try await Client.connect(path: server.path)
    var iterator = client.events(.countdown("k")).makeAsyncIterator()
    #expect(try await iterator.next()?.name == .snapshot)
    try await server.stop()
    #expect(try await iterator.next()?.name == .disconnected)
    try await server.listen()
    #expect(try await iterator.next()?.name == .resubscribed)
    #expect(try await iterator.next()?.name == .snapshot)
    await client.close()
    #expect(try await iterator.next() == nil)
  }

  @Test func reconnectsWithinASecondOfTheDaemonsReturn() {
    var backoff = Backoff()
    let delays = (0..<100).map { _ in backoff.next() }
    #expect(delays[0] < .milliseconds(200))
    #expect(delays.allSatisfy { $0 <= .seconds(1) })
    // Clients that lost the daemon together do not come back together.
    #expect(Set(delays.suffix(50)).count > 40)
    // A daemon that accepts and hangs up is not asked ten times a second.
    backoff.connectionLasted(.milliseconds(900))
    #expect(backoff.next() >= .milliseconds(350))
    backoff.connectionLasted(.seconds(60))
    #expect(backoff.next() < .milliseconds(200))
  }

  @Test func whatIsRefusedForGoodIsThrown() async throws {
    let refusal = "NOPERM uid 7 may not connect"
    let server = try await StandInServer { words, _ in
      words[0] == "EVENTS" ? "-\(refusal)\r\n" : Self.subscribed(words)
    }
    // The log may not be read; then the daemon may not be used at all.
    for isRefused in [false, true] {
      server.refusal.withLock { $0 = isRefused ? "-\(refusal)\r\n" : nil }
      let client = Client.unconnected(path: server.path)
      let subscription = client.subscription()
      subscription.add(.countdown("k"))
      await #expect(throws: CountdownClientError(reply: refusal)) {
        for try await _ in subscription.events {}
      }
    }
  }

  /// A reader who is far behind while the connection is lost, and a daemon that is busy meanwhile.
  @Test func tooManyEventsDuringTheCatchUpAreReadFromTheLog() async throws {
    let numbers = 8...5_007
    let isBack = Mutex(false)
    let server = try await StandInServer { words, _ in
      guard words.starts(with: ["EVENTS", "SINCE"]) else { return Self.subscribed(words) }
      guard isBack.withLock({ $0 }) else { return nil }
      func lines(_ numbers: some Sequence<Int>) -> [(String, String)] {
        numbers.map { ("countdown:k", Self.line("started", $0)) }
      }
      if words[2] == "7" {
        return lines(numbers).map { message($0.0, $0.1) }.joined()
          + missed(lines(8...10), cursor: "10")
      }
      return missed(lines(11...5_007), cursor: "5007")
    }
    let client = try await Client.connect(path: server.path)
    var iterator = client.events(.countdown("k")).makeAsyncIterator()
    #expect(try await iterator.next()?.name == .snapshot)
    try await eventually { !server.questions.isEmpty }
    try await server.stop()
    isBack.withLock { $0 = true }
    try await server.listen()
    var events: [CountdownEvent] = []
    while events.last?.name != .snapshot {
      events.append(try #require(try await iterator.next()))
    }
    #expect(events.map(\.name).prefix(2) == [.disconnected, .resubscribed])
    #expect(events.dropFirst(2).dropLast().map(\.seq) == numbers.map { Optional($0) })
    // The new snapshot is that of after the gap.
    #expect(server.commands.map { $0[0] } == ["SUBSCRIBE", "SUBSCRIBE", "SUBSCRIBE"])
    #expect(server.questions.last == ["EVENTS", "SINCE", "7-10", "SUBSCRIBED"])
  }

  @Test func catchingUpIsReadInPagesAsTheReaderTakesThem() async throws {
    let page = Mutex(0)
    let server = try await StandInServer { words, _ in
      guard words.starts(with: ["EVENTS", "SINCE"]) else { return Self.subscribed(words) }
      let number = page.withLock { page in
        page += 1
        return page
      }
      let events = (0..<1_000).map { ("countdown:k", Self.line("started", number * 1_000 + $0)) }
      return missed(events, cursor: "\(number)", hasMore: true)
    }
    let client = try await Client.connect(path: server.path)
    var iterator = client.events(.countdown("k")).makeAsyncIterator()
    #expect(try await iterator.next()?.name == .snapshot)
    try await eventually { !server.questions.isEmpty }
    try await server.stop()
    try await server.listen()
    #expect(try await iterator.next()?.name == .disconnected)
    #expect(try await iterator.next()?.name == .resubscribed)
    for _ in 0..<10_000 { #expect(try await iterator.next()?.name == .started) }
    // The log has no end; who reads 10 pages causes no more than a few others.
    #expect(page.withLock { $0 } < 20)
  }

  private static func line(_ name: String, _ number: Int, key: String = "k") -> String {
    #"{"event":"\#(name)","key":"\#(key)","generation":1,"seq":\#(number)}"#
  }

  @Test func missedEventsAreDeliveredOnce() async throws {
    let asked = Mutex(0)
    let isBack = Mutex(false)
    let server = try await StandInServer { words, _ in
      if words[0] == "SUBSCRIBE" {
        // The one with number 12 comes before the answer that has it, too.
        return (Self.subscribed(words) ?? "")
          + (isBack.withLock { $0 } ? message("countdown:k", Self.line("started", 12)) : "")
      }
      guard words.starts(with: ["EVENTS", "SINCE"]) else { return nil }
      let page = asked.withLock { asked in
        asked += 1
        return asked
      }
      if page == 1 {
        return missed(
          [("countdown:k", Self.line("cancelled", 9))], cursor: "10", isComplete: false,
          hasMore: true)
      }
      return missed(
        [
          ("countdown:k", Self.line("ready", 11)), ("later:later", "{}"),
          ("countdown:k", Self.line("started", 12)),
        ],
        cursor: "13")
    }
    let client = try await Client.connect(path: server.path)
    var iterator = client.events(.countdown("k")).makeAsyncIterator()
    #expect(try await iterator.next()?.name == .snapshot)
    try await eventually { server.questions == [["EVENTS", "CURSOR"]] }
    isBack.withLock { $0 = true }
    try await server.stop()
    #expect(try await iterator.next()?.name == .disconnected)
    try await server.listen()
    var names: [CountdownEvent.Name] = []
    while names.last != .started { names.append(try #require(try await iterator.next()).name) }
    #expect(names == [.resubscribed, .gap, .cancelled, .ready, .snapshot, .started])
    #expect(
      server.questions == [
        ["EVENTS", "CURSOR"], ["EVENTS", "SINCE", "7", "SUBSCRIBED"],
        ["EVENTS", "SINCE", "10", "SUBSCRIBED"],
      ])
  }

  @Test func aCursorAndTheNewestPositionsContinueOnAnotherHost() throws {
    var place = EventPlace("9.5-0.1.2")
    for (name, position) in [
      ("set", "0.1.3.7.0"), ("set", "1.1.9.8.0"), ("set", "0.1.4.7.1"), ("snapshot", "0.1.0.0.0"),
    ] {
      let line = #"{"event":"\#(name)","generation":1,"seq":8,"position":"\#(position)"}"#
      place.pass(try CountdownEvent(channel: "timer:t", message: line.utf8))
    }
    place.pass(try CountdownEvent(channel: "countdown:k", message: Self.line("tick", 8).utf8))
    #expect(place.text.hasPrefix("9.5-0.1.2-"))
    #expect(Set(place.text.split(separator: "-").dropFirst(2)) == ["0.1.4.7.1", "1.1.9.8.0", "8"])
  }

  /// As with a state that has been removed, or a wall clock that has been set back.
  @Test func sequenceNumbersThatRestartLowerAreFollowed() async throws {
    let newest = Mutex(1_000)
    let server = try await StandInServer { words, _ in
      guard words.starts(with: ["EVENTS", "SINCE"]), let from = Int(words[2]) else {
        guard words[0] == "SUBSCRIBE" else { return words[0] == "EVENTS" ? bulk("1000") : nil }
        return Self.subscribed(words)
      }
      let last = newest.withLock { newest in
        newest += 1
        return newest
      }
      return missed(
        [("countdown:k", Self.line("started", last))].filter { _ in from < last },
        cursor: "\(last)",
        isComplete: from <= last)
    }
    let client = try await Client.connect(path: server.path)
    var iterator = client.events(.countdown("k")).makeAsyncIterator()
    #expect(try await iterator.next()?.name == .snapshot)
    try await eventually { !server.questions.isEmpty }
    newest.withLock { $0 = 20 }
    var names: [CountdownEvent.Name] = []
    for _ in 0..<3 {
      let questions = server.questions.count
      try await server.stop()
      try await server.listen()
      while names.last != .snapshot || server.questions.count == questions {
        names.append(try #require(try await iterator.next()).name)
      }
    }
    #expect(
      names == [
        .disconnected, .resubscribed, .gap, .snapshot,
        .disconnected, .resubscribed, .started, .snapshot,
        .disconnected, .resubscribed, .started, .snapshot,
      ])
    #expect(server.questions.dropFirst().map { $0[2] } == ["1000", "21", "22"])
  }

  @Test func aReconnectionBeyondALimitIsRetried() async throws {
    let server = try await StandInServer { words, _ in Self.subscribed(words) }
    let client = try await Client.connect(path: server.path)
    var iterator = client.events(.countdown("k")).makeAsyncIterator()
    #expect(try await iterator.next()?.name == .snapshot)
    try await server.stop()
    #expect(try await iterator.next()?.name == .disconnected)
    server.refusal.withLock { $0 = "-LIMIT max-connections is 1 and reached\r\n" }
    let arrivals = server.arrivals
    try await server.listen()
    try await eventually { server.arrivals >= arrivals + 3 }
    server.refusal.withLock { $0 = nil }
    #expect(try await iterator.next()?.name == .resubscribed)
    #expect(try await iterator.next()?.name == .snapshot)
  }

  @Test(arguments: ["LIMIT max-connections is 1 and reached", "NOPERM uid 7 may not connect"])
  func aRefusedFirstConnectionThrowsTheReason(text: String) async throws {
    let server = try await StandInServer { _, _ in nil }
    server.refusal.withLock { $0 = "-\(text)\r\n" }
    // Whether it reads or writes first.
    for _ in 0..<20 {
      await #expect(throws: CountdownClientError(reply: text)) {
        try await Client.connect(path: server.path)
      }
    }
    let client = Client.unconnected(path: server.path)
    await #expect(throws: CountdownClientError(reply: text)) {
      for try await _ in client.events(.everything) {}
    }
  }

  @Test func aReconnectionWithoutPermissionEndsTheSequence() async throws {
    let server = try await StandInServer { words, _ in Self.subscribed(words) }
    let client = try await Client.connect(path: server.path)
    var iterator = client.events(.countdown("k")).makeAsyncIterator()
    #expect(try await iterator.next()?.name == .snapshot)
    try await server.stop()
    #expect(try await iterator.next()?.name == .disconnected)
    server.refusal.withLock { $0 = "-NOPERM uid 7 may not connect\r\n" }
    try await server.listen()
    await #expect(throws: CountdownClientError(reply: "NOPERM uid 7 may not connect")) {
      while try await iterator.next() != nil {}
    }
  }

  @Test func eachNameIsACommandOfItsOwn() async throws {
    let server = try await StandInServer { words, _ in Self.subscribed(words) }
    let client = try await Client.connect(path: server.path)
    let channels = (0..<20_000).map { EventChannel.countdown("\($0)") }
    var iterator = client.events(channels + [.all(.hud), .all(.timer)])
      .makeAsyncIterator()
    for _ in channels { #expect(try await iterator.next()?.name == .snapshot) }
    try await eventually { server.commands.count == channels.count + 2 }
    #expect(server.commands.allSatisfy { $0.count == 2 })
  }

  @Test func theClientWaitsForADaemonThatIsLoading() async throws {
    let tries = Mutex(0)
    let server = try await StandInServer { words, _ in
      if words[0] == "SUBSCRIBE" {
        let isLoading = tries.withLock { tries in
          tries += 1
          return tries < 3
        }
        return isLoading ? "-LOADING state is being read\r\n" : Self.subscribed(words)
      }
      return nil
    }
    let client = try await Client.connect(path: server.path)
    var iterator = client.events(.countdown("k")).makeAsyncIterator()
    #expect(try await iterator.next()?.name == .snapshot)
    #expect(tries.withLock { $0 } == 3)
  }

  @Test func aSequenceWaitsForADaemonThatIsNotRunningYet() async throws {
    let server = try await StandInServer { words, _ in Self.subscribed(words) }
    try await server.stop()
    let client = Client.unconnected(path: server.path)
    await #expect(throws: CountdownClientError.daemonNotRunning(path: client.path)) {
      try await client.send("PING")
    }
    let first = Task {
      var iterator = client.events(.countdown("k")).makeAsyncIterator()
      return try await iterator.next()?.name
    }
    try await server.listen()
    #expect(try await first.value == .snapshot)
    await #expect(throws: CountdownClientError.pathTooLong(path: Self.long, limit: 107)) {
      for try await _ in Client.unconnected(path: Self.long).events(.everything) {}
    }
  }

  private static let long = "/tmp/" + String(repeating: "x", count: 200)

  @Test func aRefusedSubscriptionEndsTheSequence() async throws {
    let server = try await StandInServer { _, _ in "-LIMIT max-subscriptions is 1\r\n" }
    let client = try await Client.connect(path: server.path)
    await #expect(
      throws: CountdownClientError.server(code: .limitReached, message: "max-subscriptions is 1")
    ) {
      for try await _ in client.events(.timer("a"), .timer("b")) {}
    }
  }

  @Test func aSequenceThatIsNoLongerReadUnsubscribes() async throws {
    let server = try await StandInServer { words, _ in Self.subscribed(words) }
    let client = try await Client.connect(path: server.path)
    let reader = Task {
      for try await _ in client.events(.countdown("k")) {}
    }
    try await eventually { server.connections.count == 2 }
    reader.cancel()
    try await eventually { server.connections.count == 1 }
    do {
      var iterator = client.events(.countdown("k")).makeAsyncIterator()
      _ = try await iterator.next()
      #expect(server.connections.count == 2)
    }
    try await eventually { server.connections.count == 1 }
  }

  @Test func aSlowReaderMakesTheDaemonWait() async throws {
    let flood = String(
      repeating: message("countdown:k", #"{"event":"tick","key":"k"}"#), count: 100_000)
    let written = Mutex(false)
    let server = try await StandInServer { words, peer in
      guard words[0] == "SUBSCRIBE" else { return nil }
      peer.push(flood) { written.withLock { $0 = true } }
      return nil
    }
    let client = try await Client.connect(path: server.path)
    var iterator = client.events(.countdown("k")).makeAsyncIterator()
    #expect(try await iterator.next()?.name == .tick)
    try await Task.sleep(for: .milliseconds(200))
    #expect(!written.withLock { $0 }, "7 MB cannot be in a socket's buffer and 512 events")
    for _ in 1..<100_000 { _ = try await iterator.next() }
    #expect(written.withLock { $0 })
  }
}

@Suite(.timeLimit(.minutes(5))) struct ReadyTests {
  final class Button: Sendable {
    let taps = Mutex(0)
    let others = Mutex(0)
  }

  static func ready(_ key: String, _ generation: Int) -> String {
    message(
      "countdown:\(key)",
      #"{"event":"ready","key":"\#(key)","generation":\#(generation),"state":"ready"}"#)
  }

  @Test func theClosureIsCalledOncePerGeneration() async throws {
    let isReady = Mutex(false)
    let server = try await StandInServer { words, _ in
      EventTests.subscribed(words, state: isReady.withLock { $0 ? "ready" : "counting" })
    }
    let client = try await Client.connect(path: server.path)
    let button = Button()
    let handle = client.onReady("k", target: button) { button, event in
      #expect(event.key == "k")
      button.taps.withLock { $0 += 1 }
    }
    let second = client.onReady("other", target: button) { button, _ in
      button.others.withLock { $0 += 1 }
    }
    try await eventually { server.commands.filter { $0[0] == "SUBSCRIBE" }.joined().count >= 3 }
    #expect(server.connections.count == 2, "all handles share one connection")
    func push(_ text: String) { for peer in server.connections { peer.push(text) } }
    try await server.connections[0].channel.close().get()
    push(Self.ready("k", 1))
    try await eventually { button.taps.withLock { $0 } == 1 }
    push(Self.ready("k", 1))
    push(Self.ready("k", 2))
    try await eventually { button.taps.withLock { $0 } == 2 }
    // A code that expires meanwhile changes nothing about that, for who comes later either.
    push(
      message(
        "countdown:k", #"{"event":"expired","key":"k","generation":2,"state":"ready"}"#))
    push(Self.ready("other", 1))
    try await eventually { button.others.withLock { $0 } == 1 }
    // The new snapshot is of generation 1, so `handle` is called again.
    isReady.withLock { $0 = true }
    let late = client.onReady("k", target: button) { button, _ in button.taps.withLock { $0 += 10 }
    }
    try await eventually { button.taps.withLock { $0 } == 13 }
    late.cancel()
    handle.cancel()
    try await eventually { server.commands.contains(["UNSUBSCRIBE", "countdown:k"]) }
    push(Self.ready("k", 3))
    push(Self.ready("other", 2))
    try await eventually { button.others.withLock { $0 } == 2 }
    #expect(button.taps.withLock { $0 } == 13)
    second.cancel()
  }

  @Test func onReadyIsCalledAtOnceIfReady() async throws {
    let server = try await StandInServer { words, _ in
      EventTests.subscribed(words, state: "ready")
    }
    let client = try await Client.connect(path: server.path)
    let button = Button()
    let handle = client.onReady("k", target: button) { button, _ in
      button.taps.withLock { $0 += 1 }
    }
    try await eventually { button.taps.withLock { $0 } == 1 }
    handle.cancel()
  }

  @Test func theTargetIsHeldWeaklyAndAReleasedHandleEndsTheCalls() async throws {
    let server = try await StandInServer { words, _ in EventTests.subscribed(words) }
    let client = try await Client.connect(path: server.path)
    weak var observed: Button?
    var handle: EventHandle?
    do {
      let button = Button()
      observed = button
      handle = client.onReady("k", target: button) { _, _ in Issue.record("the target is gone") }
    }
    #expect(observed == nil)
    try await eventually { server.commands.contains(["SUBSCRIBE", "countdown:k"]) }
    for peer in server.connections { peer.push(Self.ready("k", 7)) }
    try await eventually { server.commands.contains(["UNSUBSCRIBE", "countdown:k"]) }
    _ = handle
    handle = nil

    let kept = Button()
    handle = client.onReady("l", target: kept) { _, _ in }
    try await eventually { server.commands.contains(["SUBSCRIBE", "countdown:l"]) }
    handle = nil
    try await eventually { server.commands.contains(["UNSUBSCRIBE", "countdown:l"]) }
  }
}
