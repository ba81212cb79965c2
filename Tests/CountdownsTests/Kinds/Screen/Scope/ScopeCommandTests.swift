import Testing
import Wire

@testable import Countdowns

@Suite struct ScopeCommandTests {
  @Test func resetEndsAConnectionsHandlersButNotItsEntitiesOrOtherHandlers() throws {
    let counter = DispatcherHarness()
    let handler = counter.open(.resp3)
    let other = counter.open(.resp3)
    _ = try counter.say("SCOPE OPEN app OWNER connection", by: handler)
    _ = try counter.say("SCOPE OPEN page")
    for scope in ["app", "page"] {
      _ = try counter.say("SCOPE HANDLE \(scope) tap CAPTURE", by: handler)
      _ = try counter.say("SCOPE HANDLE \(scope) tap", by: handler)
    }
    _ = try counter.say("SCOPE HANDLE page tap", by: other)
    #expect(try counter.say("RESET", by: handler) == .simple("RESET"))
    handler.output.version = .resp3
    #expect(try counter.say("SCOPE EMIT app tap") == .null)
    #expect(try counter.say("SCOPE GET app")["handlers"] == .integer(0))
    #expect(try counter.say("SCOPE EMIT page tap") == .bulk("page"))
    #expect(try counter.take(handler).isEmpty)
    #expect(try counter.take(other).count == 1)
    #expect(try counter.say("SCOPE HANDLE page tap", by: handler) == .integer(1))
    counter.dispatcher.close(handler)
    counter.pass(0)
    #expect(try counter.say("SCOPE GET app") == .null)
    #expect(try counter.say("SCOPE GET page")["handlers"] == .integer(1))
  }

  @Test func inRESP2AHandlerReceivesEventsOnceSubscribedAndMayHandleMoreMeanwhile() throws {
    let counter = DispatcherHarness()
    let handler = counter.open(.resp2)
    _ = try counter.say("SCOPE OPEN app")
    #expect(try counter.say("SCOPE HANDLE app tap", by: handler) == .integer(1))
    #expect(try counter.say("SCOPE EMIT app tap") == .null)
    _ = try counter.frames(["SUBSCRIBE", "scope:app"], by: handler)
    #expect(
      try counter.say("SCOPE HANDLE app swipe", by: handler)
        == .array([.bulk("handle"), .bulk("scope:app"), .integer(1)]))
    #expect(try counter.say("SCOPE EMIT app tap") == .bulk("app"))
    #expect(try counter.say("SCOPE EMIT app swipe") == .bulk("app"))
    #expect(try counter.take(handler).count == 2)
    #expect(
      try counter.say("SCOPE UNHANDLE app swipe", by: handler)
        == .array([.bulk("unhandle"), .bulk("scope:app"), .integer(1)]))
    try counter.expectError("SCOPE EMIT none tap", "NOTFOUND")
  }

  @Test func idsAndPayloadsThatAreNotUTF8ComeAsBase64() throws {
    let counter = DispatcherHarness()
    let watcher = counter.open(.resp3)
    var request = RESPEncoder()
    request.array(3)
    for word in [Array("SCOPE".utf8), Array("OPEN".utf8), [0xFF, 0x00]] { request.bulk(word) }
    _ = try counter.frames(["PSUBSCRIBE", "scope:*"], by: watcher)
    var decoder = RequestDecoder()
    decoder.append(request.bytes.span.bytes)
    _ = try decoder.next()
    _ = decoder.withArguments {
      counter.dispatcher.execute($0, for: counter.session, at: counter.host.now)
    }
    let frames = try counter.take(watcher)
    #expect(frames.last.map { "\($0)".contains("key_base64") } == true)
  }

  @Test func subscribersReceiveTheEventsOfScopes() throws {
    let counter = DispatcherHarness()
    let watcher = counter.open(.resp3)
    _ = try counter.frames(["SUBSCRIBE", "scope:a"], by: watcher)
    _ = try counter.say("SCOPE OPEN a TTL 1s")
    counter.pass(1_000)
    let texts = try counter.take(watcher).map { "\($0)" }
    #expect(texts.count == 2)
    #expect(texts[0].contains(#"\"event\":\"opened\""#), "\(texts[0])")
    #expect(texts[0].contains(#"\"ttl_ms\":1000"#))
    #expect(texts[1].contains(#"\"event\":\"closed\""#))
    #expect(texts[1].contains(#"\"reason\":\"expired\",\"state\":\"closed\""#), "\(texts[1])")
  }
}
