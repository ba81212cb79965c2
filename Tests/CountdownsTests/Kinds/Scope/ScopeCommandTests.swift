import Testing
import Wire

@testable import Countdowns

@Suite struct ScopeCommandTests {
  @Test func openGETAndTREEReplyWithViewsCLOSEWithWhetherThereWasOne() throws {
    let counter = DispatcherHarness()
    #expect(try counter.say("SCOPE OPEN app TTL 30s")["ttl_ms"] == .integer(30_000))
    let page = try counter.say("SCOPE OPEN page PARENT app OWNER connection")
    #expect(page["parent"] == .bulk("app"))
    #expect(page["owner"] == .bulk("connection:1"))
    #expect(page["state"] == .bulk("open"))
    #expect(page["remaining_ms"] == .null)
    #expect(try counter.say("COUNTDOWN START k OWNER scope:page")["owner"] == .bulk("scope:page"))
    #expect(
      try counter.say("HUD SHOW h FADEIN 0 FADEOUT 0 OWNER SCOPE:page")["owner"]
        == .bulk("scope:page"))
    #expect(try counter.say("SCOPE GET page")["owned"] == .integer(2))
    let tree = try counter.say("SCOPE TREE app").elements
    #expect(tree[0] == .bulk("0"))
    #expect(tree[1].elements.compactMap { $0["key"] } == [.bulk("app"), .bulk("page")])
    #expect(
      try counter.say("COUNTDOWN LIST OWNER scope:page").elements[1].elements.count == 1)
    #expect(try counter.say("SCOPE LIST MATCH p*").elements[1].elements.count == 1)
    #expect(try counter.say("SCOPE CLOSE app") == .integer(1))
    #expect(try counter.say("SCOPE CLOSE app") == .integer(0))
    #expect(try counter.say("SCOPE GET page") == .null)
    #expect(try counter.say("DBSIZE") == .integer(0))
  }

  @Test func errorsSayWhatIsWrongAndWhatToDoAndChangeNothing() throws {
    let counter = DispatcherHarness()
    _ = try counter.say("SCOPE OPEN app")
    _ = try counter.say("SCOPE OPEN page PARENT app")
    try counter.expectError("SCOPE OPEN x PARENT none", "NOTFOUND no scope 'none'")
    try counter.expectError("SCOPE OPEN app PARENT page", "ERR 'page' is below 'app'")
    try counter.expectError("SCOPE OPEN page PARENT page", "ERR 'page' is below 'page' or is it")
    try counter.expectError("SCOPE OPEN page OWNER connection", "has no owner, which cannot change")
    _ = try counter.say("SCOPE OPEN other")
    try counter.expectError("SCOPE OPEN page PARENT other", "ERR 'page' is below 'app'", "CLOSE")
    try counter.expectError(
      "SCOPE OPEN x PARENT app OWNER scope:other", "leave out PARENT or OWNER")
    try counter.expectError("SCOPE OPEN x TTL 0", "TTL is at least 1ms")
    try counter.expectError("SCOPE TOUCH app", "has no lease")
    try counter.expectError("SCOPE TOUCH none", "NOTFOUND no scope 'none'")
    try counter.expectError("SCOPE EMIT app *", "EMIT needs the name of one")
    try counter.expectError("SCOPE CLOSE app GENERATION 99", "STALE")
    try counter.expectError("TIMER SET t 1s OWNER scope:none", "NOTFOUND no scope 'none'")
    try counter.expectError("TIMER SET t 1s OWNER scope:", "not one of none, connection, scope:ID")
    try counter.expectError("TIMER SET t 1s OWNER cell", "not one of none, connection, scope:ID")
    try counter.expectError("SCOPE NOTHING", "unknown subcommand")
    let long = String(repeating: "e", count: 129)
    try counter.expectError("SCOPE HANDLE app \(long)", "1 to 128 bytes, this one 129")
    #expect(try counter.say("DBSIZE") == .integer(3))
  }

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
