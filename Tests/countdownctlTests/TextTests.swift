import CountdownClient
import Foundation
import Testing
import Wire

@testable import countdownctl

@Suite struct TextTests {
  @Test(arguments: [
    ("", 0), ("+45", 3), ("你还有58s", 9), ("テスト", 6), ("한국", 4), ("e\u{301}", 1), ("😀", 2),
    ("👨‍👩‍👧", 2), ("❤️", 2), ("ｶ", 1), ("█▏░", 3), ("—…×", 3),
  ])
  func widthIsWhatATerminalTakes(_ text: String, _ columns: Int) {
    #expect(DisplayWidth.of(text) == columns)
  }

  @Test func fittingFillsOrCuts() {
    #expect(DisplayWidth.fit("ab", 4) == "ab  ")
    #expect(DisplayWidth.fit("ab", 4, alignRight: true) == "  ab")
    #expect(DisplayWidth.fit("abcde", 4) == "abc…")
    // A wide character that would only half fit leaves a space.
    #expect(DisplayWidth.fit("你好吗", 5) == "你好…")
    #expect(DisplayWidth.fit("你好吗", 4) == "你… ")
    #expect(DisplayWidth.fit("ab", 0) == "")
  }

  @Test func controlCharactersAreEscaped() {
    #expect("a\u{1B}[2Jb\u{202E}c\u{9B}".printable == "a\\u{1b}[2Jb\\u{202e}c\\u{9b}")
    #expect("+45 你👨‍👩‍👧".printable == "+45 你👨‍👩‍👧")
    #expect("a\nb\r\n\u{61C}".printableLines == "a\nb\\u{d}\n\\u{61c}")
  }

  /// What others can put into a key or a title to change what a terminal shows.
  static let tricks = [
    "\u{1B}[2J", "\u{1B}]0;x\u{7}", "\u{9B}2J", "\u{202E}", "\u{2066}", "\u{2028}",
  ]

  @Test(arguments: tricks)
  func nothingPrintedActsOnTheTerminal(_ trick: String) throws {
    let bytes = Array("a\(trick)".utf8)
    let style = Style(hasColour: true)
    for text in [
      RESPValue.map([.init(.text("a\(trick)"), .text(trick))]).json,
      "{\"a\":\"\(trick)\"}".escapedForJSON,
      RedisText.formatted(.bulkString(bytes)), RedisText.formatted(.simpleString(trick)),
      RedisText.formatted(.verbatim(format: "txt", text: bytes)),
      RedisText.formatted(.map([.init(.bulkString(bytes), .error(trick))])),
      Style.printable("a\(trick)"),
    ] {
      let isPrintable = text.unicodeScalars.allSatisfy { $0.isPrintable }
      #expect(isPrintable, "\(text.debugDescription)")
    }
    #expect(Style.printable(style.red("a") + trick) == style.red("a") + trick.printable)
  }

