import SeededRandom
import Testing
import Wire

@testable import Countdowns

/// Replies and events name other entities only to users who may read these.
@Suite struct HiddenKeyTests {
  /// The user `shop` may use `shop:*`; the user `audit` may also read `secret`.
  private let counter: DispatcherHarness
  private let shop: Session
  private let audit: Session

  init() throws {
    var settings = Dispatcher.Settings()
    settings.access.keys = [
      KeyRule("shop", who: Principals(users: [5, 6]), keys: [Array("shop:*".utf8)]),
      KeyRule(
        "audit", who: Principals(users: [6]), keys: [Array("secret".utf8)], role: .readOnly),
    ]
    var secret = LimitRules.Rules()
    secret.rate = Throttle.Rate(burst: 1, count: 1, period: .seconds(600))
    var login = SendPolicy.Rules()
    login.ladder = [.seconds(1)]
    login.limits = ["secret"]
    var engine = EngineSettings()
    engine.throttles = ["secret": try LimitRules(secret)]
    engine.policies = ["login": try SendPolicy(name: "login", login)]
    counter = DispatcherHarness(settings, engine: engine)
    shop = counter.open(.resp3, as: Peer(uid: 5))
    audit = counter.open(.resp3, as: Peer(uid: 6))
  }

  /// Makes one entity of each kind that names the entity `secret`.
  private func fill() throws {
    for line in [
      "NAV PUSH shop:n secret", "SCOPE OPEN shop:below PARENT secret",
      "COUNTDOWN START shop:c COUNT 9 OWNER scope:secret", "TIMER SET shop:t 1h OWNER scope:secret",
      "ONCE BEGIN shop:o TTL 1h OWNER scope:secret", "GATE CHECK shop:g pay OWNER scope:secret",
      "DEBOUNCE CALL shop:d 1h OWNER scope:secret", "HUD SHOW shop:h OWNER scope:secret",
      "PAGE APPEAR shop:p SCREEN secret",
    ] {
      let reply = try counter.say(line)
      if case .error(let text) = reply { Issue.record("\(line): \(text)") }
    }
  }

  /// A command, and where its reply names `secret`.
  private static let places: [(line: String, path: [String])] = [
    ("COUNTDOWN GET shop:c", ["owner"]), ("COUNTDOWN WHY shop:c", ["owner"]),
    ("TIMER GET shop:t", ["owner"]), ("ONCE GET shop:o", ["owner"]),
    ("GATE GET shop:g", ["owner"]), ("DEBOUNCE GET shop:d", ["owner"]),
    ("HUD GET shop:h", ["owner"]), ("HUD GET shop:h", ["holds", "0", "owner"]),
    ("HUD WHY shop:h", ["holders", "0"]), ("SCOPE GET shop:below", ["parent"]),
    ("PAGE GET shop:p", ["screen"]), ("NAV GET shop:n", ["page"]),
    ("NAV GET shop:n", ["pages", "0"]), ("COUNTDOWN PAUSE shop:c", ["owner"]),
    ("TIMER LIST", ["1", "0", "owner"]), ("SCOPE TREE shop:below", ["1", "0", "parent"]),
  ]

  @Test(arguments: Self.places.indices)
  func aReplyNamesOtherEntitiesOnlyToUsersWhoMayReadThem(index: Int) throws {
    try fill()
    let (line, path) = Self.places[index]
    func value(for session: Session) throws -> Reply {
      try path.reduce(try counter.say(line, by: session)) { reply, name in
        try #require(Int(name).map { reply.elements[$0] } ?? reply[name], "\(line) \(name)")
      }
    }
    let isText = line.hasPrefix("HUD WHY")
    #expect(try value(for: shop) == (isText ? .bulk("a scope") : .null), "\(line)")
    let known = path.last == "owner" || isText ? "scope:secret" : "secret"
    #expect(try value(for: audit) == .bulk(known), "\(line)")
    #expect(try value(for: counter.session) == .bulk(known), "\(line)")
  }

  @Test func anEventNamesOtherEntitiesOnlyToUsersWhoMayReadThem() throws {
    // Between the others, by the same pattern, is one who may read them.
    let again = counter.open(.resp3, as: Peer(uid: 5))
    for session in [shop, audit, again] { try counter.say("PSUBSCRIBE *:shop:*", by: session) }
    try fill()
    let all = try counter.take(audit)
    for session in [shop, again] {
      let some = try counter.take(session)
      #expect(some.count == all.count)
      for (some, all) in zip(some, all) {
        var all = "\(all)"
        for name in ["owner", "parent", "page", "screen"] {
          for key in ["scope:secret", "secret"] {
            all.replace("\\\"\(name)\\\":\\\"\(key)\\\"", with: "\\\"\(name)\\\":null")
          }
        }
        all.replace("\\\"pages\\\":[\\\"secret\\\"", with: "\\\"pages\\\":[null")
        #expect("\(some)" == all)
        #expect(!"\(some)".contains("secret"))
      }
    }
    #expect("\(all)".contains("holds\\\":[{"))
    #expect("\(all)".split(separator: "secret").count >= 10)
  }

