import Testing
import Wire

@testable import Countdowns

/// MULTI, EXEC and DISCARD.
@Suite struct TransactionTests {
  let counter = DispatcherHarness()

  private func isError(_ reply: Reply, _ prefix: String) -> Bool {
    if case .error(let text) = reply { text.hasPrefix(prefix) } else { false }
  }

  @Test func queuedCommandsRunAtExecAndReplyInOneArray() throws {
    #expect(try counter.say("MULTI") == .simple("OK"))
    #expect(try counter.say("TIMER SET t 1h") == .simple("QUEUED"))
    #expect(try counter.say("TIMER PAUSE nothing") == .simple("QUEUED"))
    #expect(try counter.say("TIMER DEL t") == .simple("QUEUED"))
    #expect(counter.dispatcher.engine.entityCount == 0, "nothing runs before EXEC")
    let replies = try counter.say("EXEC").elements
    #expect(replies.count == 3)
    #expect(replies[0]["state"] == .bulk("running"))
    #expect(isError(replies[1], "NOTFOUND no timer 'nothing'"), "the others run all the same")
    #expect(replies[2] == .integer(1))
    try counter.expectError("EXEC", "ERR EXEC without MULTI")
    try counter.expectError("DISCARD", "ERR DISCARD without MULTI")
  }

  @Test func anEmptyTransactionRepliesWithAnEmptyArray() throws {
    _ = try counter.say("MULTI")
    #expect(try counter.say("EXEC") == .array([]))
  }

  @Test func discardAndResetDropQueuedCommands() throws {
    for end in ["DISCARD", "RESET"] {
      _ = try counter.say("MULTI")
      _ = try counter.say("TIMER SET t 1h")
      _ = try counter.say(end)
      try counter.expectError("EXEC", "ERR EXEC without MULTI")
    }
    #expect(counter.dispatcher.engine.entityCount == 0)
  }

  @Test func aRefusedCommandAbortsTheTransaction() throws {
    let other = counter.open(as: Peer(uid: 3_000))
    for line in [
      "NONSENSE", "TIMER SET t", "TIMER LIST", "EVENTS SINCE 0", "BACKUP BEGIN", "CLOCK ADVANCE 1s",
      "CONFIG RELOAD", "SUBSCRIBE timer:t", "PSUBSCRIBE *", "UNSUBSCRIBE", "WATCH k", "MULTI",
      "CLIENT REPLY OFF", "HELLO 3", "MONITOR", "SHUTDOWN", "INFO", "HELP", "COMMAND DOCS",
    ] {
      for session in [counter.session, other] {
        _ = try counter.say("MULTI", by: session)
        #expect(try counter.say("TIMER SET t 1h", by: session) == .simple("QUEUED"))
        #expect(isError(try counter.say(line, by: session), ""), "\(line)")
        #expect(isError(try counter.say("EXEC", by: session), "EXECABORT"), "\(line)")
        #expect(try counter.say("PING", by: session) == .simple("PONG"))
      }
    }
    #expect(counter.dispatcher.engine.entityCount == 0)
    #expect(!counter.host.isShutDown && counter.host.reloads.isEmpty)
    _ = try counter.say("MULTI", by: other)
    #expect(isError(try counter.say("SLOWLOG RESET", by: other), "NOPERM"))
  }

  @Test func errorsSayWhatToDo() throws {
    try counter.expectError("WATCH k", "not supported", "Pass GENERATION")
    _ = try counter.say("MULTI")
    try counter.expectError("TIMER LIST", "ERR TIMER LIST cannot be queued", "after EXEC")
    try counter.expectError("MULTI", "cannot be nested", "EXEC or DISCARD")
  }

  @Test func queuesAtMost1024Commands() throws {
    _ = try counter.say("MULTI")
    for _ in 0..<Transaction.maximumCommands {
      #expect(try counter.say("PING") == .simple("QUEUED"))
    }
    try counter.expectError("PING", "LIMIT MULTI takes at most 1024 commands")
    #expect(isError(try counter.say("EXEC"), "EXECABORT"))
  }

  @Test func queuedArgumentsHaveAtMostMaxRequestLength() throws {
    var settings = Dispatcher.Settings()
    settings.maxRequestLength = 100
    let counter = DispatcherHarness(settings)
    _ = try counter.say("MULTI")
    // Eight bytes for each argument count as well.
    #expect(try counter.say("ECHO " + String(repeating: "x", count: 40)) == .simple("QUEUED"))
    #expect(counter.session.transaction?.length == 60)
    try counter.expectError(
      "ECHO " + String(repeating: "x", count: 21), "LIMIT max-request-length is 100", "EXEC")
  }