  @Test func jsonWithEscapesIsTheSameText() throws {
    for trick in Self.tricks {
      let object = RESPValue.object(["a": trick]).json
      let raw = "{\"a\":\"b\"}".replacing("b", with: trick.first == "\u{1B}" ? "b" : trick)
      for text in [object, raw.escapedForJSON] where text.contains("\\u") {
        #expect(
          try JSONDecoder().decode([String: String].self, from: Data(text.utf8))["a"] == trick)
      }
    }
  }

  @Test(arguments: [
    (0, "0 s"), (1, "1 ms"), (850, "850 ms"), (1000, "1 s"), (1001, "1.1 s"), (48_200, "48.2 s"),
    (60_000, "60 s"), (119_999, "2 m"), (120_000, "2 m"), (303_000, "5 m 03 s"),
    (7_199_001, "2 h"), (11_100_000, "3 h 05 m"), (172_800_000, "2 d"),
    (183_600_000, "2 d 03 h"),
  ])
  func durationsAreHumanReadable(_ milliseconds: Int, _ text: String) {
    #expect(Duration.milliseconds(milliseconds).humanText == text)
  }

  @Test func runningTimesKeepTheirTenth() {
    #expect(Duration.seconds(5).runningText == "5.0 s")
    #expect(Duration.milliseconds(4901).runningText == "5.0 s")
    #expect(Duration.seconds(-5).runningText == "0.0 s")
    #expect(Duration.seconds(3600).runningText == "60 m 00 s")
  }

  @Test func durationArgumentsNeedAUnit() throws {
    for (text, milliseconds) in [
      ("0", 0), ("30s", 30_000), ("1h30m", 5_400_000), ("1.5s", 1_500), ("250ms", 250),
    ] {
      #expect(try duration(text) == .milliseconds(milliseconds))
    }
    for bad in ["", "s", "-5", "5 s", "5w", "3651d", "1.5", "30m1h"] {
      #expect(throws: (any Error).self) { try duration(bad) }
    }
    #expect {
      try duration("90")
    } throws: {
      "\($0)".contains("a unit is missing: write 90s or 90ms")
    }
    #expect(try rate("5/10m") == "5/600000ms")
    for bad in ["5", "5/10", "m/10m", "5/10m/2"] {
      #expect(throws: (any Error).self) { try rate(bad) }
    }
  }

  @Test func momentsAreISO8601OrMilliseconds() throws {
    for (text, milliseconds) in [
      ("1795795200000", 1_795_795_200_000), ("2026-11-27T16:00:00Z", 1_795_795_200_000),
      ("2026-11-27t17:00+01:00", 1_795_795_200_000), ("2026-11-27 10:30-0530", 1_795_795_200_000),
      ("2026-11-27T16:00:00.25z", 1_795_795_200_250),
      ("2026-11-27T16:00:00,0001+00", 1_795_795_200_001),
      ("1970-01-01T00:00Z", 0), ("2028-02-29T00:00Z", 1_835_395_200_000),
    ] {
      #expect(try moment(text) == milliseconds, "\(text)")
    }
    for bad in [
      "", "soon", "-1", "2026-11-31T00:00Z", "2026-13-01T00:00Z", "2026-11-27", "2026-11-27T24:00Z",
      "2026-11-27T16:60Z", "2026-11-27T16:00:00.Z", "2026-11-27T16:00ZZ", "2026-11-27T16:00+1",
      "2027-02-29T00:00Z", "1969-12-31T23:59Z",
    ] {
      #expect(throws: (any Error).self, "\(bad)") { try moment(bad) }
    }
    // Without a time zone, it is in that of the machine.
    #expect(try moment("2026-11-27T16:00") % 900_000 == 0)
  }

  @Test(arguments: [
    (["strat", "k"], "unknown command 'strat'. Did you mean 'start'?"),
    (["--socket", "list", "lsit"], "Did you mean 'list'?"),
    (["hud", "--wait", "1s", "shwo"], "Did you mean 'show'? 'countdownctl hud --help' lists all."),
    (["flush", "d"], "Did you mean 'debounce flush'?"),
    (["frobnicate"], "unknown command 'frobnicate'. 'countdownctl --help' lists all."),
  ])
  func misspelledCommandsAreExplained(_ arguments: [String], _ text: String) {
    #expect(UnknownCommand.explanation(of: arguments)?.contains(text) == true)
  }

  @Test(arguments: [["start", "strat"], ["help", "x"], ["timer", "del", "t"], ["--", "x"], []])
  func knownCommandsAreNotExplained(_ arguments: [String]) {
    #expect(UnknownCommand.explanation(of: arguments) == nil)
  }

  @Test func fieldsAreShownForPeople() {
    let view = RESPValue.object([
      "key": "+45", "state": "counting", "generation": 5, "remaining": 48, "remaining_ms": 48_200,
      "retry_after_ms": 48_200, "now_unix_ms": 1, "title": nil, "durable": false,
    ])
    let style = Style(hasColour: false)
    #expect(
      FieldTable.text(view, style: style).split(separator: "\n") == [
        "key          +45", "state        counting", "left         48", "time left    48.2 s",
        "retry after  48.2 s", "durable      no",
      ])
    let all = FieldTable.text(view, style: Style(hasColour: false, showsGenerations: true))
    #expect(all.contains("generation   5"))
  }

  @Test func barsHaveTwoStepsToAColumn() {
    #expect(Bar.text(0, columns: 4) == "────")
    #expect(Bar.text(1, columns: 4) == "━━━━")
    #expect(Bar.text(0.5, columns: 4) == "━━──")
    #expect(Bar.text(0.125, columns: 4) == "╾───")
    #expect(Bar.text(-1, columns: 2) == "──")
    #expect(Bar.text(7, columns: 2) == "━━")
    #expect(Bar.text(.nan, columns: 2) == "──")
    #expect(Bar.text(0.5, columns: 0) == "")
    for step in 0...100 { #expect(Bar.text(Double(step) / 100, columns: 9).count == 9) }
  }

  @Test func tablesLineUp() {
    let columns = Columns([
      .init(title: "KEY", limit: 6), .init(title: "LEFT", alignRight: true), .init(title: "T"),
    ])
    let lines = columns.lines(
      [["你好", "5 s", "x"], ["abcdefgh", "48.2 s", ""]], withTitles: true,
      style: Style(hasColour: false))
    #expect(lines == ["KEY       LEFT  T", "你好       5 s  x", "abcde…  48.2 s  "])
  }

  @Test func narrowTablesLeaveOutColumnsFromTheRight() {
    let columns = Columns([.init(title: "KEY"), .init(title: "LEFT"), .init(title: "TITLE")])
    func lines(_ width: Int) -> [String] {
      columns.lines(
        [["key", "5 s", "Resend"]], withTitles: false, style: Style(hasColour: false), width: width)
    }
    #expect(lines(17) == ["key  5 s   Resend"])
    #expect(lines(16) == ["key  5 s"])
    #expect(lines(9) == ["key  5 s"])
    #expect(lines(8) == ["key"])
    #expect(lines(1) == ["key"])
  }

  @Test func longLinesBreakAtSpacesAndAreIndented() {
    let text = "  ping  \u{1B}[1mp50\u{1B}[0m 1 ms  p99 2 ms"
    #expect(DisplayWidth.wrap(text, 80, indent: 4) == [text])
    #expect(
      DisplayWidth.wrap(text, 18, indent: 4)
        == ["  ping  \u{1B}[1mp50\u{1B}[0m 1 ms ", "    p99 2 ms"])
    #expect(DisplayWidth.wrap("much-too-long", 4, indent: 2) == ["much-too-long"])
  }

  @Test func noColourWithoutATerminal() {
    #expect(Style(hasColour: false).green("ready") == "ready")
    #expect(Style(hasColour: true).green("ready") == "\u{1B}[32mready\u{1B}[0m")
  }

  @Test func repliesLookAsRedisCliPrintsThem() {
    func text(_ text: String) -> RESPValue { .bulkString(Array(text.utf8)) }
    #expect(RedisText.formatted(.integer(5)) == "(integer) 5")
    #expect(RedisText.formatted(.error("ERR no")) == "(error) ERR no")
    #expect(RedisText.formatted(text("a\"\n你")) == #""a\"\n你""#)
    #expect(RedisText.formatted(.bulkString([0xFF, 0x41])) == #""\xffA""#)
    #expect(
      RedisText.formatted(.array([.null, .array([.integer(1), text("x")])]))
        == "1) (nil)\n2) 1) (integer) 1\n   2) \"x\"")
    #expect(
      RedisText.formatted(.map([.init(text("k"), .integer(1)), .init(text("l"), .boolean(true))]))
        == "1# \"k\" => (integer) 1\n2# \"l\" => (true)")
    #expect(
      RedisText.formatted(.map([.init(text("k"), .array([.integer(1), .integer(2)]))]))
        == "1# \"k\" =>\n   1) (integer) 1\n   2) (integer) 2")
    #expect(RedisText.plain(.array([text("a"), .integer(2)])) == Array("a\n2".utf8))
  }

  @Test func wordsAreSplitAsRedisCliSplitsThem() {
    func words(_ line: String) -> [String]? {
      (try? InlineWords.split(line))?.map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(words("  a  bc ") == ["a", "bc"])
    #expect(words("") == [])
    #expect(words(#"x "a b\n\x41\"" ''"#) == ["x", "a b\nA\"", ""])
    #expect(words(#"'it\'s \n'"#) == [#"it's \n"#])
    #expect(words(#""open"#) == nil)
    #expect(words(#""a"b"#) == nil)
  }

  /// The countdown of an event with these fields.
  private func view(_ fields: String) throws -> CountdownView {
    let json = #"{"event":"snapshot","# + fields.trimmingPrefix("{")
    return try #require(CountdownEvent(channel: "countdown:k", message: json.utf8).countdown)
  }

  @Test func answersAreSentences() throws {
    func answer(_ json: String) throws -> String {
      Countdown.answer(try view(json), Style(hasColour: false))
    }
    #expect(
      try answer(
        #"""
        {"key":"+45","state":"counting","generation":5,"accepted":true,"count":60,"every_ms":1000,
        "remaining_ms":60000}
        """#) == "accepted  +45: ready in 60 s")
    #expect(
      try answer(
        #"{"key":"+45","state":"counting","accepted":false,"retry_after_ms":48123}"#)
        == "refused   +45 is in cooldown: try again in 48.2 s")
    #expect(
      try answer(
        #"{"key":"+45","state":"ready","accepted":false,"reason":"window","retry_after_ms":48123}"#)
        == "refused   +45 has reached a limit of its policy: try again in 48.2 s")
    #expect(
      try answer(
        #"""
        {"key":"+45","state":"counting","generation":5,"accepted":true,"count":60,"every_ms":1000,
        "remaining_ms":60000,"channel":"sms"}
        """#) == "accepted  +45 over sms: ready in 60 s")
  }

  @Test func attemptsAreSentences() throws {
    func attempt(_ json: String) throws -> String {
      Countdown.attempt(try view(json), Style(hasColour: false))
    }
    #expect(
      try attempt(
        #"{"key":"k","state":"ready","accepted":true,"attempts_left":4,"expires_in_ms":5000}"#)
        == "accepted  the code of k may be checked; 4 attempts left, valid for 5 s")
    for (reason, words) in [
      ("locked", "was tried too often"), ("expired", "has expired"), ("passed", "was used"),
    ] {
      let text = try attempt(
        #"{"key":"k","state":"ready","accepted":false,"reason":"\#(reason)"}"#)
      #expect(text.hasPrefix("refused   the code of k \(words)"))
    }
  }

  @Test func infoBecomesJSON() {
    let text = "# Server\r\nversion:0.1.0\r\nuptime_s:5\r\n\r\n# Stats\r\nratio:0.5\r\nname:a:b\r\n"
    #expect(
      Info.json(text).json
        == #"{"server":{"version":"0.1.0","uptime_s":5},"stats":{"ratio":0.5,"name":"a:b"}}"#)
  }
}
