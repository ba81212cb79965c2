import CountdownConfiguration
import Countdowns
import Testing

/// The `policies:` section: its settings and its errors.
@Suite struct PolicyTests {
  private let whole = """
    policies:
      login:
        ladder: [60s, 2m, 5m]
        windows: [5/10m, "20/1d"]
        channels: [sms, sms, call]
        validity: 5m
        attempts: 5
        on-resend: replace
        title: "%ds后重发"
        ready-title: "50% more"
      reset-1.2_b: {count: 3, every: 20s, unreachable: local}
      nothing: {}
    """

  private func problems(_ yaml: String) -> [String] {
    var configuration = Configuration()
    let problems = configuration.merge(yaml: yaml, file: "f").map(\.description)
    #expect(configuration.engine.policies.isEmpty || problems.isEmpty)
    return problems
  }

  /// Of the policy `p`.
  private func problem(_ rules: String) -> String {
    let found = problems("policies: {p: {\(rules)}}")
    #expect(found.count == 1, "\(found)")
    return found.first.map { String($0.dropFirst("f:1: policies.p.".count)) } ?? ""
  }

  @Test func aPolicyIsReadWhole() throws {
    let policies = try Configuration(yaml: whole, file: "f").engine.policies
    #expect(policies.keys.sorted() == ["login", "nothing", "reset-1.2_b"])
    var rules = SendPolicy.Rules()
    rules.ladder = [.seconds(60), .seconds(120), .seconds(300)]
    rules.windows = [
      .init(limit: 5, length: .seconds(600)), .init(limit: 20, length: .days(1)),
    ]
    rules.channels = ["sms", "sms", "call"]
    rules.validity = .seconds(300)
    rules.attempts = 5
    rules.onResend = .replace
    rules.title = Array("%ds后重发".utf8)
    rules.readyTitle = Array("50% more".utf8)
    #expect(policies["login"]?.rules == rules)
    #expect(policies["login"]?.name == "login")
    #expect(policies["reset-1.2_b"]?.cooldown(after: 9) == .seconds(60))
    #expect(policies["reset-1.2_b"]?.unreachable == .local)
    #expect(policies["nothing"]?.rules == SendPolicy.Rules())
    #expect(policies["nothing"]?.unreachable == nil)
  }

  @Test func policiesAreListedAsTheyCouldBeReadBack() throws {
    let settings = try Configuration(yaml: whole, file: "f").settings
    let values = Dictionary(uniqueKeysWithValues: settings.map { ($0.name, $0.value) })
    #expect(values["policies.login.ladder"] == "1m,2m,5m")
    #expect(values["policies.login.windows"] == "5/10m,20/1d")
    #expect(values["policies.login.channels"] == "sms,sms,call")
    #expect(values["policies.login.on-resend"] == "replace")
    #expect(values["policies.login.count"] == nil)
    #expect(values["policies.reset-1.2_b.count"] == "3")
    #expect(values["policies.reset-1.2_b.unreachable"] == "local")
    #expect(values["policies.nothing.every"] == "1s")
  }

  @Test func aLaterFileReplacesAPolicyWhole() {
    var configuration = Configuration()
    #expect(configuration.merge(yaml: whole, file: "1") == [])
    #expect(configuration.merge(yaml: "policies: {login: {count: 5}}", file: "2") == [])
    #expect(configuration.engine.policies["login"]?.rules.ladder == [])
    #expect(configuration.engine.policies["login"]?.cooldown(after: 1) == .seconds(5))
    #expect(configuration.engine.policies.count == 3)
  }

