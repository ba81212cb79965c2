import Foundation
import Testing
import Wire

@testable import Countdowns

/// Events on their way to clients: JSON, frames, merged ticks, the output limit.
@Suite struct EventTests {
  let counter = DispatcherHarness()

  /// Returns the JSON of each message or pmessage among the frames.
  private func events(_ frames: [Reply]) throws -> [[String: Any]] {
    try frames.compactMap { frame in
      guard ["message", "pmessage"].contains(frame.elements.first?.text) else { return nil }
      let object = try JSONSerialization.jsonObject(
        with: Data(frame.elements.last!.text.utf8), options: [])
      return object as? [String: Any]
    }
  }

  @Test func subscribeSendsTheConfirmationsThenSnapshotsThenEvents() throws {
    let listener = counter.open(.resp3)
    let frames = try counter.frames(["SUBSCRIBE", "countdown:k", "hud:s"], by: listener)
    #expect(frames.map(\.elements[0].text) == ["subscribe", "subscribe", "message", "message"])
    #expect(try events(frames).map { $0["state"] as? String } == ["idle", "hidden"])
    _ = try counter.say("COUNTDOWN START k COUNT 2")
    counter.pass(1_000)
    counter.pass(1_000)
    let heard = try events(counter.take(listener))
    #expect(heard.map { $0["event"] as? String } == ["started", "tick", "ready"])
    #expect(heard.map { $0["remaining"] as? Int } == [2, 1, 0])
    #expect(heard[1]["due_unix_ms"] as? Int == 1_790_000_001_000)
  }

  @Test func bothProtocolVersionsGetTheSamePayloadAsArrayAndAsPush() throws {
    let old = counter.open(.resp2)
    let new = counter.open(.resp3)
    counter.run(["SUBSCRIBE", "timer:t"], by: old)
    counter.run(["SUBSCRIBE", "timer:t"], by: new)
    _ = try counter.say("TIMER SET t 1s PAYLOAD p")
    let (first, second) = (try counter.take(old).last!, try counter.take(new).last!)
    guard case .array(let array) = first, case .push(let push) = second else {
      Issue.record("\(first) and \(second)")
      return
    }
    #expect(array == push)
  }

  @Test func jsonIsEscapedBytesThatAreNotUTF8ComeAsBase64UnderANameThatSaysSo() throws {
    let listener = counter.open()
    counter.run(["SUBSCRIBE", "countdown:a\"\\\n\u{1}重"], by: listener)
    counter.run(["COUNTDOWN", "START", "a\"\\\n\u{1}重", "META", "\t\u{7F}/"])
    let event = try #require(try events(counter.take(listener)).last)
    #expect(event["key"] as? String == "a\"\\\n\u{1}重")
    #expect(event["meta"] as? String == "\t\u{7F}/")

    for (bytes, text) in [
      ([0xFF], "/w=="), ([0xFF, 0xFE], "//4="), ([0xFF, 0xFE, 0xFD], "//79"),
      ([0xC3, 0x28, 0x00, 0x01], "wygAAQ=="), ([0xED, 0xA0, 0x80], "7aCA"),
    ] as [([UInt8], String)] {
      var line = JSONLine()
      line.begin()
      line.field("key", bytes: bytes)
      line.field("n", Int64(1))
      line.end()
      let json = String(decoding: line.bytes)
      #expect(json == "{\"key_base64\":\"\(text)\",\"n\":1}")
      #expect(Data(base64Encoded: text) == Data(bytes))
    }
  }

  @Test(arguments: ["k", "a\"\\\n\u{1}重", String(repeating: "long", count: 50)])
  func subscribersAndTheEventLogGetTheSameReadyEvent(_ key: String) throws {
    let listener = counter.open()
    counter.run(["SUBSCRIBE", "countdown:\(key)"], by: listener)
    for titles in [[], ["TITLE", "%ds", "READYTITLE", "\"重\""]] {
      counter.run(["COUNTDOWN", "START", key, "COUNT", "2"] + titles)
      counter.pass(2_500)
      let reported = try #require(try counter.take(listener).last?.elements.last?.text)
      #expect(reported.contains("\"event\":\"ready\"") && reported.contains("\"late_us\":500000"))
      _ = try counter.take()
      let reply = try counter.frames(["EVENTS", "SINCE", "0"])
      #expect(reply.last?.elements[7].elements.last?.elements.last?.text == reported)
    }
  }