  @Test func quotasApplyWhenCommandsRun() throws {
    var engine = EngineSettings()
    engine.limits.entitiesPerUser = 1
    let counter = DispatcherHarness(engine: engine)
    _ = try counter.say("MULTI")
    _ = try counter.say("TIMER SET a 1h")
    _ = try counter.say("TIMER SET b 1h")
    let replies = try counter.say("EXEC").elements
    #expect(replies[0]["state"] == .bulk("running"))
    #expect(isError(replies[1], "LIMIT max-entities-per-uid is 1"))
  }

  @Test func eventsFollowTheArrayOfReplies() throws {
    let session = counter.open(.resp3)
    _ = try counter.frames(["PSUBSCRIBE", "timer:*"], by: session)
    _ = try counter.say("MULTI", by: session)
    _ = try counter.say("TIMER SET a 1h", by: session)
    _ = try counter.say("TIMER SET b 1h", by: session)
    let frames = try counter.frames(["EXEC"], by: session)
    #expect(frames.count == 3)
    #expect(frames[0].elements.map { $0["key"] } == [.bulk("a"), .bulk("b")])
    for frame in frames[1...] {
      if case .push = frame { continue }
      Issue.record("\(frame)")
    }
  }

  @Test func aMonitorOfItsOwnTransactionReadsWholeReplies() throws {
    _ = try counter.say("MONITOR")
    _ = try counter.frames(["MULTI"])
    _ = try counter.frames(["PING"])
    let frames = try counter.frames(["EXEC"])
    #expect(frames.last == .array([.simple("PONG")]))
  }

  @Test func clientListShowsQueuedCommands() throws {
    #expect(try counter.say("CLIENT LIST").text.contains(" multi=-1 "))
    let other = counter.open()
    _ = try counter.say("MULTI", by: other)
    _ = try counter.say("PING", by: other)
    #expect(try counter.say("CLIENT LIST").text.contains(" multi=1 "))
    counter.dispatcher.close(other)
    #expect(other.transaction == nil)
  }

  @Test func allChangesOfATransactionAreInOneBatch() throws {
    let engine = counter.dispatcher.engine
    engine.noteChanges()
    _ = try counter.say("MULTI")
    for key in ["a", "b", "c"] { _ = try counter.say("TIMER SET \(key) 1h") }
    #expect(engine.takenChanges() == [])
    _ = try counter.say("EXEC")
    #expect(engine.takenChanges() == ["timer 0 a", "timer 1 b", "timer 2 c"])
  }

  // MARK: What EXEC costs

