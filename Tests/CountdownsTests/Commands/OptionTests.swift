import Testing

@testable import Countdowns

/// Errors name the wrong word and say what is allowed.
@Suite struct OptionTests {
  let counter = DispatcherHarness()

  @Test func anUnknownOptionIsNamedInTheErrorWithTheUsage() throws {
    try counter.expectError(
      "COUNTDOWN START k COLOUR red", "ERR unknown option 'COLOUR'", "usage: COUNTDOWN START key")
    try counter.expectError("HUD SHOW s FIRE", "unknown option 'FIRE'", "usage: HUD SHOW screen")
    try counter.expectError("TIMER SET k 1s COUNT 5", "unknown option 'COUNT'")
    try counter.expectError("HUD STATUS s text DELAY 5", "unknown option 'DELAY'")
    #expect(try counter.say("DBSIZE") == .integer(0))
  }

  @Test func anOptionGivenTwiceIsRefusedInAnyCase() throws {
    try counter.expectError("COUNTDOWN START k COUNT 1 count 2", "COUNT is given twice")
    try counter.expectError("COUNTDOWN START k FIRE FIRE", "FIRE is given twice")
    try counter.expectError("HUD DISMISS s LEVEL alert LEVEL alert", "LEVEL is given twice")
  }

  @Test func anOptionWithoutItsValueIsNamedInTheError() throws {
    try counter.expectError("COUNTDOWN START k COUNT", "COUNT needs a value")
    try counter.expectError("TIMER SET k 1s EVERY", "EVERY needs a value")
    try counter.expectError("HUD SHOW s kind", "KIND needs a value")
  }

  @Test func theErrorForABadDurationDescribesAGoodOne() throws {
    for wrong in ["x", "-1", "1.5ms", "1w", "3651d", "1ss", "s", "999999999999999999999"] {
      try counter.expectError(
        "TIMER SET k \(wrong)", "'\(wrong)' is not a duration", "ms, s, m, h or d", "3650d")
    }
    try counter.expectError("COUNTDOWN START k EVERY 0", "EVERY is at least 1ms")
    try counter.expectError("TIMER SET k 1s EVERY 0", "EVERY is at least 1ms")
    try counter.expectError("COUNTDOWN START k COUNT 2 EVERY 3650d", "COUNT times EVERY", "3650d")
  }

  @Test func theErrorForAnIntegerOutOfRangeNamesTheRange() throws {
    for wrong in ["0", "-1", "2147483648", "x", "1.0", "9223372036854775808"] {
      try counter.expectError(
        "COUNTDOWN START k COUNT \(wrong)", "COUNT '\(wrong)'", "from 1 to 2147483647")
    }
    try counter.expectError("TIMER LIST LIMIT 1001", "LIMIT '1001'", "1 to 1000")
    try counter.expectError("TIMER LIST CURSOR -1", "CURSOR '-1'")
    try counter.expectError("TIMER DEL k GENERATION x", "GENERATION 'x'")
  }

  @Test func theErrorForABadChoiceNamesTheChoices() throws {
    try counter.expectError(
      "HUD SHOW s KIND spinner",
      "KIND 'spinner' is not one of loading, progress, info, success, error"
    )
    try counter.expectError("TIMER SET k 1 CLOCK tai", "CLOCK 'tai' is not one of boot, wall")
    try counter.expectError("TIMER SET k 1 OWNER me", "OWNER 'me' is not one of none, connection")
    try counter.expectError("HUD PROGRESS s 1.1", "'1.1' is not a number from 0 to 1")
    try counter.expectError("HUD PROGRESS s nan", "'nan' is not a number from 0 to 1")
  }

