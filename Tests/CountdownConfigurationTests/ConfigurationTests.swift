import CountdownConfiguration
import Testing

/// Settings take the values that the files give them.
@Suite struct ConfigurationTests {
  @Test(arguments: ["", "# nothing\n", "---\n", "{}", "limits:\n#  max-output: 1MiB\nhud:\n"])
  func unsetSettingsHaveTheirDefaults(_ yaml: String) throws {
    #expect(try Configuration(yaml: yaml, file: "f") == Configuration())
  }

  @Test func everySettingIsRead() throws {
    let configuration = try Configuration(
      yaml: """
        socket: {path: /tmp/s, mode: 0600}
        state-directory: /tmp/state
        log-level: debug
        access:
          connect: {users: [root, 1000], groups: [root]}
          admin: {users: [4294967294], groups: [0]}
          rules: {shop: {users: [5], kinds: [once], keys: ["shop:*"], role: read-only}}
        countdown: {count: 5, every: 500ms, keep-ready: 2h}
        hud:
          grace: 1ms
          min: 2s
          fade-in: 3m
          fade-out: 0
          message-min: 4d
          reorder: 200ms
          max-level: statusbar
          screens: {pay: {max-level: alert}, "0": {max-level: normal}}
          blocking: {paths: [/api/order/Place], verbs: [Place]}
        limits:
          max-bulk-length: 100
          max-inline-length: 1KiB
          max-arguments: 10
          max-request-length: 2MiB
          max-commands-per-turn: 1
          max-output: 1024
          max-output-per-uid: 3GiB
          max-connections: 2
          max-connections-per-uid: 3
          max-entities: 4
          max-entities-per-uid: 5
          max-subscriptions: 6
          max-patterns-per-uid: 5
        slowlog: {threshold: 0, length: 0}
        """, file: "f")
    var expected = Configuration()
    expected.socket.path = "/tmp/s"
    expected.socket.mode = 0o600
    expected.stateDirectory = "/tmp/state"
    expected.logLevel = .debug
    expected.access.connect.users = [.init(text: "root", id: 0), .init(text: "1000", id: 1_000)]
    expected.access.connect.groups = [.init(text: "root", id: 0)]
    expected.access.admin.users = [.init(text: "4294967294", id: 4_294_967_294)]
    expected.access.admin.groups = [.init(text: "0", id: 0)]
    var rule = Configuration.Access.Rule()
    rule.who.users = [.init(text: "5", id: 5)]
    (rule.kinds, rule.keys, rule.role) = ([.once], ["shop:*"], .readOnly)
    expected.access.rules["shop"] = rule
    expected.engine.countdownCount = 5
    expected.engine.countdownEvery = .milliseconds(500)
    expected.engine.keepReady = .seconds(7200)
    expected.engine.presentation.grace = .milliseconds(1)
    expected.engine.presentation.minimum = .seconds(2)
    expected.engine.presentation.fadeIn = .seconds(180)
    expected.engine.presentation.fadeOut = .zero
    expected.engine.presentation.messageMinimum = .seconds(4 * 86_400)
    expected.engine.hudReorder = .milliseconds(200)
    expected.engine.maximumLevel = .statusbar
    expected.engine.maximumLevelOfScreen = [Array("pay".utf8): .alert, Array("0".utf8): .normal]
    expected.engine.blocking.paths = ["/api/order/Place"]
    expected.engine.blocking.verbs = ["Place"]
    expected.request.bulkLength = 100
    expected.request.inlineLength = 1024
    expected.request.arguments = 10
    expected.request.requestLength = 2_097_152
    expected.connections.commandsPerTurn = 1
    expected.dispatcher.maxOutput = 1024
    expected.dispatcher.maxOutputPerUser = 3 << 30
    expected.connections.all = 2
    expected.connections.perUser = 3
    expected.engine.limits.entities = 4
    expected.engine.limits.entitiesPerUser = 5
    expected.engine.limits.subscriptions = 6
    expected.engine.limits.patternsPerUser = 5
    expected.dispatcher.slowCommand = .zero
    expected.dispatcher.slowLogLength = 0
    #expect(configuration == expected)
  }

  @Test func laterFilesWinSettingBySetting() {
    var configuration = Configuration()
    let first =
      "limits: {max-entities: 1, max-output: 1MiB}\n"
      + "hud: {screens: {a: {max-level: alert}}}"
    let second = "limits: {max-entities: 2}\nhud: {screens: {b: {max-level: statusbar}}}"
    #expect(configuration.merge(yaml: first, file: "1") == [])
    #expect(configuration.merge(yaml: second, file: "2") == [])
    #expect(configuration.engine.limits.entities == 2)
    #expect(configuration.dispatcher.maxOutput == 1_048_576)
    #expect(
      configuration.engine.maximumLevelOfScreen == [
        Array("a".utf8): .alert, Array("b".utf8): .statusbar,
      ])
  }

  @Test func settingsAreListedByFullName() throws {
    var configuration = Configuration()
    configuration.engine.maximumLevelOfScreen = [
      Array("b".utf8): .alert, Array("a".utf8): .statusbar,
    ]
    configuration.engine.blocking.paths = ["/api/a", "/api/b"]
    configuration.engine.countdownEvery = .milliseconds(1500)
    configuration.engine.keepReady = .seconds(86_400)
    configuration.socket.mode = 0o7
    let list = configuration.settings
    let values = Dictionary(uniqueKeysWithValues: list.map { ($0.name, $0.value) })
    #expect(list.first?.name == "socket.path")
    #expect(values["limits.max-connections"] == "20000")
    #expect(values["limits.max-output"] == "67108864")
    #expect(values["countdown.every"] == "1500ms")
    #expect(values["countdown.keep-ready"] == "1d")
    #expect(values["hud.grace"] == "0")
    #expect(values["log-level"] == "info")
    #expect(values["socket.mode"] == "0007")
    #expect(values["hud.screens.a.max-level"] == "statusbar")
    #expect(values["hud.screens.b.max-level"] == "alert")
    #expect(values["hud.blocking.paths"] == "/api/a,/api/b")
    #expect(values["hud.blocking.verbs"]?.hasPrefix("Create,Add,") == true)
  }

  @Test func aReloadReportsWhatHasChanged() throws {
    let old = try Configuration(
      yaml: "countdown: {count: 5}\npolicies: {a: {count: 1}}\nsocket: {mode: 0600}", file: "f")
    var new = try Configuration(
      yaml: "limits: {max-arguments: 8}\nlog: {segment-size: 1MiB}", file: "f")
    #expect(new.keepWhatNeedsRestart(from: old) == ["socket.mode", "log.segment-size"])
    let changes = new.changes(from: old)
    #expect(
      changes.map(\.name).filter { !$0.hasPrefix("policies.a.") } == [
        "countdown.count", "limits.max-arguments",
      ])
    #expect(changes.first?.old == "5" && changes.first?.new == "60")
    #expect(changes.contains { $0.name == "policies.a.count" && $0.old == "1" && $0.new == nil })
    #expect(old.changes(from: old).isEmpty)
  }
}