  private func exec(_ lines: [String], on counter: DispatcherHarness) throws -> Reply {
    _ = try counter.say("MULTI")
    for line in lines { #expect(try counter.say(line) == .simple("QUEUED")) }
    return try counter.say("EXEC")
  }

  @Test func ordinaryCommandsAlwaysPass() throws {
    var settings = EngineSettings()
    settings.policies = [:]
    let counter = DispatcherHarness(engine: settings)
    let text = String(repeating: "x", count: 200)
    let many = 0..<Transaction.maximumCommands
    for lines in [
      many.map { "COUNTDOWN START c\($0) TITLE \(text) META \(text)" },
      many.map { _ in "COUNTDOWN START one TITLE \(text)" },
      many.map { _ in "THROTTLE TAKE t BURST 5 RATE 5/1m" },
      many.map { "HUD SHOW screen\($0) STATUS \(text)" },
      many.map { "SCOPE OPEN s\($0)" }, many.map { _ in "PING" },
    ] {
      #expect(try exec(lines, on: counter).elements.count == many.count, "\(lines[0])")
    }
  }

  @Test func repliesThatWouldBeTooLargeRunNothing() throws {
    let pages = (0..<1_000).map { "page-\($0)" }
    for page in pages { _ = try counter.say("NAV PUSH main \(page)") }
    for number in 0..<300 { _ = try counter.say("SCOPE OPEN below\(number) PARENT page-0") }
    let first = "TIMER SET first 1h"
    for lines in [
      [first] + (0..<1_000).map { _ in "NAV GET main" },
      [first] + (0..<200).map { _ in "SCOPE TREE page-0 LIMIT 1000" },
      // What earlier commands of the same transaction make large counts as well.
      [first, "ONCE BEGIN o TTL 1h", "ONCE DONE o " + String(repeating: "x", count: 60_000)]
        + (0..<1_000).map { _ in "ONCE GET o" },
      [first] + (0..<500).map { "HUD SHOW lobby STATUS \($0) OWNER scope:page-\($0)" },
    ] {
      let reply = try exec(lines, on: counter)
      #expect(isError(reply, "LIMIT the replies to the commands since MULTI"), "\(lines.last!)")
      #expect(try counter.say("TIMER GET first") == .null, "\(lines.last!)")
    }
    #expect(try exec(["NAV GET main", "SCOPE TREE page-0"], on: counter).elements.count == 2)
  }

  @Test func eventsAreMatchedBitByBitAfterwardsInTheirOrder() throws {
    let reader = counter.open(.resp3)
    let channel = String(repeating: "a", count: 400)
    for number in 0..<100 {
      let pattern = "*" + String(repeating: "?a*", count: 100) + "\(number)"
      _ = try counter.frames(["PSUBSCRIBE", pattern], by: reader)
    }
    _ = try counter.frames(["PSUBSCRIBE", "timer:*"], by: reader)
    _ = try exec((0..<50).map { "TIMER SET \(channel)-\($0) 1h" }, on: counter)
    // Events and snapshots that come later wait for their turn.
    _ = try counter.say("TIMER SET last 1h")
    let other = counter.open(.resp3)
    _ = try counter.frames(["SUBSCRIBE", "timer:last"], by: other)
    // Another transaction begins once all of them are delivered.
    let third = counter.open()
    _ = try counter.frames(["MULTI"], by: third)
    _ = try counter.frames(["TIMER", "SET", "third", "1h"], by: third)
    counter.runFirstPart(["EXEC"], by: third)
    #expect(third.next == .part)
    #expect(try counter.say("TIMER GET third") == .null)
    let atOnce = try counter.take(reader).count
    #expect(atOnce < 50, "only some of them")
    var slices = 0
    while !counter.dispatcher.advance(to: counter.host.now, budget: 100) { slices += 1 }
    #expect(slices > 20)
    let events = try counter.take(reader)
    #expect(events.count + atOnce >= 51)
    #expect(try counter.take(other).count >= 1)
    counter.finish(third)
    #expect(try counter.take(third).last?.elements.count == 1)
  }

  @Test func queuedCommandsOfAUserAreLimited() throws {
    var settings = Dispatcher.Settings()
    settings.maxRequestLength = 1_000
    let counter = DispatcherHarness(settings)
    let line = "ECHO " + String(repeating: "x", count: 900)
    var sessions: [Session] = []
    for _ in 0..<80 {
      let session = counter.open()
      _ = try counter.say("MULTI", by: session)
      let reply = try counter.say(line, by: session)
      guard reply == .simple("QUEUED") else {
        #expect(isError(reply, "LIMIT the commands since MULTI of all connections of this user"))
        break
      }
      sessions.append(session)
    }
    #expect((60..<75).contains(sessions.count), "64 times max-request-length")
    counter.dispatcher.close(sessions[0])
    _ = try counter.say("DISCARD", by: sessions[1])
    _ = try counter.say("EXEC", by: sessions[2])
    for _ in 0..<3 {
      let session = counter.open()
      _ = try counter.say("MULTI", by: session)
      #expect(try counter.say(line, by: session) == .simple("QUEUED"), "there is room again")
    }
  }

  @Test func theConnectionWithTheSlowestPatternsIsClosedBeforeEventsTakeTooMuchMemory() throws {
    var settings = Dispatcher.Settings()
    settings.maxOutput = 20_000
    let counter = DispatcherHarness(settings)
    let (slow, quick) = (counter.open(.resp3), counter.open(.resp3))
    for number in 0..<100 {
      let pattern = "*" + String(repeating: "?a*", count: 70) + "\(number)"
      _ = try counter.frames(["PSUBSCRIBE", pattern], by: slow)
    }
    _ = try counter.frames(["PSUBSCRIBE", "timer:*"], by: quick)
    let key = String(repeating: "a", count: 500)
    for number in 0..<40 {
      _ = try counter.say("TIMER SET \(key)\(number) 1h")
      _ = try counter.take(quick)
    }
    while !counter.dispatcher.advance(to: counter.host.now, budget: 100) {}
    #expect(counter.host.closed.first?.connection == slow.client.connection)
  }

  @Test func whatIsDueWaitsWhileManyEventsAreNotDelivered() throws {
    let reader = counter.open(.resp3)
    let key = String(repeating: "a", count: 500)
    for number in 0..<1_500 { _ = try counter.say("TIMER SET \(key)\(number) 1s") }
    for number in 0..<100 {
      let pattern = "*" + String(repeating: "?a*", count: 70) + "\(number)"
      _ = try counter.frames(["PSUBSCRIBE", pattern], by: reader)
    }
    counter.host.now.boot.microseconds += 2_000_000
    counter.host.now.wall.microseconds += 2_000_000
    var maximum = 0
    for _ in 0..<40 {
      _ = counter.dispatcher.advance(to: counter.host.now, budget: 64)
      maximum = max(maximum, counter.dispatcher.undeliveredLength)
    }
    #expect(maximum > 1 << 20, "more would be due")
    #expect(maximum < 5 << 18)
  }
}
