import Testing
import Wire

@testable import Countdowns

/// `EVENTS CURSOR` and `EVENTS SINCE`: a client that moves to another host continues there.
@Suite struct FleetEventsTests {
  private let servers = ServersStandIn()
  private let a: FleetCounter
  private let b: FleetCounter

  init() {
    a = FleetCounter(servers, daemon: 1)
    b = FleetCounter(servers, daemon: 2)
  }

  private struct Page {
    var cursor = ""
    var isComplete = false
    var hasMore = false
    var lines: [String] = []
    var positions: [String] { lines.map { position($0) } }
  }

  private func cursor(of daemon: FleetCounter) throws -> String {
    guard case .bulk(let text) = try daemon.say("EVENTS CURSOR") else {
      Issue.record("no cursor")
      return ""
    }
    return text
  }

  private func read(
    _ daemon: FleetCounter, after cursor: String, _ options: String = "MATCH timer:*"
  ) throws -> Page {
    try page(daemon.say("EVENTS SINCE \(cursor) \(options)", by: daemon.counter.open()))
  }

  private func page(_ reply: Reply) -> Page {
    guard case .array(let parts) = reply, parts.count == 10, case .array(let events) = parts[7],
      case .bulk(let next) = parts[9]
    else {
      Issue.record("\(reply)")
      return Page()
    }
    let lines = events.compactMap { event -> String? in
      guard case .array(let pair) = event, case .bulk(let line) = pair[1] else { return nil }
      return line
    }
    return Page(
      cursor: next, isComplete: parts[3] == .integer(1), hasMore: parts[5] == .integer(1),
      lines: lines)
  }

  /// Returns `complete` as a subscriber of a channel receives it.
  private func isComplete(
    _ daemon: FleetCounter, after cursor: String, _ channel: String
  ) throws -> Reply? {
    let subscriber = daemon.counter.open(.resp3)
    daemon.counter.run(["SUBSCRIBE", channel], by: subscriber)
    _ = try daemon.counter.take(subscriber)
    daemon.counter.run(["EVENTS", "SINCE", cursor, "SUBSCRIBED"], by: subscriber)
    daemon.settle()
    return try daemon.counter.take(subscriber).last?.elements[3]
  }

  @Test func aCursorOfOneHostContinuesOnAnother() throws {
    try a.say("TIMER SET before 1h")
    a.read()
    let cursor = try cursor(of: a)
    for key in ["x", "y", "z"] { try a.say("TIMER SET \(key) 1h") }
    let page = try read(b, after: cursor)
    #expect(page.isComplete && !page.hasMore)
    #expect(page.lines.count == 3)
    #expect(page.lines.allSatisfy { $0.contains("\"event\":\"set\"") })
    #expect(try read(b, after: page.cursor).lines == [])
    try b.say("TIMER SET w 1h")
    a.read()
    #expect(try read(a, after: page.cursor).lines.count == 1)
  }

  @Test func anEventHasTheSamePositionOnEachHostAndInEachReply() throws {
    let cursor = try cursor(of: a)
    for daemon in [a, b] {
      daemon.counter.run(["SUBSCRIBE", "timer:k"])
      _ = try daemon.counter.take()
    }
    let other = a.counter.open()
    try a.say("TIMER SET k 1h", by: other)
    b.read()
    var positions = try read(b, after: cursor).positions
    for daemon in [a, b] { positions += try daemon.counter.take().map { position("\($0)") } }
    #expect(positions.count == 3 && Set(positions).count == 1, "\(positions)")
  }

  @Test func positionsOfEventsContinueACursor() throws {
    let cursor = try cursor(of: a)
    for key in ["x", "y", "z"] { try a.say("TIMER SET \(key) 1h") }
    b.read()
    let all = try read(a, after: cursor)
    for (index, position) in all.positions.enumerated() {
      let rest = try read(b, after: "\(cursor)-\(position)")
      #expect(rest.isComplete)
      #expect(rest.lines == Array(all.lines.dropFirst(index + 1)))
    }
  }

