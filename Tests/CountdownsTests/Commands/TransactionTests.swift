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
    for _ in 0..<Transaction.mostCommands {
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
}
