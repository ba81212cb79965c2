import SeededRandom
import Testing
import Wire

@testable import Countdowns

/// Random requests of users with random rules: what they get and change is what the rules allow.
@Suite struct RightsWalkTests {
  @Test(arguments: 1...4 as ClosedRange<UInt64>)
  func noReplyEventOrChangeConcernsAKeyThatTheRulesForbid(seed: UInt64) throws {
    let walk = try RightsWalk(seed: seed)
    try walk.run(steps: 600)
    #expect(walk.violations == [])
    #expect(walk.accepted > 50)
    #expect(walk.refused > 50)
  }

  /// The walk does notice: the same with a rule that the daemon does not know.
  @Test func aRuleThatTheDaemonDoesNotKeepIsFound() throws {
    let walk = try RightsWalk(seed: 1, forgets: true)
    try walk.run(steps: 600)
    #expect(walk.violations.contains { $0.contains("reads") })
    #expect(walk.violations.contains { $0.contains("changes") })
  }

  /// What a command causes besides is no violation, and is counted: see docs/howto/access.md.
  @Test func chargesToTheLimitsOfAPolicyAreCaused() throws {
    let walk = try RightsWalk(seed: 1)
    try walk.run(steps: 600)
    #expect(walk.caused["COUNTDOWN throttle", default: 0] > 0, "\(walk.caused)")
  }
}

private final class RightsWalk {
  private struct Entity: Hashable {
    let kind: EntityKind
    let key: String
  }

  private let harness: DispatcherHarness
  private var random: SeededGenerator
  /// What the walk expects of each user: by number, its rules.
  private var expected: [UInt32: [KeyRule]] = [:]
  private var users: [Session] = []
  private let entities: [Entity]
  private var views: [Entity: String] = [:]
  private var generations = ["1"]

  private(set) var violations: [String] = []
  /// Changes of entities without a right to them: by the command's group and the entity's kind.
  private(set) var caused: [String: Int] = [:]
  private(set) var accepted = 0
  private(set) var refused = 0

  /// - Parameter forgets: whether the daemon gets one more rule than the walk.
  init(seed: UInt64, forgets: Bool = false) throws {
    random = SeededGenerator(seed: seed)
    entities = EntityKind.allCases.flatMap { kind in
      Self.keys(of: kind).map { Entity(kind: kind, key: $0) }
    }
    var settings = Dispatcher.Settings()
    // One who may send codes under limits that are somebody else's.
    let sender = KeyRule("sender", who: Principals(users: [5]), keys: [Array("*1".utf8)])
    settings.access.keys = [sender]
    expected[5] = [sender]
    for uid in 6...8 as ClosedRange<UInt32> {
      for number in 0..<Int.random(in: 1...3, using: &random) {
        let rule = KeyRule(
          "\(uid)-\(number)", who: Principals(users: [uid]), kinds: Self.kinds(&random),
          keys: [Array(["*1", "*2", "*", "s-*", "ip:*"].randomElement(using: &random)!.utf8)],
          role: Int.random(in: 0..<3, using: &random) == 0 ? .readOnly : .readWrite)
        settings.access.keys.append(rule)
        expected[uid, default: []].append(rule)
      }
    }
    if forgets {
      settings.access.keys.append(KeyRule("more", keys: [Array("*".utf8)]))
    }
    harness = DispatcherHarness(settings, engine: try Self.engine())
    for uid in expected.keys.sorted() { users.append(harness.open(.resp3, as: Peer(uid: uid))) }
  }

  private static func kinds(_ random: inout SeededGenerator) -> [EntityKind] {
    if Bool.random(using: &random) { return EntityKind.allCases }
    return EntityKind.allCases.filter { _ in Bool.random(using: &random) }
  }

