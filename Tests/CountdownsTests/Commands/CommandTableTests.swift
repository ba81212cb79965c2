import Foundation
import Testing
import Wire

@testable import Countdowns

/// The table of commands; every command's reply is well-formed in both versions of RESP.
@Suite struct CommandTableTests {
  let table = CommandTable.all

  /// Calls of every command. A command that is missing here fails `wellFormed`.
  static let calls: [String: [String]] = [
    "COUNTDOWN START": [
      "k COUNT 5 EVERY 1s FIRE TITLE %ds READYTITLE go OWNER none META m TOKEN t"
    ],
    "COUNTDOWN RESEND": ["k", "k TOKEN t"], "COUNTDOWN GET": ["k", "none"],
    "COUNTDOWN LIST": ["", "MATCH * OWNER none LIMIT 1"], "COUNTDOWN PAUSE": ["k"],
    "COUNTDOWN REFUND": ["k GENERATION 1", "k"],
    "COUNTDOWN ATTEMPT": ["k", "k GENERATION 1", "k ANY", "k LIMIT ip:a"],
    "COUNTDOWN PASS": ["k", "none"], "COUNTDOWN RESUME": ["k"], "COUNTDOWN RETIME": ["k 5s"],
    "COUNTDOWN WHY": ["k"],
    "COUNTDOWN CANCEL": ["k", "k"],
    "HUD SHOW": ["s KIND info STATUS hello MIN 1s MAX 9s MASK clear REQUEST /api/Send"],
    "HUD PROGRESS": ["s 0.5 STATUS half"], "HUD STATUS": ["s text"], "HUD TAP": ["s INSIDE"],
    "HUD PAUSE": ["s"], "HUD RESUME": ["s"], "HUD GET": ["s", "none", "s LEVEL alert"],
    "HUD WHY": ["s", "none", "s LEVEL alert"], "HUD MASK": ["/api/Submit"],
    "HUD LIST": [""], "HUD POP": ["s", "none"], "HUD DISMISS": ["s DELAY 5s", "none"],
    "TIMER SET": [
      "t 5s EVERY 1s PAYLOAD p LATE skip CLOCK wall", "t 9s EVERY 1s CLOCK wall KEEP",
      "t AT 0 NX", "u AT 0 EVERY 1h LATE skip",
    ], "TIMER GET": ["t", "none"],
    "TIMER PAUSE": ["t"], "TIMER RESUME": ["t"], "TIMER RETIME": ["t 1m"], "TIMER LIST": [""],
    "TIMER DEL": ["t", "t"],
    "THROTTLE TAKE": ["k BURST 1 RATE 1/1d", "k RATE 2/1s BURST 2 COST 2 PEEK"],
    "THROTTLE GET": ["k", "none"], "THROTTLE LIST": [""],
    "THROTTLE REFUND": ["k 1", "none 1", "range:1 1 ID 7"], "THROTTLE UNBLOCK": ["k", "none"],
    "THROTTLE WHY": ["k", "none"], "COUNTDOWN FORGIVE": ["k"],
    "ONCE BEGIN": ["k TTL 5s", "k TTL 5s OWNER connection", "l TTL 9s LEASE 5s FINGERPRINT f"],
    "ONCE EXTEND": ["l LEASE 2s GENERATION 1", "none GENERATION 1"],
    "ONCE DONE": ["k result", "none result"], "ONCE GET": ["k", "none"], "ONCE LIST": [""],
    "ONCE CANCEL": ["k", "k"],
    "GATE CHECK": ["k buy PAYLOAD p TTL 5s OWNER none", "k buy REQUIRED off"],
    "GATE CANCEL": ["none"], "GATE OPEN": ["k", "k TTL 5s"], "GATE GET": ["k", "none"],
    "GATE TAKE": ["k", "none"], "GATE DONE": ["k", "none"],
    "GATE LIST": [""], "GATE CLOSE": ["k", "k"],
    "DEBOUNCE CALL": [
      "k 5s PAYLOAD p LEADING MAXWAIT 9s OWNER none", "get 5s EDGES both SPACING 9s",
    ],
    "DEBOUNCE GET": ["k", "none"], "DEBOUNCE LIST": [""],
    "DEBOUNCE FLUSH": ["k", "get"], "DEBOUNCE CANCEL": ["k", "k"],
    "NAV PUSH": ["n p1", "n p2 EDGE 20 POP on BAR hidden OWNER none"],
    "NAV PRESENT": ["m p3 BAR any", "m p4 DURATION 5s"],
    "NAV SET": ["n p1 EDGE 5 POP off BAR any", "n none"],
    "NAV SWIPE": ["n X 5 DX 1.5 TIMEOUT 5s", "n X 5 DX 1"],
    "NAV PROGRESS": ["n 0.5"], "NAV CANCEL": ["n", "n"], "NAV FINISH": ["n"],
    "NAV POP": ["n"], "NAV ROOT": ["n"], "NAV GET": ["n", "none"], "NAV LIST": ["", "MATCH n*"],
    "NAV DISMISS": ["n", "n"],
    "PAGE APPEAR": ["p REFRESH always TIMEOUT 5s SCREEN p GRACE 0 MIN 0 OWNER none", "p"],
    "PAGE FAILED": ["p MESSAGE offline", "p"], "PAGE RETRY": ["p", "p"],
    "PAGE REFRESH": ["p", "p"],
    "PAGE LOADED": ["p ITEMS 3", "p"], "PAGE DISAPPEAR": ["p"], "PAGE GET": ["p", "none"],
    "PAGE LIST": ["", "OWNER none"], "PAGE CLOSE": ["p", "p"],
    "SCOPE OPEN": ["a", "b PARENT a TTL 1m OWNER none"], "SCOPE TOUCH": ["b TTL 2m"],
    "SCOPE GET": ["a", "none"], "SCOPE LIST": ["", "MATCH a*"], "SCOPE TREE": ["a LIMIT 1"],
    "SCOPE HANDLE": ["a tap", "a * CAPTURE"], "SCOPE EMIT": ["b hello", "b tap payload"],
    "SCOPE UNHANDLE": ["a tap"], "SCOPE CLOSE": ["a", "a GENERATION 1"], "PING": ["", "hello"],
    "ECHO": ["hello"],
    "HELLO": ["", "VERSION SETNAME me", "VERSION AUTH u p SETNAME n", "4"], "AUTH": ["p", "u p"],
    "SELECT": ["0", "1"], "CLIENT ID": [""], "CLIENT INFO": [""],
    "CLIENT LIST": ["", "TYPE pubsub"], "CLIENT SETNAME": ["me"], "CLIENT GETNAME": [""],
    "CLIENT SETINFO": ["LIB-NAME x"], "CLIENT KILL": ["ID 99", "/nowhere"],
    "CLIENT NO-EVICT": ["on"], "CLIENT NO-TOUCH": ["on"], "CLIENT REPLY": ["ON"],
    "PUBSUB CHANNELS": ["", "*"], "PUBSUB NUMSUB": ["", "a b"], "PUBSUB NUMPAT": [""],
    "EVENTS SINCE": ["0", "5 MATCH * LIMIT 3 SUBSCRIBED"],
    "EVENTS LAST": [""], "EVENTS CURSOR": [""], "BACKUP BEGIN": [""], "BACKUP SIZE": ["1"],
    "BACKUP READ": ["1 0 100"], "BACKUP END": ["1"],
    "JOURNAL READ": ["0 100"], "FLEET IMPORT": ["countdown 0 x"], "FLEET INIT": [""],
    "FLEET ACCEPT-LOSS": [""],
    "STATE ACKNOWLEDGE": [""], "CLEAR": ["countdown none*"],
    "DBSIZE": [""], "TIME": [""], "INFO": ["", "stats", "nonsense"],
    "CONFIG GET": ["*", "limits.* countdown.*"], "CONFIG RESETSTAT": [""],
    "CONFIG SET": ["log-level debug"], "CONFIG RELOAD": [""],
    "SLOWLOG GET": ["", "-1"], "SLOWLOG LEN": [""], "SLOWLOG RESET": [""],
    "METRICS": [""], "CLOCK ADVANCE": ["5s"], "CLOCK SET": ["+5s"], "CLOCK SUSPEND": ["5s"],
    "CLOCK RESTART": ["", "5s"], "CLOCK REBOOT": ["", "5s"], "COMMAND": [""], "COMMAND COUNT": [""],
    "COMMAND LIST": [""], "HELP": ["", "countdown timer|set", "PING"],
    "COMMAND INFO": ["", "ping countdown nothing"], "COMMAND DOCS": ["", "hello hud nothing"],
    "COMMAND GETKEYS": ["COUNTDOWN GET k", "PING"], "MONITOR": [""],
    "SUBSCRIBE": ["countdown:k hud:s other"], "PSUBSCRIBE": ["hud:*"],
    "UNSUBSCRIBE": ["other", ""],
    "PUNSUBSCRIBE": ["", ""], "RESET": [""], "QUIT": [""],
    "MULTI": [""], "EXEC": [""], "DISCARD": [""], "WATCH": ["k"],
  ]

