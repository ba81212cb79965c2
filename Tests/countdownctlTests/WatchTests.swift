import CountdownClient
import Synchronization
import Testing

@testable import countdownctl

@Suite struct WatchTests {
  static let plain = Style(hasColour: false)

  static func event(_ channel: String, _ json: String) throws -> CountdownEvent {
    try CountdownEvent(channel: channel, message: Array(json.utf8))
  }

  /// A countdown of 60 × 1 s that has so many milliseconds left.
  static func counting(_ key: String, _ name: String = "snapshot", left: Int) throws
    -> CountdownEvent
  {
    try event(
      "countdown:\(key)",
      #"""
      {"event":"\#(name)","key":"\#(key)","generation":1,"state":"counting","remaining_ms":\#(left),
      "deadline_unix_ms":\#(1_000_000 + left),"now_unix_ms":1000000,"count":60,"every_ms":1000}
      """#)
  }

  static func ready(_ key: String) throws -> CountdownEvent {
    try event(
      "countdown:\(key)",
      #"{"event":"ready","key":"\#(key)","generation":1,"state":"ready","title":"again"}"#)
  }

  static func content(_ events: CountdownEvent...) -> WatchContent {
    var content = WatchContent()
    for event in events { content.board.apply(event, at: .zero) }
    return content
  }

  /// The whole picture.
  func picture(
    _ content: inout WatchContent, at now: Duration, columns: Int = 80, rows: Int = 24
  ) -> [String] {
    let size = Terminal.Size(columns: columns, rows: rows)
    content.prepare(at: now, size: size)
    return content.lines(at: now, size: size, style: Self.plain)
  }

  /// The lines of entities.
  func lines(
    _ content: inout WatchContent, at now: Duration, columns: Int = 80, rows: Int = 24
  ) -> [String] {
    picture(&content, at: now, columns: columns, rows: rows)
      .dropFirst(2).dropLast().filter { !$0.isEmpty }
  }

  // MARK: The board

  @Test func timeLeftFollowsTheDeadlineWithoutEvents() throws {
    var content = Self.content()
    content.board.apply(try Self.counting("k", left: 60_000), at: .seconds(100))
    #expect(content.board.lines["countdown:k"]?.left(at: .seconds(100)) == .seconds(60))
    #expect(content.board.lines["countdown:k"]?.left(at: .seconds(112)) == .seconds(48))
    #expect(lines(&content, at: .milliseconds(112_050))[0].contains(" 48.0 s "))
    #expect(lines(&content, at: .seconds(500))[0].contains(" 0.0 s "))
  }

  @Test func picturesChangeTenTimesASecondOnlyWhileASmallTimeRuns() throws {
    var content = Self.content()
    _ = picture(&content, at: .zero)
    #expect(content.pause(at: .zero) == .seconds(1))
    content.board.apply(try Self.counting("k", left: 200_000), at: .zero)
    _ = picture(&content, at: .zero)
    #expect(content.pause(at: .zero) == .seconds(1))
    #expect(content.pause(at: .seconds(100)) == .milliseconds(100))
    #expect(content.pause(at: .seconds(300)) == .seconds(1), "it waits for the event now")
  }

  @Test func readyStaysAWhileAndGoes() throws {
    var content = Self.content(try Self.counting("k", left: 1000))
    content.board.apply(try Self.ready("k"), at: .seconds(1))
    let line = lines(&content, at: .seconds(1))[0]
    #expect(line.contains("ready") && line.contains("again"))
    content.board.apply(try Self.ready("k"), at: .seconds(5))
    #expect(lines(&content, at: .milliseconds(5_999)).count == 1)
    _ = picture(&content, at: .seconds(6))
    #expect(content.board.lines.isEmpty, "told again, it does not stay longer")
    #expect(content.board.counts[.countdown] == 0)
  }

  @Test func onlyTheLastFiveThatEndedAreShown() throws {
    var content = Self.content()
    for key in 1...9 {
      content.board.apply(try Self.counting("k\(key)", left: 1000), at: .zero)
      content.board.apply(try Self.ready("k\(key)"), at: .seconds(1))
    }
    let shown = lines(&content, at: .seconds(1)).map { $0.split(separator: " ")[1] }
    #expect(shown == ["k5", "k6", "k7", "k8", "k9"])
  }

  @Test func aCountdownThatIsStartedAgainCountsOnce() throws {
    var content = Self.content(try Self.counting("k", left: 1000))
    content.board.apply(try Self.ready("k"), at: .seconds(1))
    content.board.apply(try Self.counting("k", "started", left: 60_000), at: .seconds(2))
    #expect(lines(&content, at: .seconds(2)).count == 1)
    #expect(lines(&content, at: .seconds(10))[0].contains("counting"))
    #expect(content.board.counts[.countdown] == 1)
  }

  @Test func cancelledStaysAWhileAndIdleGoesAtOnce() throws {
    var content = Self.content(
      try Self.counting("a", left: 1000), try Self.counting("b", left: 1000),
      try Self.event("countdown:a", #"{"event":"cancelled","key":"a","reason":"cancelled"}"#),
      try Self.event("countdown:b", #"{"event":"snapshot","key":"b","state":"idle"}"#))
    let shown = lines(&content, at: .zero)
    #expect(shown.count == 1 && shown[0].contains("cancelled"))
  }

  @Test func theSoonestComesFirst() throws {
    var content = Self.content(
      try Self.counting("late", left: 50_000), try Self.counting("soon", left: 5_000),
      try Self.counting("middle", left: 20_000))
    func keys(_ content: inout WatchContent, at now: Duration) -> [Substring] {
      lines(&content, at: now).map { $0.split(separator: " ")[1] }
    }
    #expect(keys(&content, at: .zero) == ["soon", "middle", "late"])
    content.board.apply(try Self.counting("late", "retimed", left: 1_000), at: .zero)
    content.board.apply(
      try Self.event(
        "countdown:soon",
        #"{"event":"paused","key":"soon","state":"paused","generation":1,"remaining_ms":5000}"#),
      at: .zero)
    #expect(keys(&content, at: .zero) == ["late", "middle", "soon"], "what is paused comes last")
  }

  @Test func theOrderIsTheSameForFewChangesAndMany() throws {
    var content = Self.content()
    for key in 0..<500 {
      content.board.apply(try Self.counting("k\(key)", left: 1 + key * 7919 % 60_000), at: .zero)
    }
    content.board.sort()
    for key in stride(from: 0, to: 500, by: 9) {
      content.board.apply(try Self.counting("k\(key)", left: 1 + key * 31 % 60_000), at: .zero)
    }
    content.board.sort()
    let order = content.board.order
    #expect(order == order.sorted() && Set(order.map(\.id)).count == 500)
    content.board.filter(by: "")
    #expect(content.board.order == order)
  }

  @Test func manyChangesAreMergedWithoutSortingTheRest() {
    let before = (0..<10_000).map { Counted($0 * 2) }
    let old = stride(from: 0, to: 10_000, by: 20).map { before[$0] }
    let new = (0..<500).map { Counted($0 * 40 + 1) }
    Counted.comparisons.withLock { $0 = 0 }
    let after = before.replacing(old + [Counted(30_001)], with: new)
    #expect(Counted.comparisons.withLock(\.self) < 4 * before.count)
    let kept = Set(before.map(\.value)).subtracting(old.map(\.value))
    #expect(after.map(\.value) == (kept + new.map(\.value)).sorted())
  }

  /// A number that counts how often two are compared.
  private struct Counted: Comparable {
    static let comparisons = Mutex(0)
    let value: Int

    init(_ value: Int) { self.value = value }
    static func < (one: Counted, other: Counted) -> Bool {
      comparisons.withLock { $0 += 1 }
      return one.value < other.value
    }
  }

  @Test func eachKindHasALine() throws {
    let events = [
      try Self.counting("c", left: 30_000),
      try Self.event(
        "hud:main",
        #"""
        {"event":"updated","key":"main","state":"visible","level":"normal","kind":"progress",
        "status":"Loading","fraction":0.5,"remaining_ms":null}
        """#),
      try Self.event(
        "timer:tea",
        #"{"event":"set","key":"tea","state":"running","remaining_ms":4000,"payload":"ready!"}"#),
      try Self.event(
        "throttle:ip",
        #"""
        {"event":"accepted","key":"ip","state":"available","limit":5,"remaining":4,
        "reset_after_ms":9000}
        """#),
      try Self.event(
        "once:pay", #"{"event":"done","key":"pay","state":"done","result":"ok","remaining_ms":1}"#),
      try Self.event(
        "gate:s9", #"{"event":"pending","key":"s9","state":"pending","action":"buy"}"#),
      try Self.event(
        "debounce:q", #"{"event":"snapshot","key":"q","state":"waiting","remaining_ms":300}"#),
      try Self.event(
        "scope:app", #"{"event":"opened","key":"app","state":"open","parent":"root"}"#),
      try Self.event(
        "nav:main",
        #"""
        {"event":"snapshot","key":"main","state":"settled","page":"details","depth":2,
        "pages":["home","details"]}
        """#),
      try Self.event(
        "page:orders",
        #"{"event":"loaded","key":"orders","state":"content","items":12,"visible":true}"#),
    ]
    var content = Self.content()
    for event in events { content.board.apply(event, at: .zero) }
    let shown = lines(&content, at: .zero, columns: 120)
    let expected: [(String, String, String, String)] = [
      ("countdown", "c", "counting", "30.0 s"), ("hud", "main", "visible", "Loading"),
      ("timer", "tea", "running", "ready!"), ("throttle", "ip", "available", "4 of 5 left"),
      ("once", "pay", "done", "ok"), ("gate", "s9", "pending", "buy"),
      ("debounce", "q", "waiting", "0.3 s"), ("scope", "app", "open", "in root"),
      ("nav", "main", "settled", "details, 2 pages"), ("page", "orders", "content", "12 items"),
    ]
    #expect(shown.count == expected.count)
    for (kind, key, state, text) in expected {
      let line = shown.first { $0.hasPrefix(kind + " ") } ?? ""
      #expect(
        line.contains(" \(key) ") && line.contains(" \(state) ") && line.contains(text), "\(line)")
    }
    #expect(
      picture(&content, at: .zero, columns: 150)[0].hasPrefix("10 entities  countdown 1  hud 1"))
  }

  @Test func timersFireAndStacksEnd() throws {
    var content = Self.content(
      try Self.event(
        "timer:tea", #"{"event":"set","key":"tea","state":"running","remaining_ms":4}"#),
      try Self.event("timer:tea", #"{"event":"fired","key":"tea","payload":"ready!","fired":1}"#),
      try Self.event(
        "nav:m", #"{"event":"will-appear","key":"m","state":"settled","page":"home","depth":1}"#),
      try Self.event("nav:m", #"{"event":"dismissed","key":"m","state":"empty","page":"home"}"#),
      try Self.event("scope:a", #"{"event":"opened","key":"a","state":"open"}"#),
      try Self.event("scope:a", #"{"event":"emitted","key":"a","name":"tap"}"#),
      try Self.event("scope:a", #"{"event":"closed","key":"a","state":"closed"}"#))
    let shown = lines(&content, at: .zero)
    #expect(shown.count == 3)
    #expect(shown.contains { $0.contains("tea") && $0.contains("fired") && $0.contains("ready!") })
    #expect(shown.contains { $0.hasPrefix("nav ") && $0.contains("empty") })
    #expect(shown.contains { $0.hasPrefix("scope ") && $0.contains("closed") })
  }

  // MARK: The picture

  @Test func picturesFitIntoAnyTerminal() throws {
    var content = Self.content()
    for (index, key) in ["你好世界你好世界", "b", String(repeating: "x", count: 90), "d"].enumerated() {
      content.board.apply(try Self.counting(key, left: 60_000 * (index + 1)), at: .zero)
    }
    for columns in 1...210 {
      for rows in [1, 2, 3, 4, 50] {
        let lines = picture(&content, at: .seconds(1), columns: columns, rows: rows)
        #expect(lines.count <= rows)
        for line in lines { #expect(DisplayWidth.of(line) <= columns, "\(columns): \(line)") }
      }
    }
  }

  @Test func titlesAndBarsTakeTheWholeWidth() throws {
    var content = Self.content(try Self.counting("k", left: 30_000))
    for columns in [40, 80, 200] {
      #expect(DisplayWidth.of(lines(&content, at: .zero, columns: columns)[0]) == columns)
    }
    #expect(lines(&content, at: .zero, columns: 200)[0].contains(String(repeating: "━", count: 50)))
  }

  @Test func keysScrollAndFilter() throws {
    var content = Self.content()
    for key in 10..<60 {
      content.board.apply(try Self.counting("k\(key)", left: key * 1000), at: .zero)
    }
    func shown(_ keys: [Key]) -> (first: Substring, footer: String) {
      for key in keys {
        let stays = content.press(key)
        #expect(stays)
      }
      let picture = picture(&content, at: .seconds(1), rows: 13)
      return (picture[2].split(separator: " ").dropFirst().first ?? "", picture[12])
    }
    #expect(shown([]).first == "k10")
    #expect(shown([]).footer.hasSuffix("1–10 of 50"))
    #expect(shown([.pageDown, .down]).first == "k21")
    #expect(shown([.end]).footer.hasSuffix("41–50 of 50"))
    #expect(shown([.end, .down, .up]).first == "k49")
    #expect(shown([.home]).first == "k10")
    #expect(shown([.character("/"), .character("K"), .character("3")]).first == "k30")
    #expect(shown([]).footer.hasPrefix("/K3█"))
    #expect(shown([.character("q")]).footer.hasPrefix("/K3q█"), "part of the filter, not the end")
    #expect(shown([.backspace, .enter]).footer.hasPrefix("/k3  Esc shows all"))
    #expect(shown([.escape]).first == "k10")
    let stays = content.press(.character("q"))
    #expect(!stays)
  }

  @Test func aFilterFollowsChanges() throws {
    var content = Self.content(try Self.counting("a", left: 9_000))
    content.board.filter(by: "paused")
    #expect(lines(&content, at: .seconds(1)) == ["Nothing matches 'paused'."])
    content.board.apply(
      try Self.event(
        "countdown:a",
        #"{"event":"paused","key":"a","state":"paused","generation":1,"remaining_ms":5000}"#),
      at: .seconds(1))
    #expect(lines(&content, at: .seconds(1))[0].hasPrefix("countdown  a"))
    content.board.apply(try Self.counting("a", "resumed", left: 5_000), at: .seconds(1))
    #expect(lines(&content, at: .seconds(1)) == ["Nothing matches 'paused'."])
  }

  @Test func anEmptyBoardSaysWhatToDo() {
    var content = Self.content()
    #expect(lines(&content, at: .zero).isEmpty, "snapshots may still come")
    #expect(lines(&content, at: .seconds(1))[0].contains("countdownctl start KEY"))
  }

  @Test func onlyTicksOfWhatIsShownMatter() throws {
    var content = Self.content()
    for key in 10..<60 {
      content.board.apply(try Self.counting("k\(key)", left: key * 1000), at: .zero)
    }
    _ = picture(&content, at: .zero, rows: 13)
    #expect(content.shown.contains("countdown:k19"))
    #expect(!content.shown.contains("countdown:k20"))
  }

  // MARK: Keys and characters

  @Test func keysAreReadFromBytes() {
    func keys(_ text: String) -> [Key] { Key.parse(Array(text.utf8)) }
    #expect(keys("q/é") == [.character("q"), .character("/"), .character("é")])
    #expect(keys("\u{1B}[A\u{1B}OB\u{1B}[5~\u{1B}[6~") == [.up, .down, .pageUp, .pageDown])
    #expect(keys("\u{1B}[H\u{1B}[F\u{1B}[1~\u{1B}[4~") == [.home, .end, .home, .end])
    #expect(keys("\u{1B}") == [.escape])
    #expect(keys("\r\u{7F}\u{15}") == [.enter, .backspace, .control("u")])
    #expect(keys("\u{1B}[15~\u{1B}[1;5Cx") == [.character("x")], "other keys are passed over")
  }

  @Test func asciiTakesAsManyColumns() {
    let text = "━╾─ 你好 ‖ 3 × 5 µs … – ↑█"
    #expect(text.inASCII == "==- ???? | 3 x 5 us ~ - ^_")
    #expect(DisplayWidth.of(text.inASCII) == DisplayWidth.of(text))
  }

  @Test func theFirstLocaleVariableThatIsSetTellsTheEncoding() {
    func showsUnicode(_ variables: [String: String]) -> Bool {
      Terminal.showsUnicode { variables[$0] }
    }
    #expect(showsUnicode(["LANG": "en_US.UTF-8"]))
    #expect(showsUnicode(["LC_CTYPE": "C.utf8", "LANG": "C"]))
    #expect(!showsUnicode(["LC_ALL": "C", "LANG": "en_US.UTF-8"]))
    #expect(!showsUnicode([:]))
  }

  // MARK: Arguments and event lines

  @Test func namesBecomeChannelsAndPatterns() {
    #expect(WatchTarget(names: [], kinds: []).channels == [.everything])
    #expect(WatchTarget(names: [], kinds: ["hud"]).channels == [.all(.hud)])
    #expect(WatchTarget(names: ["a"], kinds: []).channels == [.countdown("a")])
    let both = WatchTarget(
      names: ["a", "b*", "hud:main", "timer:?"], kinds: ["countdown", "timer"])
    #expect(
      both.channels == [
        .countdown("a"), .timer("a"), .matching(.countdown, "b*"), .matching(.timer, "b*"),
        .hud("main"), .matching(.timer, "?"),
      ])
  }

  @Test func eventsAreLinesForPipes() throws {
    let tick = try Self.event(
      "countdown:+45",
      #"{"event":"tick","key":"+45","generation":5,"state":"counting","remaining":58,"title":"58s"}"#
    )
    var style = Style(hasColour: false)
    let line = EventLine.text(tick, time: "12:00", style: style)
    #expect(line == "12:00  countdown:+45  tick  58 left  58s")
    let fired = try Self.event(
      "timer:t\u{1B}",
      #"{"event":"fired","key":"t","generation":2,"fired":3,"missed":1,"payload":"p","late_us":9}"#)
    let plain = "-  timer:t\\u{1b}  fired  × 3  1 missed  p  9 µs late"
    #expect(EventLine.text(fired, time: "-", style: style) == plain)
    style.showsGenerations = true
    #expect(EventLine.text(fired, time: "-", style: style) == plain + "  generation 2")
  }

  @Test(arguments: [
    (
      "hud:checkout",
      #"{"event":"shown","key":"checkout","generation":1,"state":"visible","kind":"progress","#
        + #""fraction":0.5,"status":"Paying","holds":["a","b"],"end":null}"#,
      "shown  visible  progress  50 %  Paying  2 holds"
    ),
    (
      "timer:tea",
      #"{"event":"set","key":"tea","generation":1,"state":"running","remaining_ms":240000,"#
        + #""every_ms":60000}"#,
      "set  running  due in 4 m  every 60 s"
    ),
    (
      "scope:app",
      #"{"event":"opened","key":"app","generation":1,"state":"open","parent":"root","#
        + #""remaining_ms":3600000}"#,
      "opened  open  below root  lease of 60 m left"
    ),
    (
      "nav:main",
      #"{"event":"appear","key":"main","generation":1,"page":"home","first":true,"last":true,"#
        + #""style":"presented","bar_changed":true,"bar":"hidden","fraction":0.25}"#,
      "appear  home  first  last  presented  bar hidden  25 %"
    ),
    (
      "page:orders",
      #"{"event":"failed","key":"orders","generation":1,"state":"error","items":12,"#
        + #""message":"no network"}"#,
      "failed  error  12 items  no network"
    ),
  ])
  func eachKindHasItsDetails(channel: String, json: String, line: String) throws {
    let text = EventLine.text(
      try Self.event(channel, json), time: "-", style: Style(hasColour: false))
    #expect(text == "-  \(channel)  \(line)")
  }
}