  private static func keys(of kind: EntityKind) -> [String] {
    switch kind {
    case .throttle: ["ip:1", "ip:2", "all:", "prefix:countdown"]
    // A page of a stack has a scope, and shows a HUD, with its key.
    case .scope, .page, .hud: ["s-1", "s-2", "s-3"]
    default: ["\(kind)-1", "\(kind)-2"]
    }
  }

  /// A policy with a limit that START names, one that is derived, and one for all.
  private static func engine() throws -> EngineSettings {
    func limit(
      _ count: Int64, isGlobal: Bool = false, droppedSuffixLength: Int? = nil
    ) throws -> LimitRules {
      var rules = LimitRules.Rules()
      rules.rate = Throttle.Rate(burst: count, count: count, period: .seconds(60))
      rules.isGlobal = isGlobal
      rules.droppedSuffixLength = droppedSuffixLength
      return try LimitRules(rules)
    }
    var login = SendPolicy.Rules()
    login.ladder = [.seconds(1)]
    login.limits = ["ip", "prefix", "all"]
    var settings = EngineSettings()
    settings.throttles = [
      "ip": try limit(5), "prefix": try limit(9, droppedSuffixLength: 2),
      "all": try limit(50, isGlobal: true),
    ]
    settings.policies = ["login": try SendPolicy(name: "login", login)]
    return settings
  }

  // MARK: Walking

  func run(steps: Int) throws {
    for user in users { _ = try harness.frames(["PSUBSCRIBE", "*"], by: user) }
    views = try look()
    for step in 0..<steps {
      for user in users { _ = try harness.take(user) }
      if Int.random(in: 0..<10, using: &random) == 0 {
        harness.pass(Int64.random(in: 1...3_000, using: &random))
        for user in users { try checkPushes(to: user, after: "step \(step): time passes") }
        views = try look()
        continue
      }
      try request(step)
    }
  }

  private func request(_ step: Int) throws {
    let user = users.randomElement(using: &random)!
    let specs = harness.dispatcher.table.rows.filter { spec in
      spec.group.kind != nil && spec.subcommand != "HELP"
        || ["EVENTS SINCE", "PUBSUB CHANNELS"].contains(spec.fullName)
    }
    // Few random options make a countdown under limits.
    let isStart = Int.random(in: 0..<5, using: &random) == 0
    let spec = specs.filter { !isStart || $0.fullName == "COUNTDOWN START" }
      .randomElement(using: &random)!
    let words = isStart ? start() : words(spec)
    let line = "step \(step): uid \(user.client.uid): \(words.joined(separator: " "))"
    harness.run(words, by: user)
    let frames = try harness.take(user)
    for frame in frames {
      if case .push = frame { continue }
      if case .error = frame { refused += 1 } else { accepted += 1 }
      if let generation = frame["generation"]?.text { generations.append(generation) }
      check(frame, to: user, knows: words.joined(separator: " "), line)
    }
    for frame in frames { checkPush(frame, to: user, line) }
    for other in users where other !== user { try checkPushes(to: other, after: line) }
    try checkChanges(by: user, spec, line)
  }

  private func start() -> [String] {
    let (key, limit) = (Self.keys(of: .countdown), ["ip:1", "ip:2"])
    return ["COUNTDOWN", "START", key.randomElement(using: &random)!, "POLICY", "login"]
      + ["LIMIT", limit.randomElement(using: &random)!]
  }

  private func words(_ spec: CommandSpec) -> [String] {
    var words = [spec.name] + (spec.subcommand.map { [$0] } ?? [])
    if spec.fullName == "EVENTS SINCE" { return words + ["0", "LIMIT", "20"] }
    for (index, parameter) in spec.parameters.enumerated() {
      guard !parameter.isOptional || Bool.random(using: &random) else { continue }
      if let token = parameter.token { words.append(token) }
      let kind = index == 0 ? spec.group.kind : parameter.other
      for name in parameter.value.split(separator: " ") {
        words.append(value(parameter, String(name), kind))
      }
    }
    return words
  }

