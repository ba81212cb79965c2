import CountdownConfiguration
import Testing
import Wire

/// Which values are refused, and the error messages.
@Suite struct ProblemTests {
  private func problems(_ yaml: String) -> [String] {
    var configuration = Configuration()
    let problems = configuration.merge(yaml: yaml, file: "f.yaml").map(\.description)
    #expect(!problems.isEmpty || yaml.isEmpty)
    return problems
  }

  @Test func aMisspeltSettingIsReportedWithItsPlaceAndAGuess() {
    #expect(
      problems("countdown:\n  count: 5\nlimits:\n\n  max-conections: 5\n") == [
        "f.yaml:5: limits.max-conections: unknown setting; did you mean max-connections?"
      ])
    #expect(
      problems("limits:\n  max_output: 5") == [
        "f.yaml:2: limits.max_output: unknown setting; did you mean max-output?"
      ])
    #expect(
      problems("limit: {}") == ["f.yaml:1: limit: unknown setting; did you mean limits?"])
  }

  @Test func usersAndGroupsMustBeKnown() {
    #expect(
      problems("access: {admin: {users: [nobody-has-this-name, -1, 4294967295, root]}}")
        == [
          "nobody-has-this-name", "-1", "4294967295",
        ].enumerated().map {
          "f.yaml:1: access.admin.users[\($0)]: \"\($1)\" is not allowed; "
            + "allowed: a user's name or number that this system knows"
        })
    #expect(
      problems("access: {connect: {groups: root}}") == [
        "f.yaml:1: access.connect.groups: not a list; "
          + "allowed: a list, each item a group's name or number that this system knows"
      ])
  }

  @Test func rulesAboutKeysMustBeWhole() {
    #expect(
      problems(
        """
        access:
          rules:
            a: {users: [root], groups: [], keys: ["shop:*"]}
            b: {user: [root], keys: ["*"]}
            c: {kinds: [countdowns], keys: [""], role: write}
            d: {users: [root]}
            "e f": {keys: ["*"]}
        """) == [
          "f.yaml:3: access.rules.a.groups: empty; name at least one, or leave it out for everybody",
          "f.yaml:4: access.rules.b.user: unknown setting; did you mean users?",
          "f.yaml:5: access.rules.c.kinds[0]: \"countdowns\" is not allowed; allowed: one of "
            + "countdown, hud, timer, scope, throttle, once, gate, debounce, nav, page",
          "f.yaml:5: access.rules.c.keys[0]: \"\" is not allowed; allowed: a pattern of 1 to 1024 "
            + "bytes, such as \"shop:*\"",
          "f.yaml:5: access.rules.c.role: \"write\" is not allowed; allowed: one of read-write, "
            + "read-only",
          "f.yaml:6: access.rules.d: no keys; add keys: [\"shop:*\"], or keys: [\"*\"] for all",
          "f.yaml:7: access.rules.e f: the name of a rule has 1 to 64 of letters, digits, '_', '.' "
            + "and '-'",
        ])
  }

  @Test func aSettingInTheWrongSectionIsReportedWithTheRightOne() {
    #expect(
      problems("max-connections: 5") == [
        "f.yaml:1: max-connections: unknown setting; did you mean limits.max-connections?"
      ])
  }

  @Test func anUnknownSettingIsReportedWithTheKnownOnes() {
    #expect(
      problems("slowlog: {frobnication: 5}") == [
        "f.yaml:1: slowlog.frobnication: unknown setting; known: threshold, length"
      ])
    #expect(
      problems("hud: {screens: {pay: {colour: red}}}") == [
        "f.yaml:1: hud.screens.pay.colour: unknown setting; known: max-level"
      ])
  }

  @Test func allProblemsAreReportedAtOnce() {
    var configuration = Configuration()
    let yaml = """
      limits:
        max-connections: many
        max-entities: 7
        max-output: {}
      countdown:
        every: 0
      hud:
        max-level: top
        blocking:
          paths:
            - /api/ok
            - order/Place
      """
    #expect(
      configuration.merge(yaml: yaml, file: "f.yaml").map(\.description) == [
        "f.yaml:2: limits.max-connections: \"many\" is not allowed; "
          + "allowed: an integer from 1 to 1000000",
        "f.yaml:4: limits.max-output: a section where a value belongs; "
          + "allowed: bytes, or an integer with KiB, MiB or GiB, from 1024 to 1024MiB",
        "f.yaml:6: countdown.every: \"0\" is not allowed; "
          + "allowed: a duration with ms, s, m, h or d, such as 90s, 1h30m or 1.5s, at most 3650d, "
          + "at least 1ms",
        "f.yaml:8: hud.max-level: \"top\" is not allowed; "
          + "allowed: one of normal, statusbar, alert",
        "f.yaml:12: hud.blocking.paths[1]: \"order/Place\" is not allowed; "
          + "allowed: a path that begins with /api/, at most 1024 bytes, without spaces and commas",
      ])
    #expect(configuration.engine.limits.entities == 7)
    #expect(configuration.connections.all == Configuration().connections.all)
  }

  @Test(arguments: [
    "countdown: {count: 0}", "countdown: {count: 2147483648}", "countdown: {count: -1}",
    "countdown: {count: 1.5}", "countdown: {count: 010}", "countdown: {count: 0x10}",
    "countdown: {count: 1_000}", "countdown: {count: +1}", "countdown: {count: true}",
    "countdown: {count: 99999999999999999999}", "countdown: {count: [5]}", "countdown: {count: }",
    "countdown: {count: ~}", "countdown: {every: 0ms}", "countdown: {every: 3651d}",
    "countdown: {every: 1w}", "countdown: {every: 1000}", "countdown: {every: 1 s}",
    "countdown: {every: s}", "countdown: {every: 1S}", "countdown: {every: -1s}",
    "countdown: {every: 9223372036854775807d}", "countdown: {every: 87600h1ms}",
    "limits: {max-output: 1KB}", "limits: {max-output: 1023}", "limits: {max-output: 1025MiB}",
    "limits: {max-output: 9007199254740993KiB}", "limits: {max-connections: 1KiB}",
    "limits: {max-connections: 0}", "limits: 5", "limits: [max-connections]", "5", "[]",
    "socket: {mode: 0999}", "socket: {mode: 1777}", "socket: {mode: rw}", "socket: {mode: 60}",
    "socket: {path: countdownd.sock}", "socket: {path: \"/a\\0b\"}", "socket: {path: \"\"}",
    "state-directory: state", "log-level: loud", "log-level: INFO", "hud: {screens: [a]}",
    "hud: {screens: {a: alert}}", "hud: {screens: {a: {max-level: 1}}}",
    "hud: {screens: {\"\": {max-level: alert}}}", "hud: {blocking: {verbs: Create}}",
    "hud: {blocking: {verbs: [Create, \"\"]}}", "hud: {blocking: {verbs: [A B]}}",
    "hud: {blocking: {paths: [https://h/api/x]}}", "? [a]\n: 5", "<<: {log-level: info}",
  ])
  func refusesValuesOutOfRange(_ yaml: String) {
    #expect(problems(yaml).count == 1)
  }

  @Test(arguments: [
    "countdown: {count: \"5\"}", "countdown: {every: 3650d}", "countdown: {every: 1h0.5s}",
    "socket: {mode: \"0777\"}", "socket: {mode: 660}", "limits: {max-output: 1024MiB}",
    "slowlog: {threshold: 0s}", "hud: {screens: {}}", "hud: {blocking: {paths: [], verbs: []}}",
  ])
  func acceptsValuesInRange(_ yaml: String) {
    var configuration = Configuration()
    #expect(configuration.merge(yaml: yaml, file: "f") == [])
  }

  @Test func aSocketPathMustFitIntoASocketAddress() {
    var configuration = Configuration()
    let longest = "/" + String(repeating: "a", count: 106)
    #expect(configuration.merge(yaml: "socket: {path: \(longest)}", file: "f") == [])
    #expect(problems("socket: {path: \(longest)a}").count == 1)
  }

  @Test func malformedYAMLIsRefusedWithItsLine() {
    #expect(problems("a: 1\nb: [1\n")[0].hasPrefix("f.yaml:3: not YAML: "))
    #expect(problems("a: 1\nb: [1")[0].hasPrefix("f.yaml:2: not YAML: "))
    #expect(problems("log-level: info\n\tx: 1\n")[0].hasPrefix("f.yaml:2: not YAML: "))
    #expect(problems("log-level: info\n---\nlog-level: debug\n")[0].contains("another document"))
    #expect(problems("log-level: *nowhere")[0].contains("undefined alias"))
    #expect(
      problems("log-level: info\n# \u{7}\n# \u{7}\n") == [
        "f.yaml:2: not YAML: control characters are not allowed '\\u{7}'"
      ])
  }

  @Test(arguments: [
    ("slowlog:\n  length: 1\n  threshold: 1s\n  length: 2\n", 2, 4),
    ("hud:\n  grace: 1s\n  'grace' : 2s\n", 2, 3),
    ("# grace:\nhud:\n  grace: 1s\n  screens:\n    grace: {}\n\n  \"grace\": 2s\n", 3, 7),
    ("slowlog: {length: 1, length: 2}", 1, 1),
  ])
  func reportsARepeatedSettingWhereItIsRepeated(_ yaml: String, _ first: Int, _ again: Int) {
    let found = problems(yaml)
    #expect(found.count == 1 && found[0].hasPrefix("f.yaml:\(again): "), "\(found)")
    #expect(found[0].hasSuffix(": more than once in the same section, first on line \(first)"))
  }

  @Test(arguments: [
    "\"a\\e[2Jb\": 1", "hud: {screens: {\"a\\u202Eb\": 1}}", "log-level: \"\\x9B\\u202e\"",
    "? \"\\e\"\n: 1\n? \"\\e\"\n: 2\n", "log-level: *\u{202E}",
  ])
  func aMessageHasNoCharacterThatATerminalActsOn(_ yaml: String) {
    for problem in problems(yaml) {
      let isPrintable = problem.unicodeScalars.allSatisfy { $0.isPrintable }
      #expect(isPrintable, "\(problem)")
    }
  }

  @Test func aMessageStaysOnOneLineOfReasonableLength() {
    let found = problems("log-level: \"a\\nb" + String(repeating: "x", count: 500) + "\"")
    #expect(found.count == 1 && !found[0].contains("\n") && found[0].utf8.count < 250)
  }
}
