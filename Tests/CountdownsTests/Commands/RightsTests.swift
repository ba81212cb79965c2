import Testing
import Wire

@testable import Countdowns

/// Rules about keys.
@Suite struct RightsTests {
  private static let shop = Peer(uid: 5)
  private static let reader = Peer(uid: 6)
  private static let stranger = Peer(uid: 7, groups: [7])
  private static let admin = Peer(uid: 0)

  private static let rules = [
    KeyRule("shop", who: Principals(users: [5]), keys: [bytes("shop:*"), bytes("s?op")]),
    KeyRule("read", who: Principals(users: [6]), keys: [bytes("*")], role: .readOnly),
    KeyRule("team", who: Principals(groups: [50]), kinds: [.timer, .scope], keys: [bytes("*")]),
    KeyRule("all", kinds: [.once], keys: [bytes("public")]),
  ]

  private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  private func harness(_ rules: [KeyRule] = rules) -> DispatcherHarness {
    var settings = Dispatcher.Settings()
    settings.access.keys = rules
    return DispatcherHarness(settings)
  }

  private func isRefused(_ reply: Reply) -> Bool {
    if case .error(let text) = reply { text.hasPrefix("NOPERM") } else { false }
  }

  private func permission(
    _ peer: Peer, _ kind: EntityKind, _ key: String, isChange: Bool = true
  ) -> String? {
    AccessRules(keys: Self.rules).rights(of: peer)?
      .permission(for: kind, key.utf8.span, isChange: isChange)
  }

  // MARK: Matching

  @Test func withoutRulesThereIsNothingToCheck() {
    #expect(AccessRules().rights(of: Self.stranger) == nil)
    #expect(harness([]).session.rights == nil)
  }

  @Test func aRuleAllowsItsUsersItsKindsAndItsKeys() {
    #expect(permission(Self.shop, .countdown, "shop:1") == "shop")
    #expect(permission(Self.shop, .page, "stop") == "shop")
    #expect(permission(Self.shop, .countdown, "shop") == "shop")
    #expect(permission(Self.shop, .countdown, "my shop:1") == nil)
    #expect(permission(Self.stranger, .countdown, "shop:1") == nil)
    let member = Peer(uid: 7, groups: [7, 50])
    #expect(permission(member, .timer, "any") == "team")
    #expect(permission(member, .countdown, "any") == nil)
  }

  @Test func aRuleWithoutUsersAndGroupsIsForEverybody() {
    #expect(permission(Self.stranger, .once, "public") == "all")
    #expect(permission(Self.stranger, .once, "private") == nil)
    #expect(permission(Self.shop, .once, "public") == "all")
  }

  @Test func theReadOnlyRoleReadsAndChangesNothing() {
    #expect(permission(Self.reader, .hud, "k", isChange: false) == "read")
    #expect(permission(Self.reader, .hud, "k") == nil)
    #expect(permission(Self.reader, .once, "public") == "all", "another rule may allow it")
  }

  @Test func rootTheDaemonsUserAndAdminsMayDoEverything() {
    var access = AccessRules(
      admin: Principals(users: [9]), keys: Self.rules, daemonUser: 1_000)
    access.keys.removeLast()
    for uid: UInt32 in [0, 1_000, 9] {
      let rights = access.rights(of: Peer(uid: uid))
      #expect(rights?.permission(for: .nav, "k".utf8.span, isChange: true) == "access.admin")
    }
  }

  // MARK: Commands

  /// Words for a command about a key, which need not make sense: rights are checked before.
  private func words(_ spec: CommandSpec, key: String) -> [String] {
    var words = [spec.name] + (spec.subcommand.map { [$0] } ?? []) + [key]
    while words.count < spec.arguments.least { words.append("x") }
    return words
  }

  @Test func everyCommandAboutAKeyIsRefusedWithoutARule() throws {
    let counter = harness()
    let (stranger, reader) = (counter.open(as: Self.stranger), counter.open(as: Self.reader))
    var others: Set<String> = []
    for spec in counter.dispatcher.table.rows where spec.group.kind != nil {
      guard spec.keyPosition > 0 else {
        others.insert(spec.subcommand ?? spec.name)
        continue
      }
      let words = words(spec, key: "k")
      #expect(isRefused(try counter.frames(words, by: stranger)[0]), "\(words)")
      let isChange = !spec.flags.contains(.readOnly)
      #expect(isRefused(try counter.frames(words, by: reader)[0]) == isChange, "\(words)")
    }
    #expect(others == ["LIST", "HELP", "MASK"], "what has no key needs a check of its own")
  }