  @Test func subscribersAndTheEventLogGetTheSameEventsOfHUDsTimersAndGuards() throws {
    let listener = counter.open()
    counter.run(["PSUBSCRIBE", "*"], by: listener)
    for line in [
      "HUD SHOW k KIND progress STATUS x MIN 2s MAX 9s MASK black DURABLE", "HUD PROGRESS k 0.25",
      "HUD PAUSE k", "HUD RESUME k", "HUD SHOW k STATUS y DURABLE", "HUD DISMISS k",
      "TIMER SET k 1s EVERY 1s PAYLOAD p", "TIMER PAUSE k", "TIMER RESUME k", "TIMER RETIME k 500",
      "ONCE BEGIN k TTL 5s", "ONCE DONE k r", "GATE CHECK k buy PAYLOAD p", "GATE OPEN k",
      "GATE CLOSE k", "DEBOUNCE CALL k 1s PAYLOAD p MAXWAIT 3s",
    ] { _ = try counter.say(line) }
    for _ in 0..<9 { counter.pass(1_000) }
    _ = try counter.take()
    let kept = try counter.frames(["EVENTS", "SINCE", "0"]).last?.elements[7].elements.map {
      $0.elements.last?.text
    }
    // The first frame is the confirmation.
    let reported = try counter.take(listener).dropFirst().map { $0.elements.last?.text }
    #expect(reported.count > 15 && kept == reported)
  }