  /// The number of frames, snapshots included, of calls that do not have one frame.
  private static let frameCounts = [
    "SUBSCRIBE countdown:k hud:s other": 5, "UNSUBSCRIBE": 2, "RESET": 1,
  ]

  @Test(arguments: [2, 3])
  func everyCommandsReplyIsWellFormed(version: Int) throws {
    let counter = DispatcherHarness()
    counter.host.reloadOutcome = .taken(
      changed: [.init(name: "a", old: nil, new: "1")], kept: ["b"])
    let version = RESPEncoder.Version(rawValue: version)!
    var rest = Set(table.rows.map(\.fullName))
    for row in table.rows.sorted(by: { Self.order($0) < Self.order($1) }) {
      guard row.fullName != "SHUTDOWN" else { continue }
      let example = row.subcommand == "HELP" ? [""] : Self.calls[row.fullName]
      let calls = try #require(example, "\(row.fullName) has no example here")
      for call in calls {
        counter.session.output.version = version
        counter.session.isClosing = false
        counter.session.transaction = nil
        let arguments = call.replacing("VERSION", with: "\(version.rawValue)")
        let line = arguments.isEmpty ? row.fullName : "\(row.fullName) \(arguments)"
        let frames = try counter.frames(line.split(separator: " ").map(String.init))
        // Lines of MONITOR come before the reply.
        let replies = frames.filter { if case .simple(let s) = $0 { s.first != "1" } else { true } }
        #expect(replies.count == Self.frameCounts[line] ?? 1, "\(line): \(replies)")
        for reply in replies { Self.check(reply, version, line) }
      }
      rest.remove(row.fullName)
    }
    #expect(rest == ["SHUTDOWN"])
  }