  @Test func pagesFollowEachOther() throws {
    var next = try cursor(of: a)
    for number in 0..<25 { try a.say("TIMER SET t\(number) 1h") }
    var lines: [String] = []
    var hasMore = true
    while hasMore {
      let page = try read(a, after: next, "LIMIT 10 MATCH timer:*")
      #expect(page.isComplete && page.lines.count <= 10)
      lines += page.lines
      (next, hasMore) = (page.cursor, page.hasMore)
    }
    #expect(lines.count == 25 && Set(lines).count == 25)
  }

  @Test func aPageCanEndBetweenTheEventsOfOneChange() throws {
    try a.say("TIMER SET t 1h")
    var next = try cursor(of: a)
    try a.say("TIMER SET t 1h")
    let all = try read(a, after: next)
    #expect(all.lines.count == 2, "\(all.lines)")
    var lines: [String] = []
    for _ in all.lines {
      let page = try read(a, after: next, "LIMIT 1 MATCH timer:*")
      #expect(page.isComplete)
      lines += page.lines
      next = page.cursor
    }
    #expect(lines == all.lines)
  }

  @Test func whatTheStreamHasDroppedIsReportedAsMissing() throws {
    let cursor = try cursor(of: a)
    for key in ["x", "y"] { try a.say("TIMER SET \(key) 1h") }
    b.read()
    servers.entries.removeFirst()
    let page = try read(b, after: cursor)
    #expect(!page.isComplete && page.lines.count == 1)
    #expect(try read(b, after: page.cursor).isComplete)
  }

  @Test(arguments: ["timer:x", "hud:main"])
  func onlyPartitionsOfOnesOwnChannelsCount(channel: String) throws {
    let cursor = try cursor(of: a)
    for key in ["x", "y"] { try a.say("TIMER SET \(key) 1h") }
    servers.entries.removeFirst()
    #expect(try isComplete(a, after: cursor, channel) == .boolean(channel == "hud:main"))
  }