  @Test func keysHave1To512BytesAndTextsHaveLimits() throws {
    func error(_ words: [String]) throws -> String { try counter.frames(words)[0].text }
    #expect(try error(["COUNTDOWN", "GET", ""]).contains("1 to 512 bytes"))
    #expect(try error(["TIMER", "GET", String(repeating: "k", count: 513)]).contains("513"))
    #expect(try error(["TIMER", "GET", String(repeating: "k", count: 512)]) == "null")
    let long = String(repeating: "x", count: 4_097)
    #expect(try error(["COUNTDOWN", "START", "k", "META", long]).contains("at most 4096"))
    #expect(try error(["COUNTDOWN", "START", "k", "TOKEN", ""]).contains("TOKEN is empty"))
  }

  @Test func errorsQuoteTheClientsWordsOnOneLineShortened() throws {
    let reply = try counter.frames(["a\r\nb\u{1}" + String(repeating: "x", count: 200)])[0].text
    #expect(reply.hasPrefix(#"ERR unknown command 'a\u{d}\u{a}b\u{1}xxx"#))
    #expect(reply.contains("…"))
  }

  @Test func namesOfCommandsAndOptionsAreCaseInsensitiveANULAtTheEndMakesAnotherName() throws {
    #expect(try counter.say("ping") == .simple("PONG"))
    #expect(try counter.say("countdown Start k cOUNT 3")["count"] == .integer(3))
    #expect(try counter.frames(["PING\0"])[0].text.contains("unknown command"))
    #expect(try counter.frames(["DESTROY"])[0].text.contains("COMMAND LIST"))
    #expect(try counter.frames(["COUNTDOWN"])[0].text.contains("needs one of START, RESEND"))
    #expect(try counter.frames(["HUD", "HIDE"])[0].text.contains("unknown subcommand 'HIDE'"))
  }

  @Test func durationsHaveTheUnitsMsSMHAndD() {
    func parse(_ text: String) -> Int64? {
      DurationText.parse(text.utf8.span)?.microseconds
    }
    let table: [(String, Int64?)] = [
      ("0", 0), ("1", 1_000), ("1500", 1_500_000), ("1500ms", 1_500_000), ("1500MS", 1_500_000),
      ("90s", 90_000_000), ("10m", 600_000_000), ("2h", 7_200_000_000), ("2H", 7_200_000_000),
      ("30d", 2_592_000_000_000), ("3650d", 315_360_000_000_000), ("007s", 7_000_000),
      ("1h30m", 5_400_000_000), ("1d2h3m4s5ms", 93_784_005_000), ("1.5s", 1_500_000),
      ("1H30M", 5_400_000_000), ("1m0.25s", 60_250_000), ("0.001s", 1_000),
      ("2.50h", 9_000_000_000),
      ("3649d24h", 315_360_000_000_000), ("3650d1ms", nil), ("1.5", nil), ("1.5ms", nil),
      ("0.0001s", nil), ("1.s", nil), (".5s", nil), ("1.5h30m", nil), ("30m1h", nil), ("1s1s", nil),
      ("1h30", nil), ("1.0000000s", nil), ("1m s", nil), ("9999999999999999s", nil),
      ("315360000000", 315_360_000_000_000), ("315360000001", nil), ("3651d", nil), ("", nil),
      ("s", nil), ("ms", nil), ("1 s", nil), (" 1s", nil), ("1s ", nil), ("1us", nil), ("1sm", nil),
      ("1mss", nil), ("+1s", nil), ("-1s", nil), ("1e3", nil), ("0x10", nil), ("１s", nil),
      ("9223372036854775807", nil), ("99999999999999999999d", nil), ("1\0", nil), ("1m\0", nil),
    ]
    for (text, expected) in table { #expect(parse(text) == expected, "'\(text)'") }
  }

  @Test func writtenDurationsNeedAUnit() {
    #expect(DurationText.parse(written: "1h30m") == .seconds(5_400))
    #expect(DurationText.parse(written: "0") == .zero)
    for bad in ["90", "007", "5M", "", "1.5"] { #expect(DurationText.parse(written: bad) == nil) }
    #expect(DurationText.isBareNumber("90"))
    #expect(!DurationText.isBareNumber("90s") && !DurationText.isBareNumber(""))
  }
}