  /// Returns a sort key that puts commands that change the connection last.
  private static func order(_ row: CommandSpec) -> Int {
    let last = [
      "SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "MONITOR", "RESET", "QUIT",
    ]
    return last.firstIndex(of: row.name).map { $0 + 1 } ?? 0
  }

  /// Checks that a client that speaks RESP2 receives no frame of RESP3.
  private static func check(_ reply: Reply, _ version: RESPEncoder.Version, _ line: String) {
    if version == .resp2 {
      switch reply {
      case .map, .set, .push, .boolean, .double, .verbatim:
        Issue.record("\(line) answers RESP3 in RESP2")
      default: break
      }
    }
    for element in reply.elements { check(element, version, line) }
  }

  /// For each command that writes and is safe to repeat: what comes before it, and a call of it.
  private static let repetitions = [
    "COUNTDOWN PAUSE": ["COUNTDOWN START k", "COUNTDOWN PAUSE k"],
    "COUNTDOWN RESUME": ["COUNTDOWN START k", "COUNTDOWN PAUSE k", "COUNTDOWN RESUME k"],
    "COUNTDOWN REFUND": ["COUNTDOWN START k", "COUNTDOWN REFUND k GENERATION 1"],
    "COUNTDOWN PASS": ["COUNTDOWN START k POLICY sms", "COUNTDOWN PASS k"],
    "TIMER PAUSE": ["TIMER SET k 5s", "TIMER PAUSE k"],
    "TIMER RESUME": ["TIMER SET k 5s", "TIMER PAUSE k", "TIMER RESUME k"],
    "ONCE EXTEND": ["ONCE BEGIN k TTL 9s LEASE 5s", "ONCE EXTEND k LEASE 2s GENERATION 1"],
    "ONCE DONE": ["ONCE BEGIN k TTL 5s", "ONCE DONE k result"],
    "SCOPE TOUCH": ["SCOPE OPEN k TTL 1m", "SCOPE TOUCH k TTL 2m"],
  ]