  @Test func aTickIsExactlyThisLine() throws {
    let listener = counter.open()
    counter.run(["SUBSCRIBE", "countdown:k"], by: listener)
    counter.run(["COUNTDOWN", "START", "k", "COUNT", "3", "TITLE", "%ds"])
    let started = try #require(try events(counter.take(listener)).last)
    counter.pass(1_001)
    let reported = try #require(try counter.take(listener).last?.elements.last?.text)
    let (generation, sequence) = (started["generation"] as! Int, started["seq"] as! Int)
    #expect(
      reported == """
        {"event":"tick","key":"k","generation":\(generation),"seq":\(sequence + 1),\
        "due_unix_ms":1790000001000,"late_us":1000,"state":"counting","remaining":2,\
        "remaining_ms":1999,"deadline_unix_ms":1790000003000,"now_unix_ms":1790000001001,\
        "title":"2s"}
        """)
  }

  @Test func eventsAreOneLineOfJSONAndViewsHaveTheFieldsTheyAnnounce() throws {
    let listener = counter.open()
    counter.run(["PSUBSCRIBE", "*"], by: listener)
    for line in [
      "COUNTDOWN START k COUNT 3 TITLE %d", "COUNTDOWN START k", "COUNTDOWN PAUSE k",
      "COUNTDOWN RESUME k", "COUNTDOWN RETIME k 2s", "HUD SHOW k STATUS x FADEIN 0",
      "HUD PROGRESS k 0.25",
      "HUD TAP k INSIDE", "HUD PAUSE k", "HUD RESUME k", "HUD SHOW k KIND info", "HUD DISMISS k",
      "TIMER SET k 1s EVERY 1s", "TIMER PAUSE k", "TIMER RESUME k", "TIMER RETIME k 500",
    ] { _ = try counter.say(line) }
    counter.pass(1_000)
    counter.pass(5_000)
    _ = try counter.say("TIMER DEL k")
    _ = try counter.say("COUNTDOWN CANCEL k")
    let heard = try events(counter.take(listener))
    let names = Set(heard.compactMap { $0["event"] as? String })
    #expect(
      names == [
        "started", "refused", "paused", "resumed", "retimed", "tick", "ready", "cancelled", "set",
        "fired", "will-appear", "did-appear", "updated", "touched", "will-disappear",
        "did-disappear",
      ])
    let numbers = heard.compactMap { $0["seq"] as? Int }
    #expect(numbers == numbers.sorted())
    #expect(Set(numbers).count == heard.count)
    #expect(heard.allSatisfy { !"\($0["event"]!)".contains("\n") })
  }

  // MARK: Slow readers

  @Test func aSlowReaderGetsOnlyTheNewestTickOfEachChannel() throws {
    let slow = counter.open()
    counter.run(["SUBSCRIBE", "countdown:a", "countdown:b"], by: slow)
    _ = try counter.say("COUNTDOWN START a COUNT 10")
    _ = try counter.say("COUNTDOWN START b COUNT 20")
    _ = try counter.take(slow)
    slow.isBackedUp = true
    for _ in 0..<5 { counter.pass(1_000) }
    #expect(slow.output.bytes.isEmpty)
    slow.isBackedUp = false
    slow.releaseTicks()
    let numbers = try events(counter.take(slow)).compactMap { $0["remaining"] as? Int }
    #expect(numbers.sorted() == [5, 15])
    #expect(try counter.say("INFO stats").text.contains("ticks_merged:8\r\n"))
  }

  @Test func otherEventsAreNotMergedAndReplaceAWaitingTick() throws {
    for subscription in [["SUBSCRIBE", "countdown:a"], ["PSUBSCRIBE", "countdown:*"]] {
      let counter = DispatcherHarness()
      let slow = counter.open()
      counter.run(subscription, by: slow)
      _ = try counter.say("COUNTDOWN START a COUNT 3")
      _ = try counter.take(slow)
      slow.isBackedUp = true
      for _ in 0..<3 { counter.pass(1_000) }
      slow.releaseTicks()
      let names = try events(counter.take(slow)).compactMap { $0["event"] as? String }
      #expect(names == ["ready"])
    }
  }

  @Test func beyondMaxOutputTheConnectionIsClosedAndTheReasonNamesTheSize() throws {
    var settings = Dispatcher.Settings()
    settings.maxOutput = 2_000
    let counter = DispatcherHarness(settings)
    let slow = counter.open()
    counter.run(["SUBSCRIBE", "timer:t"], by: slow)
    for _ in 0..<20 { _ = try counter.say("TIMER SET t 1s") }
    #expect(slow.isClosing)
    #expect(slow.output.bytes.isEmpty)
    #expect(counter.host.closed.map(\.connection) == [2])
    let reason = try #require(counter.host.closed.first?.reason.description)
    let unread = try #require(reason.split(separator: " ").compactMap { Int($0) }.first)
    #expect(unread > 2_000)
    #expect(reason.contains("max-output is 2000"))
    #expect(try counter.say("INFO stats").text.contains("output_limit_disconnections:1\r\n"))
  }

  @Test func aMonitorThatDoesNotReadIsClosedEvenWhileItsOwnCommandFails() throws {
    var settings = Dispatcher.Settings()
    settings.maxOutput = 300
    let counter = DispatcherHarness(settings)
    counter.run(["MONITOR"])
    // Unread output grows until the line about its own command, sent before the error, is too much.
    for _ in 0..<20 { counter.run(["COUNTDOWN", "PAUSE", "none"]) }
    #expect(counter.session.isClosing)
    #expect(counter.host.closed.map(\.connection).first == 1)
  }

  // MARK: Subscribed in RESP2

  @Test func whileSubscribedInRESP2OnlySomeCommandsAreAllowedInRESP3AllAre() throws {
    counter.run(["SUBSCRIBE", "other"])
    _ = try counter.take()
    #expect(try counter.say("COUNTDOWN GET k").text.contains("Can't execute 'countdown get'"))
    #expect(try counter.say("DBSIZE").text.hasPrefix("ERR Can't execute"))
    #expect(try counter.say("PING") == .array([.bulk("pong"), .bulk("")]))
    #expect(try counter.say("PING x") == .array([.bulk("pong"), .bulk("x")]))
    counter.session.output.version = .resp3
    #expect(try counter.say("DBSIZE") == .integer(0))
    #expect(try counter.say("PING") == .simple("PONG"))
    counter.session.output.version = .resp2
    #expect(try counter.say("RESET") == .simple("RESET"))
    #expect(try counter.say("DBSIZE") == .integer(0))
    counter.run(["PSUBSCRIBE", "x*"])
    _ = try counter.take()
    #expect(try counter.say("DBSIZE").text.hasPrefix("ERR Can't execute"))
    #expect(try counter.say("PUNSUBSCRIBE").elements.last == .integer(0))
    #expect(try counter.say("DBSIZE") == .integer(0))
  }

  @Test func aSUBSCRIBEBeyondTheLimitOrWithANameTooLongSubscribesNothing() throws {
    var engine = EngineSettings()
    engine.limits.subscriptions = 2
    let counter = DispatcherHarness(engine: engine)
    #expect(try counter.say("SUBSCRIBE countdown:a b c").text.hasPrefix("LIMIT max-subscriptions"))
    #expect(try counter.say("PUBSUB CHANNELS") == .array([]))
    let long = String(repeating: "x", count: 1_025)
    #expect(try counter.say("SUBSCRIBE countdown:a \(long)").text.hasPrefix("ERR"))
    #expect(try counter.say("PUBSUB CHANNELS") == .array([]))
    #expect(try counter.frames(["SUBSCRIBE", "a", "b"]).count == 2)
  }
}