  private func value(_ parameter: Parameter, _ name: String, _ kind: EntityKind?) -> String {
    if let kind, parameter.type == .key {
      return Self.keys(of: kind).randomElement(using: &random)!
    }
    if parameter.token == "POLICY" { return "login" }
    switch parameter.type {
    case .owner:
      return ["none", "connection", "scope:s-1", "scope:s-2"].randomElement(using: &random)!
    case .choice(let words): return words.randomElement(using: &random)!
    case .toggle: return ["on", "off"].randomElement(using: &random)!
    case .duration, .durationOr: return ["50ms", "2s", "1h"].randomElement(using: &random)!
    case .generation: return generations.suffix(5).randomElement(using: &random)!
    case .rate: return "5/1m"
    case .integer(let range): return "\(min(max(range.lowerBound, 3), range.upperBound))"
    case .number: return "0.5"
    case .token: return ["t1", "t2"].randomElement(using: &random)!
    default: return name == "pattern" ? "*" : "tap"
    }
  }

  // MARK: Checking

  /// Returns whether the rules that the walk knows allow it.
  private func may(_ user: Session, _ entity: Entity, isChange: Bool) -> Bool {
    expected[user.client.uid]!.contains {
      (!isChange || $0.role == .readWrite) && $0.matches(entity.kind, entity.key.utf8.span)
    }
  }

  private func checkPushes(to user: Session, after line: String) throws {
    for frame in try harness.take(user) { checkPush(frame, to: user, line) }
  }

  private func checkPush(_ frame: Reply, to user: Session, _ line: String) {
    if case .push = frame { check(frame, to: user, knows: "", line) }
  }

  /// A frame names only keys that its reader may read in some kind, or has just sent.
  private func check(_ frame: Reply, to user: Session, knows words: String, _ line: String) {
    var text = frame.text
    // The key of a derived limit contains that of its countdown.
    let keys = Set(entities.map(\.key)).sorted { ($0.utf8.count, $0) > ($1.utf8.count, $1) }
    for key in keys where text.contains(key) {
      text = text.split(separator: key).joined()
      if words.contains(key) { continue }
      let isAllowed = entities.contains { $0.key == key && may(user, $0, isChange: false) }
      if !isAllowed {
        violations.append("\(line): uid \(user.client.uid) reads \(key) in \(frame.text)")
      }
    }
  }

  private func checkChanges(by user: Session, _ spec: CommandSpec, _ line: String) throws {
    let before = views
    views = try look()
    for entity in entities
    where views[entity] != before[entity] && !may(user, entity, isChange: true) {
      if Self.isCaused(entity, by: spec.group.kind, before[entity] ?? "") {
        caused["\(spec.name) \(entity.kind)", default: 0] += 1
      } else {
        violations.append(
          "\(line): changes \(entity): \(before[entity] ?? "") to \(views[entity] ?? "")")
      }
    }
  }

  /// What docs/howto/access.md lists as caused.
  private static func isCaused(_ entity: Entity, by kind: EntityKind?, _ view: String) -> Bool {
    switch (kind, entity.kind) {
    case (.countdown, .throttle): entity.key.hasPrefix("all") || entity.key.hasPrefix("prefix")
    // It waits for a limit whose room another one takes or gives back.
    case (.countdown, .countdown), (.throttle, .countdown): view.contains("login")
    // A page of a stack is a scope, which owns things.
    case (.nav, .page), (.nav, .hud), (.nav, .scope), (.scope, .scope), (.page, .hud): true
    case (.nav, _), (.scope, _): view.contains("scope:")
    default: false
    }
  }

  /// Returns the views of all entities, as a user sees them who may read all.
  private func look() throws -> [Entity: String] {
    var views: [Entity: String] = [:]
    for entity in entities {
      let reply = try harness.frames(["\(entity.kind.name)".uppercased(), "GET", entity.key])
      views[entity] = reply.map(\.text).joined()
    }
    return views
  }
}