  @Test func aCommandThatIsSafeToRepeatChangesNothingTheSecondTime() throws {
    let rows = table.rows.filter { $0.flags.isSuperset(of: [.write, .harmlessAgain]) }
    #expect(Set(rows.map(\.fullName)) == Set(Self.repetitions.keys))
    var policy = SendPolicy.Rules()
    policy.validity = .seconds(300)
    policy.attempts = 2
    var settings = EngineSettings()
    settings.policies = ["sms": try SendPolicy(name: "sms", policy)]
    for row in rows {
      let calls = try #require(Self.repetitions[row.fullName])
      let counter = DispatcherHarness(engine: settings)
      for call in calls.dropLast() { try counter.say(call) }
      let states = try (0..<3).map { number in
        if number > 0 { try counter.say(calls.last!) }
        return try counter.say("\(row.name) GET k")
      }
      #expect(states[0] != states[1], "\(row.fullName) does nothing")
      #expect(states[1] == states[2], "\(row.fullName)")
    }
  }

  @Test func everyFamilyHasHELP() throws {
    let counter = DispatcherHarness()
    for name in Set(table.rows.filter { $0.subcommand != nil }.map(\.name)) {
      let lines = try counter.say("\(name) HELP").elements
      #expect(lines.count == table.family(name).count * 2 + 1, "\(name)")
    }
  }

  @Test func helpListsEveryCommandWithItsArgumentsOrThoseThatAreNamed() throws {
    let counter = DispatcherHarness()
    let all = try counter.say("HELP").elements.map(\.text)
    for row in table.rows {
      #expect(all.count { $0 == row.usage } == 1, "\(row.fullName)")
      let own = try counter.say("HELP \(row.fullName.replacing(" ", with: "|"))").elements
      #expect(Array(own.prefix(2)) == [.bulk(row.usage), .bulk("    " + row.summary)])
    }
    #expect(all.count == table.rows.count * 2)
    #expect(try counter.say("help once ping").elements.count == table.family("ONCE").count * 2 + 2)
    try counter.expectError("HELP ping nonsense", "unknown command 'nonsense'")
  }

  @Test func everySyntaxLineCanBeParsedNamesAreWordsNoMarkIsLeftOverSecretsAreKnown() {
    for row in table.rows {
      for parameter in row.parameters {
        let words = [parameter.name] + parameter.choices + (parameter.token.map { [$0] } ?? [])
        for word in words {
          #expect(!word.isEmpty)
          #expect(!word.contains { "[]!".contains($0) }, "\(row.fullName): \(word)")
        }
        let secretNames = [
          "bytes", "payload", "result", "password", "record", "sends", "META", "PAYLOAD", "TOKEN",
          "AUTH", "FINGERPRINT",
        ]
        let carriesSecrets = words.contains { secretNames.contains($0) }
        #expect(parameter.isSecret == carriesSecrets, "\(row.fullName): \(parameter.name)")
      }
      #expect(row.arguments.least >= (row.subcommand == nil ? 1 : 2))
      #expect(row.arguments.maximum.map { $0 >= row.arguments.least } ?? true)
      #expect(row.name == row.name.uppercased())
      #expect(row.name.utf8.count <= 16)
      #expect(!row.summary.isEmpty)
    }
    #expect(Set(table.rows.map(\.fullName)).count == table.rows.count)
  }

  @Test func everyCommandAboutOneEntityHasAKeyPosition() throws {
    let counter = DispatcherHarness()
    for row in table.rows
    where row.group.kind != nil && !["LIST", "HELP", "MASK"].contains(row.subcommand) {
      let call = try #require(Self.calls[row.fullName]?.first)
      let words = row.fullName.split(separator: " ") + call.split(separator: " ")
      let keys = try counter.say("COMMAND GETKEYS " + words.joined(separator: " "))
      #expect(keys == .array([.bulk(String(call.prefix { $0 != " " }))]), "\(row.fullName)")
    }
    let docs = try counter.say("COMMAND DOCS gate")["gate"]?["subcommands"]?["gate|check"]
    #expect(docs?["arguments"]?.elements[0]["type"] == .bulk("key"))
  }