  @Test(arguments: ["timer:x", #"hud:m\ain"#, "hud:*"])
  func onlyPartitionsOfPatternsForOneChannelCount(pattern: String) throws {
    let cursor = try cursor(of: a)
    for key in ["x", "y"] { try a.say("TIMER SET \(key) 1h") }
    servers.entries.removeFirst()
    let page = try read(a, after: cursor, "MATCH \(pattern)")
    #expect(page.isComplete == (pattern == #"hud:m\ain"#))
  }

  @Test func aSnapshotHasThePositionUpToWhichItIncludesEvents() throws {
    let cursor = try cursor(of: a)
    try a.say("TIMER SET k 1h")
    a.read()
    let subscriber = a.counter.open(.resp3)
    a.counter.run(["SUBSCRIBE", "timer:k", "hud:main"], by: subscriber)
    let messages = try a.counter.take(subscriber).map { "\($0)" }
    let snapshots = messages.filter { $0.contains("snapshot") }
    #expect(snapshots.count == 2)
    #expect(snapshots[1].contains("hidden") && !snapshots[1].contains("position"))
    try a.say("TIMER PAUSE k")
    let rest = try read(b, after: "\(cursor)-\(position(snapshots[0]))")
    #expect(rest.isComplete && rest.lines.count == 1)
    #expect(rest.lines.allSatisfy { $0.contains(#""event":"paused""#) })
  }

  /// A server has taken over that lacks an entry, and has another one in its place.
  @Test(arguments: [0, 1]) func anotherEntryInThePlaceOfTheOneReadIsReported(more: Int) throws {
    try a.say("TIMER SET x 1h")
    a.read()
    let cursor = try cursor(of: a)
    servers.entries[0].version.operation += 1
    let c = FleetCounter(servers, daemon: 3)
    for _ in 0..<more { try c.say("TIMER SET y 1h") }
    try c.say("TIMER SET z 1h")
    servers.entries.removeLast()
    #expect(try !read(c, after: cursor).isComplete)
  }

  @Test func aHostThatIsBehindTheCursorWaits() throws {
    try a.say("TIMER SET x 1h")
    a.read()
    let cursor = try cursor(of: a)
    b.counter.run(["EVENTS", "SINCE", cursor, "MATCH", "timer:*"])
    #expect(try b.counter.take().isEmpty)
    b.settle()
    #expect(try page(b.counter.take()[0]).isComplete)
  }

  @Test func entriesThatNoServerHasAreReported() throws {
    try a.say("TIMER SET x 1h")
    a.read()
    let cursor = try cursor(of: a)
    servers.isSilent = true
    b.counter.run(["EVENTS", "SINCE", cursor, "MATCH", "timer:*"])
    b.counter.pass(251)
    #expect(try !page(b.counter.take()[0]).isComplete)
  }

  @Test func aHostWithoutServersSaysSo() throws {
    let cursor = try cursor(of: a)
    b.fleet.disconnected([0])
    b.counter.run(["EVENTS", "SINCE", cursor, "MATCH", "timer:*"])
    b.counter.pass(251)
    #expect("\(try b.counter.take())".contains("UNAVAILABLE"))
  }

  @Test func eventsThatAreNotSharedComeFromTheEventLogOfTheSameHost() throws {
    var settings = FleetSettings()
    settings.kinds = [.timer]
    let a = FleetCounter(servers, daemon: 1, settings)
    let b = FleetCounter(servers, daemon: 2, settings)
    let cursor = try cursor(of: a)
    try a.say("ONCE BEGIN o TTL 1h")
    try a.say("TIMER SET t 1h")
    b.read()
    let all = try read(a, after: cursor, "")
    #expect(all.lines.count == 2 && all.isComplete)
    for options in ["", "MATCH timer:* MATCH *", "MATCH timer:*"] {
      let page = try read(b, after: cursor, options)
      #expect(page.lines.count == 1)
      #expect(page.isComplete == (options == "MATCH timer:*"), "what else could match is elsewhere")
    }
    for channel in ["timer:t", "hud:main"] {
      #expect(try isComplete(b, after: cursor, channel) == .boolean(channel == "timer:t"))
    }
  }

  @Test func aNumberContinuesInTheEventLogOfTheSameHost() throws {
    try a.say("TIMER SET x 1h")
    a.read()
    guard case .integer(let last) = try a.say("EVENTS LAST") else { throw Reply.Malformed(at: 0) }
    try a.say("TIMER SET y 1h")
    a.read()
    let page = try read(a, after: "\(last)")
    #expect(page.lines.count == 1 && page.isComplete)
    try a.say("TIMER SET z 1h")
    #expect(try read(b, after: page.cursor).lines.count == 1)
  }

  @Test func aCursorIsItsText() {
    var cursor = EventCursor(after: .max, of: .max)
    cursor.places = [
      0: .init(epoch: .max, number: 0), 1: .init(epoch: 0, number: 1, version: 2),
      1_023: .init(epoch: 0, number: .max, version: 3, event: 4),
    ]
    #expect(EventCursor(Array(cursor.text.utf8)) == cursor)
    #expect(EventCursor(Array("7".utf8))?.text == "7")
    #expect(EventCursor(Array("1.2-0.1.2-3-0.1.4.5.6".utf8))?.text == "1.3-0.1.4.5.6")
    for text in ["", "-1", "+1", "1.2-", "1.2-0.1", "g", "1.2-1024.1.2", "1.2.3", "1-2.3"] {
      #expect(EventCursor(Array(text.utf8)) == nil, "\(text)")
    }
  }
}

private func position(_ line: String) -> String {
  let rest = line.ranges(of: "position").first.map { line[$0.upperBound...] } ?? ""
  return String(rest.filter { $0.isNumber || $0 == "." })
}