  @Test func snapshotsNameOtherEntitiesOnlyToUsersWhoMayReadThem() throws {
    try fill()
    for (session, value) in [(shop, "null"), (audit, "\\\"scope:secret\\\"")] {
      let frames = try counter.frames(["SUBSCRIBE", "timer:shop:t", "SNAPSHOT"], by: session)
      #expect("\(frames)".contains("\\\"owner\\\":\(value)"), "\(frames)")
    }
  }

  @Test func theEventLogNamesOtherEntitiesOnlyToUsersWhoMayReadThem() throws {
    try counter.say("SCOPE OPEN secret")
    try counter.say("HUD SHOW shop:h DURABLE")
    try counter.say("HUD SHOW shop:h OWNER scope:secret")
    let some = "\(try counter.say("EVENTS SINCE 0", by: shop))"
    let all = "\(try counter.say("EVENTS SINCE 0", by: audit))"
    #expect(all.contains("\\\"owner\\\":\\\"scope:secret\\\""))
    #expect(all.replacing("\\\"scope:secret\\\"", with: "null") == some)
  }

  @Test func aRefusalNamesItsLimitOnlyToUsersWhoMayReadIt() throws {
    try counter.say("COUNTDOWN START shop:c POLICY login LIMIT secret:")
    counter.pass(2_000)
    for (session, limit) in [(shop, Reply.null), (counter.session, .bulk("secret:"))] {
      #expect(try counter.say("COUNTDOWN GET shop:c", by: session)["limit"] == limit)
    }
  }

  @Test func emitNamesAnotherScopeOnlyToUsersWhoMayReadIt() throws {
    try fill()
    let handler = counter.open(.resp3)
    try counter.say("SCOPE HANDLE secret tap", by: handler)
    #expect(try counter.say("SCOPE EMIT shop:below tap", by: shop) == .bulk("shop:below"))
    #expect(try counter.say("SCOPE EMIT shop:below tap") == .bulk("secret"))
    #expect(try counter.say("SCOPE EMIT shop:below other", by: shop) == .null)
  }

  @Test func aHandlerKnowsTheTargetOnlyIfItsUserMayReadIt() throws {
    try counter.say("SCOPE OPEN shop:up")
    try counter.say("SCOPE OPEN secret PARENT shop:up")
    for (session, target) in [(shop, "null"), (audit, "\\\"secret\\\"")] {
      try counter.say("SCOPE HANDLE shop:up tap", by: session)
      #expect(try counter.say("SCOPE EMIT secret tap") == .bulk("shop:up"))
      #expect("\(try counter.take(session))".contains("\\\"target\\\":\(target)"))
      try counter.say("SCOPE UNHANDLE shop:up tap", by: session)
    }
  }

  @Test(arguments: EntityKind.allCases)
  func everyFieldWithTheKeyOfAnotherEntityHasItsKind(kind: EntityKind) {
    func check<K: Kind>(_: K.Type) {
      for field in K.fields + K.events.flatMap(\.extra) where field.name != "key" {
        let isKey = [.key, .key.orNull, .list(.key), .list(.key.orNull)].contains(field.type)
        #expect(!isKey || field.other != nil, "\(field.name)")
      }
    }
    check(kind.behavior)
  }

  @Test func keysOfAnyBytesAreFoundInALine() {
    var random = SeededGenerator(seed: 57)
    let rights = AccessRules(keys: [KeyRule("none", keys: [])]).rights(of: Peer(uid: 5))!
    for _ in 0..<2_000 {
      let maximum: UInt8 = Bool.random(using: &random) ? 0x7F : 0xFF
      let keys = (0..<3).map { _ in
        (0..<Int.random(in: 1...9, using: &random)).map { _ in
          Bool.random(using: &random)
            ? UInt8.random(in: 0...maximum, using: &random)
            : "\"\\:[a,\n".utf8.randomElement(using: &random)!
        }
      }
      func line(_ write: (inout JSONLine) -> Void) -> [UInt8] {
        var line = JSONLine()
        line.begin()
        line.field("title", "\"owner\":\"scope:a\",\\")
        write(&line)
        line.field("leases", 1 as Int64)
        line.field("meta", bytes: keys[0])
        line.end()
        return Array(line.bytes)
      }
      let owned = line { $0.field("owner", bytes: Array("scope:".utf8) + keys[0]) }
      var found: [NamedKey]?
      #expect(rights.masked(owned.span, of: .timer, &found) == line { $0.null("owner") })
      #expect(found?.map(\.key) == [keys[0]] && found?[0].kind == .scope)
      let pages = line { $0.field("pages", list: keys) }
      var listed: [NamedKey]?
      let masked = rights.masked(pages.span, of: .nav, &listed) ?? []
      #expect(listed?.map(\.key) == keys)
      #expect(
        String(decoding: masked, as: UTF8.self).contains("\":[null,null,null],\"leases\":1"))
    }
  }
}
