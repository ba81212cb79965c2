import Countdowns
import Testing

@Suite struct TitleTests {
  private func title(_ format: String, _ remaining: Int64, _ milliseconds: Int64 = 0) -> String {
    let text = Title.text(
      Array(format.utf8), remaining: remaining, left: .milliseconds(milliseconds))
    return String(decoding: text, as: UTF8.self)
  }

  @Test func percentDIsTheStepsLeftAndDoublePercentAPercentSign() {
    #expect(title("%ds后重发", 59) == "59s后重发")
    #expect(title("%d of %d", 7) == "7 of 7")
    #expect(title("100%%", 7) == "100%")
    #expect(title("%%d", 7) == "%d")
    #expect(title("%%%d", 7) == "%7")
    #expect(title("", 7) == "")
    #expect(title("%d", 0) == "0")
    #expect(title("%d", Int64(Int32.max)) == "2147483647")
  }

  @Test func minutesAndSecondsAreRoundedUpAndNeverZeroWhileCounting() {
    #expect(title("%m:%02s", 1, 1) == "0:01")
    #expect(title("%m:%02s", 1, 59_000) == "0:59")
    #expect(title("%m:%02s", 1, 59_001) == "1:00")
    #expect(title("%m:%02s", 1, 60_000) == "1:00")
    #expect(title("%m分%02s秒后重发 (%d)", 3, 125_000) == "2分05秒后重发 (3)")
    #expect(title("%m:%02s", 1, 36_000_000) == "600:00")
    #expect(title("%m:%02s", 0, 0) == "0:00")
  }

  @Test func bytesThatAreNotUTF8StayAsTheyAre() {
    let text = Title.text([0xFF, 0x25, 0x64, 0xFE], remaining: 1, left: .zero)
    #expect(text == [0xFF, 0x31, 0xFE])
  }

  @Test func refusesOtherPlaceholdersHalfOfMinutesAndTooLongATitle() {
    func problem(_ format: String) -> String? { Title.problem(Array(format.utf8)) }
    for good in ["", "%d", "%ds", "%%", "100%%%d", "%m:%02s", "%02s %m", "日本 %d"] {
      #expect(problem(good) == nil, "\(good)")
    }
    for bad in ["%", "50% off", "%s", "%@", "%2d", "%02d", "%D", "wait%", "%%%", "% d"] {
      #expect(problem(bad)?.contains("%m:%02s") == true, "\(bad)")
    }
    #expect(problem("%m")?.contains("need each other") == true)
    #expect(problem("%02s")?.contains("need each other") == true)
    #expect(problem(String(repeating: "x", count: 1_024)) == nil)
    #expect(problem(String(repeating: "x", count: 1_025))?.contains("1024") == true)
  }
}

@Suite struct BlockingRulesTests {
  let rules = BlockingRules(paths: ["/api/v1/orders", "https://host.example/api/pay/"])

  private func blocks(_ url: String) -> Bool { rules.verdict(url).rule != nil }

  @Test func exactPathsRelativeToTheApiBlock() {
    #expect(blocks("https://host.example/base/api/v1/orders"))
    #expect(blocks("https://host.example/api/pay?amount=1#x"))
    #expect(blocks("/api/pay"))
    #expect(!blocks("/api/pay/now"))
    #expect(!blocks("/api/v1/orders/7"))
    #expect(!blocks("https://host.example/pay"))
  }

  @Test func theLastApiMarkerCountsAndASlashAtTheEndDoesNot() {
    #expect(blocks("https://host.example/api/gateway/api/pay"))
    #expect(!blocks("https://host.example/api/pay/api/list"))
    #expect(blocks("/api/pay/"))
    #expect(blocks("/api/pay//?x=1"))
    #expect(rules.verdict("https://host.example/api/v2/api/").path == "/api/v2/api")
    #expect(rules.verdict("/list/").path == "/list")
  }

  @Test func aVerdictNamesThePathOrTheWordThatBlocksAndTheMask() {
    let rules = BlockingRules(paths: ["/api/pay"], verbs: ["Submit"], mask: .black)
    #expect(rules.verdict("/api/pay/") == .init(path: "/api/pay", rule: "/api/pay", mask: .black))
    #expect(
      rules.verdict("/api/submitOrder?id=1")
        == .init(path: "/api/submitOrder", rule: "Submit", mask: .black))
    #expect(rules.verdict("/api/list") == .init(path: "/api/list", rule: nil, mask: .none))
  }

  @Test(arguments: BlockingRules().verbs)
  func verbsInTheLastPathSegmentBlock(_ verb: String) {
    #expect(blocks("https://host.example/api/user/\(verb)Thing"))
    #expect(blocks("https://host.example/api/user/thing\(verb)"))
    #expect(blocks("/api/\(verb.lowercased())-thing"))
    #expect(blocks("/api/user/\(verb.uppercased())?x=1"))
    #expect(blocks("/api/user/\(verb)/"))
    #expect(!blocks("/api/\(verb)/list"))
    #expect(!blocks("/api/\(verb.lowercased())rness"))
  }

  @Test func aVerbAfterAnAcronymIsASeparateWord() {
    #expect(blocks("/api/user/SMSSend"))
    #expect(blocks("/api/user/getSMSCheckCode"))
    #expect(!blocks("/api/user/SENDER"))
  }

  @Test func wordsAreComparedWholeAddressIsNotAddSettingsIsNotSet() {
    #expect(!blocks("/api/user/GetAddress"))
    #expect(!blocks("/api/user/Settings"))
    #expect(!blocks("/api/user/list?action=Update"))
    #expect(!blocks("/api/user/list#Update"))
    #expect(!blocks(""))
    #expect(!blocks("/"))
  }

  @Test func levelsRiseFromNormalOverStatusbarToAlert() {
    #expect(Level.normal < .statusbar)
    #expect(Level.statusbar < .alert)
  }
}

@Suite struct IntervalTests {
  @Test func millisecondsAreRoundedUpNever0WhileAnythingIsLeft() {
    #expect(Interval.zero.millisecondsRoundedUp == 0)
    #expect(Interval(microseconds: 1).millisecondsRoundedUp == 1)
    #expect(Interval(microseconds: 999).millisecondsRoundedUp == 1)
    #expect(Interval(microseconds: 1_000).millisecondsRoundedUp == 1)
    #expect(Interval(microseconds: 1_001).millisecondsRoundedUp == 2)
  }

  @Test func sumsOfAFewOfTheLongestDoNotOverflow() {
    let far = Instant(microseconds: 0) + .longest + .longest + .longest
    #expect(far - Instant(microseconds: 0) == .longest * 3)
    #expect(Interval.longest == .seconds(315_360_000))
  }
}
