import Countdowns
import Testing

@testable import countdownctl

@Suite struct PolicyTextTests {
  private func text(_ change: (inout SendPolicy.Rules) -> Void) throws -> [String] {
    var rules = SendPolicy.Rules()
    change(&rules)
    return PolicyText.lines(
      try SendPolicy(name: "login", rules), style: Style(hasColour: false))
  }

  @Test func explainsAPolicyWithAllRules() throws {
    let lines = try text {
      $0.ladder = [.seconds(60), .seconds(120), .seconds(300)]
      $0.windows = [
        .init(limit: 20, length: .days(1)), .init(limit: 5, length: .seconds(600)),
      ]
      $0.channels = ["sms", "sms", "call"]
      $0.validity = .seconds(300)
      $0.attempts = 5
      $0.guesses = .init(limit: 10, length: .days(1))
      $0.refunds = .init(limit: 5, length: .seconds(600))
      $0.title = Array("%m:%02s 后重发".utf8)
      $0.readyTitle = Array("重发验证码".utf8)
    }
    #expect(
      lines == [
        "login", "  1st send (sms): now", "  2nd send (sms): 60 s after the 1st",
        "  3rd send (call): 2 m after the 2nd", "  then none for 24 h after the last one",
        "  at most 5 in any 10 m", "  at most 20 in any 24 h",
        "  after 24 h without a send it starts over with the 1st",
        "  each code is valid for 5 m and may be tried 5 times; earlier codes stay valid after a "
          + "resend",
        "  all codes of a key together may be tried 10 times in any 24 h; then nothing is sent "
          + "either",
        "  at most 5 failed sends are given back in any 10 m",
        "  title during the cooldown: 1:00 后重发",
        "  title when ready: 重发验证码",
      ])
  }

  @Test func explainsPoliciesWithFewRules() throws {
    #expect(
      try text { _ in } == [
        "login", "  1st send: now", "  2nd send and later: 60 s after the one before",
        "  code validity: not set",
      ])
    let lines = try text {
      $0.ladder = [.seconds(30), .seconds(90)]
      $0.validity = .milliseconds(1_500)
      $0.attempts = 1
      $0.onResend = .replace
    }
    #expect(
      lines.dropFirst() == [
        "  1st send: now", "  2nd send: 30 s after the 1st",
        "  3rd send and later: 90 s after the one before",
        "  each code is valid for 1.5 s and may be tried once; a resend makes earlier codes expire",
      ])
  }

  @Test func explainsWhatHostsDoWithoutTheirServers() throws {
    func last(_ unreachable: FleetSettings.Unreachable?) throws -> String? {
      let policy = try SendPolicy(name: "p", SendPolicy.Rules(), unreachable: unreachable)
      return PolicyText.lines(policy, style: Style(hasColour: false)).last
    }
    #expect(try last(nil) == "  code validity: not set")
    #expect(
      try last(.refuse) == "  while a fleet's servers cannot be reached: nothing is sent")
    #expect(
      try last(.local)
        == "  while a fleet's servers cannot be reached: each host decides by what it knows")
  }

  @Test func explainsLimitsAndLockouts() throws {
    var rules = SendPolicy.Rules()
    rules.validity = .seconds(300)
    rules.attempts = 3
    rules.lockout = [.seconds(300), .days(1)]
    rules.limits = ["ip", "prefix", "all"]
    rules.attemptLimits = ["ip"]
    var ip = LimitRules.Rules()
    ip.rate = Throttle.Rate(burst: 10, count: 20, period: .seconds(3_600))
    var prefix = LimitRules.Rules()
    prefix.droppedSuffixLength = 4
    prefix.windows = [.init(limit: 200, length: .seconds(3_600))]
    prefix.passed = .init(least: 20, of: 50, within: .seconds(3_600), block: .seconds(7_200))
    var all = LimitRules.Rules()
    all.isGlobal = true
    all.windows = [.init(limit: 9, length: .seconds(60)), .init(limit: 20, length: .seconds(600))]
    let lines = PolicyText.lines(
      try SendPolicy(name: "p", rules),
      throttles: [
        "ip": try LimitRules(ip), "prefix": try LimitRules(prefix), "all": try LimitRules(all),
      ], style: Style(hasColour: false))
    let expected = """
        once a code was tried too often, nothing is sent for 5 m, then 24 h
        each send counts for ip, for each key that START gives: at most 10 at once, and 20 come \
      back in 60 m
        each send counts for prefix, for all keys that differ only in the last 4 characters: at \
      most 200 in any 60 m
        prefix refuses for 2 h if fewer than 20% of its newest 50 codes of 60 m are entered
        each send counts for all, for everybody together: at most 9 in any 60 s; at most 20 in \
      any 10 m
        each attempt counts for ip, for each key that ATTEMPT gives: at most 10 at once, and 20 \
      come back in 60 m
      """
    #expect(lines.suffix(6).joined(separator: "\n") == expected)
  }

  @Test func writesOrdinals() {
    let ordinals = [1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 111].map { PolicyText.ordinal($0) }
    #expect(
      ordinals == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "111th",
      ])
  }
}