  @Test func wrongRulesAreReportedWithTheirPlace() {
    let yaml = """
      policies:
        login:
          ladder:
            - 60s
            - soon
          windows: [5/10m, 5-10m]
          atempts: 5
          on-resend: kill
        a b: {}
      """
    #expect(
      problems(yaml) == [
        "f:5: policies.login.ladder[1]: \"soon\" is not allowed; "
          + "allowed: a duration with ms, s, m, h or d, such as 90s, 1h30m or 1.5s, at most 3650d",
        "f:6: policies.login.windows[1]: \"5-10m\" is not allowed; "
          + "allowed: LIMIT/DURATION, such as 5/10m",
        "f:7: policies.login.atempts: unknown setting; did you mean attempts?",
        "f:8: policies.login.on-resend: \"kill\" is not allowed; allowed: one of keep, replace",
        "f:9: policies.a b: the name of a policy has 1 to 64 of letters, digits, '_', '.' and '-'",
      ])
  }

  @Test func conflictingRulesAreReportedWithTheirPlace() {
    let yaml = """
      policies:
        login:
          ladder:
            - 60s
            - 1500ms
            - 20m
          windows:
            - 5/10m
            - 4/15m
          channels: [sms]
          attempts: 3
          title: "%s left"
      """
    let found = problems(yaml)
    #expect(found.map { $0.prefix { $0 != " " } } == ["f:5:", "f:6:", "f:9:", "f:11:", "f:12:"])
    #expect(found[0].contains("ladder[1]: 1500ms is not a whole number of steps (every, 1s)"))
    #expect(found[1].contains("ladder[2]: 20m is not shorter than the longest window, 15m"))
    #expect(found[2].contains("windows[1]: 4/15m allows no more than 5/10m"))
    #expect(found[3].contains("attempts: attempts needs validity"))
    #expect(found[4].contains("title: a '%' in a title is one of %d"))
  }

  @Test func eachRuleHasItsRange() {
    #expect(
      problem("count: 0").hasPrefix("count: \"0\" is not allowed; allowed: an integer from 1"))
    #expect(problem("every: 0").hasPrefix("every: a step is at least 1ms"))
    #expect(problem("count: 2147483647, every: 1d").hasPrefix("count: count is 1 to 2147483647"))
    #expect(problem("ladder: []").hasPrefix("ladder: empty; allowed: a list"))
    #expect(problem("ladder: 60s").hasPrefix("ladder: not a list; allowed: a list"))
    #expect(problem("windows: [0/10m]").hasPrefix("windows[0]: a window allows 1 to 1000"))
    #expect(problem("windows: [1001/10m]").hasPrefix("windows[0]: a window allows 1 to 1000"))
    #expect(problem("windows: [5/0]").contains("windows"))
    #expect(problem("windows: [5/10m/2]").contains("5/10m/2"))
    #expect(problem("windows: [\"5 / 10m\"]").contains("LIMIT/DURATION"))
    #expect(problem("windows: [5/10m], channels: [s m]").contains("channels[0]: \"s m\""))
    #expect(problem("channels: [sms]").hasPrefix("channels: channels need windows"))
    #expect(problem("validity: 3651d").contains("at most 3650d"))
    #expect(problem("validity: 0").contains("a code is valid for 1ms to 3650d"))
    #expect(problem("validity: 1m, attempts: 1001").contains("from 1 to 1000"))
    #expect(problem("guesses: 5").contains("LIMIT/DURATION, such as 5/10m"))
    #expect(problem("guesses: 5/1d").hasPrefix("guesses: guesses needs validity"))
    #expect(
      problem("validity: 1m, guesses: 1001/1d").hasPrefix("guesses: a window allows 1 to 1000"))
    #expect(problem("validity: 1m, guesses: 5/0").contains("a window is 1ms to 3650d long"))
    #expect(problem("attempt-limits: [ip]").hasPrefix("attempt-limits: attempt-limits needs"))
    #expect(problem("validity: 1m, attempt-limits: [a, a]").contains("a is named twice"))
    #expect(problem("refunds: 0/1d").hasPrefix("refunds: a window allows 1 to 1000"))
    #expect(problem("title: [a]").hasPrefix("title: a list where a value belongs"))
    #expect(problem("title: \"%m\"").contains("need each other"))
    #expect(problem("ready-title: \(String(repeating: "x", count: 1_025))").contains("1024 bytes"))
    #expect(
      problem("count: 5, ladder: [60s]").hasPrefix("count: the ladder sets the length already"))
    #expect(problem("windows: [5/60s]").hasPrefix("windows: the longest window, 1m, is not longer"))
    #expect(problem("grace: 5").contains("did you mean hud.grace?"))
    #expect(
      problems("policies: []") == [
        "f:1: policies: not a section; allowed: policies by name"
      ])
    #expect(
      problems("policies: {p: 5}")[0].contains("not a section; allowed: count, every, ladder"))
    #expect(problems("policies:\n#  login: {}\n") == [])
  }

  @Test func aReloadKeepsWhatNeedsARestart() throws {
    let old = try Configuration(yaml: "socket: {path: /a, mode: 0600}", file: "f")
    var new = try Configuration(
      yaml: "socket: {path: /b, mode: 0600}\nstate-directory: /c\nlog-level: debug\n" + whole,
      file: "f")
    #expect(new.keepWhatNeedsRestart(from: old) == ["socket.path", "state-directory"])
    #expect(new.socket == old.socket && new.stateDirectory == old.stateDirectory)
    #expect(new.logLevel == .debug && new.engine.policies.count == 3)
    #expect(new.keepWhatNeedsRestart(from: old) == [])
  }
}