  @Test func aRefusalSaysWhatWouldAllowIt() throws {
    let counter = harness()
    let stranger = counter.open(as: Self.stranger)
    #expect(
      try counter.say("TIMER SET k 1h", by: stranger)
        == .error(
          "NOPERM TIMER SET: no rule of access.rules lets uid 7 change timer 'k'; "
            + "{users: [7], keys: [\"k\"]} would allow it"))
    #expect(
      try counter.say("TIMER GET k", by: stranger)
        == .error(
          "NOPERM TIMER GET: no rule of access.rules lets uid 7 read timer 'k'; "
            + "{users: [7], keys: [\"k\"], role: read-only} would allow it"))
    #expect(try counter.say("TIMER GET k") == .null)
  }

  @Test(arguments: [
    "COUNTDOWN START shop:1 LIMIT ip:1", "THROTTLE TAKE shop:1 ip:1",
    "TIMER SET shop:1 1h OWNER scope:other", "SCOPE OPEN shop:1 PARENT other",
    "NAV PUSH shop:1 other", "NAV PUSH shop:1 shop:2 PARENT other",
    "NAV PUSH shop:1 shop:2 PAGE SCREEN other", "PAGE APPEAR shop:1 SCREEN other",
    "TIMER LIST OWNER scope:other", "SUBSCRIBE timer:other", "SUBSCRIBE timer:shop:1 hud:other",
    "PUBSUB NUMSUB timer:shop:1 timer:other",
  ])
  func otherKeysOfACommandAreCheckedAsWell(line: String) throws {
    let counter = harness()
    try counter.say("SCOPE OPEN other")
    let reply = try counter.frames(
      line.split(separator: " ").map(String.init), by: counter.open(as: Self.shop))
    #expect(reply.count == 1 && isRefused(reply[0]), "\(reply)")
  }

  @Test func aPageThatIsPushedTakesTheRightsOfItsScopeAndOfAPage() throws {
    let scopes = KeyRule("s", kinds: [.nav, .scope], keys: [Self.bytes("*")])
    let counter = harness([scopes])
    let stranger = counter.open(as: Self.stranger)
    #expect(!isRefused(try counter.say("NAV PUSH stack a", by: stranger)))
    #expect(isRefused(try counter.say("NAV PUSH stack b PAGE", by: stranger)))
  }

  @Test func multiChecksWhatItQueuesAndAgainWhatItRuns() throws {
    let counter = harness()
    let shop = counter.open(as: Self.shop)
    try counter.say("MULTI", by: shop)
    #expect(isRefused(try counter.say("TIMER SET other 1h", by: shop)))
    guard case .error(let text) = try counter.say("EXEC", by: shop) else {
      Issue.record("EXEC runs what was refused")
      return
    }
    #expect(text.hasPrefix("EXECABORT"))

    try counter.say("MULTI", by: shop)
    #expect(try counter.say("TIMER SET shop:1 1h", by: shop) == .simple("QUEUED"))
    var settings = counter.dispatcher.settings
    settings.access.keys.removeFirst()
    counter.dispatcher.reload(settings)
    guard case .array(let replies) = try counter.say("EXEC", by: shop) else {
      Issue.record("EXEC has no replies")
      return
    }
    #expect(replies.count == 1 && isRefused(replies[0]))
    #expect(try counter.say("TIMER GET shop:1") == .null)
  }

  // MARK: Others' entities

  @Test func aChangeOfAnotherUsersEntityIsReportedOnceWithWhatAllowedIt() throws {
    let counter = harness()
    let (shop, root) = (counter.open(as: Self.shop), counter.open(as: Self.admin))
    try counter.say("COUNTDOWN START shop:1", by: shop)
    try counter.say("COUNTDOWN PAUSE shop:1", by: shop)
    try counter.say("COUNTDOWN GET shop:1", by: root)
    try counter.say("COUNTDOWN CANCEL other", by: root)
    #expect(counter.host.foreignChanges == [])
    try counter.say("COUNTDOWN RESUME shop:1", by: root)
    try counter.say("MULTI", by: root)
    try counter.say("COUNTDOWN CANCEL shop:1", by: root)
    #expect(counter.host.foreignChanges.count == 1, "it is only queued")
    try counter.say("EXEC", by: root)
    #expect(
      counter.host.foreignChanges
        == ["COUNTDOWN RESUME", "COUNTDOWN CANCEL"].map {
          ForeignChange(
            command: $0, kind: .countdown, key: Self.bytes("shop:1"), maker: 5,
            permission: "access.admin")
        })
    try counter.say("TIMER SET shop:2 1h", by: root)
    try counter.say("TIMER DEL shop:2", by: shop)
    #expect(counter.host.foreignChanges.last?.permission == "shop")
    #expect(counter.host.foreignChanges.last?.maker == 0)
  }
}