  @Test func aCommandRefusesWordsThatAreNotAmongItsChoices() throws {
    for row in table.rows {
      for (index, parameter) in row.parameters.enumerated()
      where !parameter.choices.isEmpty {
        let example = try #require(Self.calls[row.fullName]?.first).split(separator: " ")
        var words = row.fullName.split(separator: " ") + example
        if let token = parameter.token {
          if let offset = words.firstIndex(where: { $0 == token }) {
            words[offset + 1] = "nonsense"
          } else {
            words += [token[...], "nonsense"]
          }
        } else {
          words[words.count - example.count + index] = "nonsense"
        }
        try DispatcherHarness().expectError(words.joined(separator: " "), "nonsense")
      }
    }
  }

  @Test func commandLISTPicksCommandsByAPatternThereAreNoModulesAndNoACLCategories() throws {
    let counter = DispatcherHarness()
    #expect(
      try counter.say("COMMAND LIST FILTERBY PATTERN GATE|C*")
        == .array([.bulk("gate|check"), .bulk("gate|cancel"), .bulk("gate|close")]))
    #expect(try counter.say("COMMAND LIST FILTERBY MODULE json") == .array([]))
    #expect(try counter.say("COMMAND LIST FILTERBY ACLCAT read") == .array([]))
    try counter.expectError("COMMAND LIST FILTERBY NAME x", "not one of module, aclcat, pattern")
    try counter.expectError("COMMAND LIST FILTERBY PATTERN", "FILTERBY needs a value")
  }

  @Test func helloTakesNothingAVersionAndItsOptions() throws {
    let counter = DispatcherHarness()
    #expect(try counter.say("HELLO")["proto"] == .integer(2))
    #expect(try counter.say("HELLO 3 SETNAME me")["proto"] == .integer(3))
    #expect(try counter.say("CLIENT GETNAME") == .bulk("me"))
    #expect(try counter.say("HELLO 3 AUTH u p SETNAME n").text.contains("no password"))
    #expect(try counter.say("HELLO 4").text.hasPrefix("NOPROTO"))
  }

  @Test func commandINFOHasTenElementsEachDOCSTheNumberItAnnouncesNullForUnknownNames() throws {
    let counter = DispatcherHarness()
    for version in [RESPEncoder.Version.resp2, .resp3] {
      counter.session.output.version = version
      let all = try counter.say("COMMAND").elements
      #expect(try counter.say("COMMAND COUNT") == .integer(Int64(all.count)))
      for info in all {
        #expect(info.elements.count == 10)
        for sub in info.elements[9].elements { #expect(sub.elements.count == 10) }
      }
      #expect(try counter.say("COMMAND LIST").elements.count == table.rows.count)
      #expect(try counter.say("COMMAND INFO nothing") == .array([.null]))
      let docs = try counter.say("COMMAND DOCS")
      #expect(docs.elements.count == all.count * 2)
      let start = docs["countdown"]?["subcommands"]?["countdown|start"]
      #expect(start?["arguments"]?.elements.count == 12)
      #expect(start?["group"] == .bulk("countdown"))
      #expect(start?["arguments"]?.elements[0]["type"] == .bulk("key"))
      #expect(start?["arguments"]?.elements[5]["type"] == .bulk("pure-token"))
      let refund = docs["countdown"]?["subcommands"]?["countdown|refund"]
      #expect(refund?["arguments"]?.elements.count == 2)
      #expect(refund?["arguments"]?.elements[1]["token"] == .bulk("GENERATION"))
    }
  }

  @Test func theNumberOfArgumentsIsCheckedBeforeTheCommandRuns() throws {
    let counter = DispatcherHarness()
    for call in [
      "COUNTDOWN START", "COUNTDOWN GET", "COUNTDOWN GET k x", "ECHO", "ECHO a b", "DBSIZE x",
    ] {
      try counter.expectError(call, "wrong number of arguments", "usage:")
    }
  }
}
