import CountdownClient
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
      "countdown:\(key)", #"{"event":"ready","key":"\#(key)","state":"ready","title":"again"}"#)
  }

  func draw(_ board: LiveBoard, at now: Duration, columns: Int = 60, rows: Int = 20) -> [String] {
    board.draw(at: now, columns: columns, rows: rows, style: Self.plain)
  }

  @Test func timeLeftFollowsTheDeadlineWithoutEvents() throws {
    var board = LiveBoard()
    board.apply(try Self.counting("k", left: 60_000), at: .seconds(100))
    #expect(board.lines["countdown:k"]?.left(at: .seconds(100)) == .seconds(60))
    #expect(board.lines["countdown:k"]?.left(at: .seconds(112)) == .seconds(48))
    #expect(draw(board, at: .milliseconds(112_050))[0].hasSuffix("48.0 s"))
    #expect(draw(board, at: .milliseconds(112_050))[0].contains("48s"))
    #expect(draw(board, at: .seconds(500))[0].hasSuffix("0.0 s"))
  }

  @Test func framesAreDrawnOnlyWhileSomethingMoves() throws {
    var board = LiveBoard()
    #expect(board.nextFrame(at: .zero) == nil)
    board.apply(try Self.counting("k", left: 1000), at: .zero)
    #expect(board.nextFrame(at: .zero) == LiveBoard.frame)
    #expect(board.nextFrame(at: .seconds(2)) == nil, "it waits for the event now")
    board.apply(try Self.ready("k"), at: .seconds(2))
    #expect(board.nextFrame(at: .seconds(2)) == LiveBoard.linger)
    board.apply(
      try Self.event(
        "countdown:p", #"{"event":"paused","key":"p","state":"paused","remaining_ms":5000}"#),
      at: .seconds(7))
    board.expire(at: .seconds(7))
    #expect(board.order == ["countdown:p"])
    #expect(board.nextFrame(at: .seconds(7)) == nil)
  }

  @Test func readyStaysAWhileAndGoes() throws {
    var board = LiveBoard()
    board.apply(try Self.counting("k", left: 1000), at: .zero)
    board.apply(try Self.ready("k"), at: .seconds(1))
    #expect(draw(board, at: .seconds(1))[0].hasSuffix("ready"))
    #expect(draw(board, at: .seconds(1))[0].contains("again"))
    board.apply(try Self.ready("k"), at: .seconds(5))
    board.expire(at: .seconds(6))
    #expect(board.lines.isEmpty, "told again, it does not stay longer")
  }

  @Test func cancelledAndIdleGo() throws {
    var board = LiveBoard()
    board.apply(try Self.counting("a", left: 1000), at: .zero)
    board.apply(try Self.counting("b", left: 1000), at: .zero)
    board.apply(
      try Self.event("countdown:a", #"{"event":"cancelled","key":"a","reason":"cancelled"}"#),
      at: .zero)
    board.apply(
      try Self.event("countdown:b", #"{"event":"snapshot","key":"b","state":"idle"}"#), at: .zero)
    #expect(board.order == ["countdown:a"])
    #expect(draw(board, at: .zero)[0].hasSuffix("cancelled"))
  }

  @Test func linesFitIntoAnyTerminal() throws {
    var board = LiveBoard()
    for (index, key) in ["你好世界你好世界", "b", String(repeating: "x", count: 90), "d"].enumerated() {
      board.apply(try Self.counting(key, left: 60_000 * (index + 1)), at: .zero)
    }
    for columns in 1...140 {
      for rows in [1, 2, 4, 50] {
        let lines = draw(board, at: .zero, columns: columns, rows: rows)
        #expect(lines.count <= rows)
        for line in lines {
          #expect(DisplayWidth.of(line) <= columns, "\(columns): \(line)")
        }
      }
    }
    #expect(draw(board, at: .zero, rows: 3).last == "… and 2 more")
  }

  @Test func hudsAndTimersHaveLines() throws {
    var board = LiveBoard()
    board.apply(
      try Self.event(
        "hud:main",
        #"""
        {"event":"updated","key":"main","state":"visible","level":"normal","kind":"progress",
        "status":"Loading","fraction":0.5,"remaining_ms":null}
        """#), at: .zero)
    board.apply(
      try Self.event(
        "timer:tea",
        #"{"event":"set","key":"tea","state":"running","remaining_ms":4000,"every_ms":null}"#),
      at: .zero)
    let lines = draw(board, at: .seconds(1))
    #expect(lines[0].contains("Loading") && lines[0].hasSuffix("visible"))
    #expect(lines[1].hasSuffix("3.0 s"))
    board.apply(
      try Self.event("timer:tea", #"{"event":"fired","key":"tea","payload":"ready!","fired":1}"#),
      at: .seconds(4))
    #expect(draw(board, at: .seconds(4))[1].hasSuffix("fired"))
    #expect(draw(board, at: .seconds(4))[1].contains("ready!"))
  }

  @Test func namesBecomeChannelsAndPatterns() {
    let all = WatchTarget(names: [], kinds: ["countdown"])
    #expect(all.patterns == ["countdown:*"] && all.channels.isEmpty)
    let both = WatchTarget(
      names: ["a", "b*", "hud:main", "timer:?"], kinds: ["countdown", "timer"])
    #expect(both.channels == ["countdown:a", "timer:a", "hud:main"])
    #expect(both.patterns == ["countdown:b*", "timer:b*", "timer:?"])
  }

  @Test func eventsAreLinesForPipes() throws {
    let tick = try Self.event(
      "countdown:+45",
      #"{"event":"tick","key":"+45","generation":5,"state":"counting","remaining":58,"title":"58s"}"#
    )
    #expect(EventLine.text(tick, time: "12:00") == "12:00  countdown:+45  tick  58 left  58s")
    let fired = try Self.event(
      "timer:t\u{1B}",
      #"{"event":"fired","key":"t","generation":2,"fired":3,"missed":1,"payload":"p","late_us":9}"#)
    #expect(
      EventLine.text(fired, time: "-")
        == "-  timer:t\\u{1b}  fired  × 3  1 missed  p  9 µs late  generation 2")
  }
}
