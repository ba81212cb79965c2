import Countdowns
import SeededRandom

/// One seeded random history of a fleet: daemons on several hosts, clients that send them commands,
/// servers that they share, and trouble. `FleetCheck` checks the result.
package final class FleetSimulation {
  /// Faults that the check must find.
  package enum Fault: CaseIterable {
    /// Changes are confirmed though no replica has them, and a replica that lacks them takes over.
    case noReplicas
    /// The servers accept changes that were decided on another version of the record.
    case ignoredVersions
    /// Daemons forget missing replicas without asking who the primary is.
    case noMajority
    /// Daemons count the replicas that have a change, whichever they are.
    case countedReplicas
    /// The servers take a host for gone before its lease is over.
    case shortLeases
    /// The servers take no host for gone.
    case endlessLeases
  }

  private let seed: UInt64
  /// What daemons have copies of, by their numbers. Chosen apart from everything else, so that a
  /// seed makes the same history whatever they have.
  private var mirrors: SeededGenerator?
  let world: FleetWorld
  let settings: FleetSettings
  let engineSettings: EngineSettings
  private(set) var daemons: [ModelDaemon] = []
  /// All daemons, including those that have ended.
  private(set) var allDaemons: [ModelDaemon] = []
  private(set) var commands: [ClientCommand] = []
  private var repeatable: [ClientCommand] = []
  private var lastToken = 0
  /// Whether entries of a stream were lost, or may not have been read.
  private(set) var hasLostStream = false
  private(set) var wasFlushed = false
  /// Whether subscribers may miss events: entries of a stream were lost or removed.
  var mayMissEvents: Bool { hasLostStream || world.settings.streamLength < 1_000 }

  /// Whether clients take from several named limits, too.
  let hasLimits: Bool

  static let policies: [SendPolicy] = {
    var first = SendPolicy.Rules()
    first.every = .milliseconds(100)
    first.ladder = [.milliseconds(300), .milliseconds(900)]
    first.windows = [SendPolicy.Window(limit: 3, length: .milliseconds(6_000))]
    first.validity = .milliseconds(2_000)
    first.attempts = 3
    first.refunds = SendPolicy.Window(limit: 1, length: .milliseconds(3_000))
    first.guesses = SendPolicy.Window(limit: 4, length: .milliseconds(5_000))
    var second = SendPolicy.Rules()
    second.every = .milliseconds(100)
    second.count = 2
    second.windows = [
      SendPolicy.Window(limit: 2, length: .milliseconds(1_500)),
      SendPolicy.Window(limit: 5, length: .milliseconds(12_000)),
    ]
    second.channels = ["sms", "call", "mail", "post"]
    do {
      return [try SendPolicy(name: "first", first), try SendPolicy(name: "second", second)]
    } catch {
      preconditionFailure("\(error)")
    }
  }()

  /// - Parameter isAllMirrored: whether each daemon has copies of all records; else only some.
  package init(seed: UInt64, fault: Fault? = nil, isAllMirrored: Bool = false) {
    self.seed = seed
    hasLimits = fault == nil && seed % 3 == 0
    var choice = SeededGenerator(seed: seed ^ 0x5ED)
    if !isAllMirrored, Bool.random(using: &choice) { mirrors = choice }
    var random = SeededGenerator(seed: seed ^ 0xF1EE7)
    func chance(oneIn n: Int) -> Bool { Int.random(in: 0..<n, using: &random) == 0 }
    var settings = FleetWorldSettings()
    settings.daemons = Int.random(in: 2...4, using: &random)
    settings.shards = Int.random(in: 1...2, using: &random)
    settings.replicasPerShard = Int.random(in: 1...3, using: &random)
    settings.replicas = chance(oneIn: 4) ? .count(1) : .all
    settings.grace = .milliseconds(Int64.random(in: 200...1_500, using: &random))
    settings.partitions = settings.shards * Int.random(in: 1...2, using: &random)
    settings.streamLength = chance(oneIn: 5) ? Int.random(in: 1...20, using: &random) : 10_000
    // Half of the histories have at most one kind of trouble, so their failures are simple.
    if chance(oneIn: 2) {
      settings.trouble.connections = chance(oneIn: 2)
      settings.trouble.stops = chance(oneIn: 2)
      settings.trouble.delays = chance(oneIn: 2)
      settings.trouble.failovers = chance(oneIn: 2)
      settings.trouble.splitBrain = settings.trouble.failovers && chance(oneIn: 2)
      settings.trouble.absences = chance(oneIn: 2)
      settings.trouble.clocks = chance(oneIn: 3)
      settings.trouble.restarts = chance(oneIn: 3)
      settings.trouble.flushes = chance(oneIn: 6)
    } else if chance(oneIn: 2) {
      switch Int.random(in: 0..<6, using: &random) {
      case 0: settings.trouble.connections = true
      case 1: settings.trouble.stops = true
      case 2: settings.trouble.delays = true
      case 3:
        settings.trouble.failovers = true
        settings.trouble.absences = chance(oneIn: 2)
      case 4: settings.trouble.clocks = true
      default: settings.trouble.restarts = true
      }
    }
    // Where a number of replicas confirms, a primary that is replaced while it runs loses changes.
    if settings.replicas != .all { settings.trouble.splitBrain = false }
    switch fault {
    case .noReplicas:
      settings.replicas = .count(0)
      settings.trouble = FleetTrouble()
      settings.trouble.failovers = true
      settings.trouble.losesConfirmed = true
    case .ignoredVersions: settings.ignoresVersions = true
    case .noMajority, .countedReplicas:
      settings.replicas = .all
      settings.replicasPerShard = 2
      settings.grace = .milliseconds(fault == .noMajority ? 100 : 1_500)
      settings.asksNoMajority = fault == .noMajority
      settings.countsReplicas = fault == .countedReplicas
      settings.trouble = FleetTrouble()
      settings.trouble.failovers = true
      settings.trouble.splitBrain = fault == .noMajority
      settings.trouble.absences = fault == .countedReplicas
    case .shortLeases:
      settings.leaseLength = 500_000
      settings.trouble = FleetTrouble()
    case .endlessLeases:
      settings.leaseLength = 1 << 60
      settings.trouble = FleetTrouble()
      settings.trouble.restarts = true
    case nil: break
    }
    world = FleetWorld(settings, seed: seed)

    var fleet = FleetSettings()
    fleet.partitions = settings.partitions
    fleet.replicas = settings.replicas
    fleet.replicaGrace = settings.grace
    self.settings = fleet
    var engine = EngineSettings()
    for policy in Self.policies { engine.policies[policy.name] = policy }
    if hasLimits {
      engine.throttles = Self.limitRules(seed)
      engine.policies["limited"] = Self.limitedPolicy
    }
    engine.keepReady = .seconds(2)
    engine.keepPending = .seconds(3)
    engineSettings = engine
  }

  package func play(steps: Int) throws(Disagreement) {
    for (index, shard) in world.shards.enumerated() {
      shard.primary.begin(world.partitions(of: index))
    }
    for _ in 0..<world.settings.daemons { addDaemon() }
    if world.settings.trouble.clocks { setClocks() }
    world.agenda.run(until: 1_000_000) { world.problem != nil }
    for _ in 0..<steps where world.problem == nil { step() }
    if world.problem == nil { calmDown() }
    let check = FleetCheck(self)
    if let problem = world.problem ?? check.problem() {
      throw Disagreement(
        description: "fleet, seed \(seed) (\(world.settings.text), mirrors "
          + "\(allDaemons.map(\.fleet.settings.mirror.rawValue).joined(separator: " "))): "
          + problem)
    }
  }

  /// - Parameter memory: what the daemon before it has stored on the same host.
  private func addDaemon(_ memory: FleetMemory? = nil) {
    var settings = settings
    if mirrors != nil, Int.random(in: 0..<4, using: &mirrors!) > 0 { settings.mirror = .used }
    let daemon = ModelDaemon(
      UInt64(allDaemons.count + 1), settings, engine: engineSettings, memory: memory, world)
    daemons.append(daemon)
    allDaemons.append(daemon)
  }

  private func step() {
    let pause =
      switch Int.random(in: 0..<20, using: &world.random) {
      case 0..<8: world.number(0...3_000)
      case 8..<18: world.number(0...60_000)
      default: world.number(0...1_200_000)
      }
    world.agenda.run(until: world.agenda.now + pause) { world.problem != nil }
    switch Int.random(in: 0..<40, using: &world.random) {
    case 0: subscribe()
    case 1: makeTrouble()
    case 10:
      let daemon = world.pick(daemons)
      daemon.close(world.pick(daemon.sessions))
    case 2..<10 where hasLimits: rush()
    default: command()
    }
  }

  /// Ends all trouble, and waits until the fleet has recovered.
  private func calmDown() {
    world.isCalm = true
    for shard in world.shards {
      for server in shard.servers {
        server.clockError = 0
        if !server.isUp { server.start(serving: server === shard.primary) }
        server.cutReplication(false)
      }
      shard.demote()
    }
    world.agenda.run(until: world.agenda.now + 9_000_000) { world.problem != nil }
    // Something may be due at this very moment.
    for _ in 0..<5 where FleetCheck(self).checkEnd() != nil {
      world.agenda.run(until: world.agenda.now + 410_000) { world.problem != nil }
    }
  }

  // MARK: Clients

  private func command() {
    let daemon = world.pick(daemons)
    let session = world.pick(daemon.sessions)
    guard session.commandsUnderWay < 12 else { return }
    let command: ClientCommand
    repeatable.removeAll { $0.isCutOff }
    repeatable.removeAll { if case .unsure = $0.result { false } else { $0.reply != nil } }
    if let old = repeatable.first, old.reply != nil, world.chance(oneIn: 3) {
      // A client without a certain reply asks again, through any daemon.
      repeatable.removeFirst()
      command = daemon.submit(old.words, about: old.key, by: session)
    } else {
      let (key, words) = randomCommand()
      command = daemon.submit(words, about: key, by: session)
    }
    commands.append(command)
    if command.words.contains("TOKEN") { repeatable.append(command) }
  }

  /// Lets all hosts charge the same limits at once, before they hear of each other.
  private func rush() {
    for daemon in daemons {
      let session = world.pick(daemon.sessions)
      guard session.commandsUnderWay < 12 else { continue }
      let (key, words) = world.chance(oneIn: 2) ? randomTake() : randomLimitedStart()
      commands.append(daemon.submit(words, about: key, by: session))
    }
  }

  static let keys: [FleetKey] = [
    FleetKey(.countdown, Array("first-a".utf8)), FleetKey(.countdown, Array("first-b".utf8)),
    FleetKey(.countdown, Array("second-a".utf8)), FleetKey(.countdown, Array("plain".utf8)),
    FleetKey(.timer, Array("timer".utf8)), FleetKey(.timer, Array("every".utf8)),
    FleetKey(.throttle, Array("rate".utf8)), FleetKey(.once, Array("once".utf8)),
    FleetKey(.gate, Array("gate".utf8)), FleetKey(.debounce, Array("burst".utf8)),
  ]

  /// Returns the policy of a key, which begins with the policy's name.
  static func policy(of key: FleetKey) -> SendPolicy? {
    policies.first { key.kind == .countdown && key.name.hasPrefix($0.name) }
  }

  static let throttle = (burst: 3, count: 2, milliseconds: 1_000)

  /// Named limits, and countdowns that are charged to them. Only the sum of what is accepted is
  /// checked.
  static let limits = ["all:", "ip:1", "ip:2"].map { FleetKey(.throttle, Array($0.utf8)) }
  static let limited = ["limited-1", "limited-2", "limited-3"].map {
    FleetKey(.countdown, Array($0.utf8))
  }

  private static let limitedPolicy: SendPolicy = {
    var rules = SendPolicy.Rules()
    rules.every = .milliseconds(20)
    rules.validity = .milliseconds(500)
    rules.limits = ["ip", "all"]
    rules.attemptLimits = ["ip"]
    return try! SendPolicy(name: "limited", rules)
  }()

  private static let rate = Throttle.Rate(
    burst: Int64(throttle.burst), count: Int64(throttle.count),
    period: .milliseconds(Int64(throttle.milliseconds)))

  private static func limitRules(_ seed: UInt64) -> [String: LimitRules] {
    var (ip, all) = (LimitRules.Rules(), LimitRules.Rules())
    (ip.rate, all.rate, all.isGlobal) = (rate, rate, true)
    if seed / 6 % 2 == 0 {
      func window(_ limit: Int, _ milliseconds: Int64) -> SendPolicy.Window {
        SendPolicy.Window(limit: limit, length: .milliseconds(milliseconds))
      }
      (ip.rate, ip.windows) = (nil, [window(3, 1_500), window(9, 8_000)])
      ip.passed = .init(least: 50, of: 2, within: .seconds(5), block: .milliseconds(1_200))
      all.windows = [window(5, 2_000)]
    }
    return ["ip": try! LimitRules(ip), "all": try! LimitRules(all)]
  }

  /// Returns the rules of a rate limit.
  func rules(of key: FleetKey) -> LimitRules.Rules {
    if let limit = engineSettings.throttles[String(key.name.prefix { $0 != ":" })] {
      return limit.rules
    }
    var rules = LimitRules.Rules()
    rules.rate = Self.rate
    return rules
  }

  /// How much of a limit a command takes.
  static func cost(of command: ClientCommand, for limit: FleetKey) -> Int {
    guard command.reply?["accepted"]?.bool == true, !command.words.contains("PEEK"),
      command.reply?["reason"]?.string != "repeated"
    else { return 0 }
    switch command.words[1] {
    case "TAKE" where command.words.contains(limit.name):
      return command.words.contains("COST") ? 2 : 1
    case "START", "RESEND":
      guard limited.contains(command.key) else { return 0 }
      return limit.name == "all:" || command.words.contains(limit.name) ? 1 : 0
    case "ATTEMPT": return command.words.contains(limit.name) ? 1 : 0
    default: return 0
    }
  }

  /// Returns the id of what a command has taken from a limit; nil if it has no record of that.
  static func id(of command: ClientCommand, for limit: FleetKey) -> Int? {
    let view = command.reply?["views"]?.elements?.first { $0["key"]?.string == limit.name }
    return view?["id"]?.int
  }

  /// Whether what was sent may be given back, so that the limit has room for others.
  var refundsSends: Bool { seed % 6 == 0 }

  private func randomLimitedStart() -> (FleetKey, [String]) {
    let key = world.pick(Self.limited)
    let limit = "LIMIT ip:\(world.number(1...2))"
    lastToken += 1
    let start = "COUNTDOWN START \(key.name) POLICY limited \(limit)"
    let attempt = "COUNTDOWN ATTEMPT \(key.name) \(limit)"
    var choices = [
      start, start, "\(start) TOKEN t\(lastToken)", "COUNTDOWN RESEND \(key.name) \(limit)",
      "COUNTDOWN CANCEL \(key.name)", "COUNTDOWN GET \(key.name)", "COUNTDOWN PASS \(key.name)",
      attempt, "\(attempt) ANY", "\(attempt) TOKEN t\(lastToken)",
    ]
    if refundsSends {
      choices.append("COUNTDOWN REFUND \(key.name) GENERATION \(someGeneration(of: key))")
    }
    return (key, world.pick(choices).split(separator: " ").map(String.init))
  }

  /// Gives back what one of the newest TAKEs has taken from a limit.
  private func randomRefund() -> (FleetKey, [String])? {
    let limit = world.pick(Self.limits)
    let ids = commands.suffix(100).compactMap { Self.id(of: $0, for: limit) }.suffix(6)
    guard let id = ids.randomElement(using: &world.random) else { return nil }
    return (limit, ["THROTTLE", "REFUND", limit.name, "\(world.number(1...2))", "ID", "\(id)"])
  }

  private func randomTake() -> (FleetKey, [String]) {
    if world.chance(oneIn: 4), let refund = randomRefund() { return refund }
    let ip = world.pick(["ip:1", "ip:2"])
    let words = ["THROTTLE", "TAKE"] + (world.chance(oneIn: 2) ? [ip, "all:"] : ["all:", ip])
    let key = FleetKey(.throttle, Array(words[2].utf8))
    switch Int.random(in: 0..<6, using: &world.random) {
    case 0: return (key, words + ["PEEK"])
    case 1: return (key, words + ["COST", "2"])
    case 2: return (key, Array(words.prefix(3)))
    case 3:
      lastToken += world.chance(oneIn: 2) ? 1 : 0
      return (key, words + ["TOKEN", "t\(lastToken)"])
    default: return (key, words)
    }
  }

  private func randomCommand() -> (FleetKey, [String]) {
    if hasLimits, world.chance(oneIn: 3) {
      return world.chance(oneIn: 3) ? randomTake() : randomLimitedStart()
    }
    let key = world.pick(Self.keys)
    let name = key.name
    func choice(_ commands: [String]) -> [String] {
      world.pick(commands).split(separator: " ").map(String.init)
    }
    lastToken += 1
    let owner = world.chance(oneIn: 4) ? " OWNER connection" : ""
    let generation = world.chance(oneIn: 3) ? "" : " GENERATION \(someGeneration(of: key))"
    let words: [String]
    switch key.kind {
    case .countdown:
      let policy = Self.policy(of: key).map { "POLICY \($0.name)" } ?? "COUNT 4 EVERY 100ms"
      let start = "COUNTDOWN START \(name) \(policy)\(owner)"
      let others =
        policy.hasPrefix("POLICY")
        ? [
          "COUNTDOWN REFUND \(name) GENERATION \(someGeneration(of: key))",
          "COUNTDOWN ATTEMPT \(name)\(generation)", "COUNTDOWN PASS \(name)\(generation)",
          "COUNTDOWN ATTEMPT \(name) ANY", "COUNTDOWN PAUSE \(name)", "COUNTDOWN RESUME \(name)",
        ]
        : [
          "COUNTDOWN PAUSE \(name)\(generation)", "COUNTDOWN RESUME \(name)\(generation)",
          "COUNTDOWN RETIME \(name) 700ms\(generation)",
        ]
      words =
        world.chance(oneIn: 3)
        ? choice(
          others + [
            "COUNTDOWN GET \(name)", "COUNTDOWN CANCEL \(name)\(generation)",
            "COUNTDOWN RESEND \(name)", "COUNTDOWN RESEND \(name) TOKEN r\(lastToken)",
          ])
        : choice([start, start + " TOKEN t\(lastToken)", start + " TOKEN t\(lastToken)"])
    case .timer:
      let every = name == "every" ? " EVERY 400ms" : ""
      words = choice([
        "TIMER SET \(name) 300ms\(every)\(owner)",
        "TIMER SET \(name) 900ms\(every) PAYLOAD p\(lastToken)",
        "TIMER SET \(name) 60s OWNER connection",
        "TIMER SET \(name) 700ms\(every) KEEP PAYLOAD k\(lastToken)",
        "TIMER SET \(name) 800ms\(every) NX",
        // One that fires once would have no record.
        "TIMER SET \(name) \(name == "every" ? "AT 0" : "350ms")\(every) LATE skip",
        "TIMER SET \(name) 400ms\(every) CLOCK wall LATE skip",
        "TIMER GET \(name)", "TIMER DEL \(name)\(generation)", "TIMER PAUSE \(name)\(generation)",
        "TIMER RESUME \(name)\(generation)", "TIMER RETIME \(name) 500ms\(generation)",
      ])
    case .throttle:
      let limit =
        "BURST \(Self.throttle.burst) RATE \(Self.throttle.count)/\(Self.throttle.milliseconds)ms"
      words = choice([
        "THROTTLE TAKE \(name) \(limit)", "THROTTLE TAKE \(name) \(limit) COST 2",
        "THROTTLE TAKE \(name) \(limit) PEEK", "THROTTLE GET \(name)",
      ])
    case .once:
      words = choice([
        "ONCE BEGIN \(name) TTL 1500ms", "ONCE BEGIN \(name) TTL 1500ms\(owner)",
        "ONCE BEGIN \(name) TTL 1500ms LEASE 400ms FINGERPRINT \(lastToken % 2)\(owner)",
        "ONCE EXTEND \(name)\(generation)", "ONCE EXTEND \(name) LEASE 200ms\(generation)",
        "ONCE DONE \(name) result-\(lastToken)\(generation)", "ONCE CANCEL \(name)\(generation)",
        "ONCE GET \(name)",
      ])
    case .gate:
      words = choice([
        "GATE CHECK \(name) action-\(lastToken)\(owner)", "GATE TAKE \(name)\(generation)",
        "GATE TAKE \(name)", "GATE DONE \(name)\(generation)",
        "GATE CHECK \(name) action-\(lastToken) TTL 400ms",
        "GATE OPEN \(name) TTL 800ms", "GATE OPEN \(name)", "GATE CLOSE \(name)\(generation)",
        "GATE CANCEL \(name)\(generation)", "GATE GET \(name)",
      ])
    default:
      words = choice([
        "DEBOUNCE CALL \(name) 200ms PAYLOAD p\(lastToken)\(owner)",
        "DEBOUNCE CALL \(name) 200ms LEADING",
        "DEBOUNCE CALL \(name) 200ms EDGES both SPACING 600ms PAYLOAD p\(lastToken)",
        "DEBOUNCE CALL \(name) 200ms EDGES leading MAXWAIT 300ms",
        "DEBOUNCE CALL \(name) 200ms MAXWAIT 500ms", "DEBOUNCE CANCEL \(name)\(generation)",
        "DEBOUNCE FLUSH \(name)\(generation)", "DEBOUNCE GET \(name)",
      ])
    }
    return (key, words)
  }

  /// Returns the generation in one of the newest replies about a key.
  private func someGeneration(of key: FleetKey) -> Int {
    let known = commands.suffix(200).filter { $0.key == key }.compactMap {
      $0.reply?["generation"]?.int
    }
    return known.suffix(4).randomElement(using: &world.random) ?? 1
  }

  private func subscribe() {
    let daemon = world.pick(daemons)
    daemon.subscribe(world.pick(daemon.sessions), to: world.pick(Self.keys))
  }

  // MARK: Trouble

  private func makeTrouble() {
    let trouble = world.settings.trouble
    let shard = world.pick(world.shards)
    let shardIndex = world.shards.firstIndex { $0 === shard }!
    let daemon = world.pick(daemons)
    var kinds: [() -> Void] = []
    if trouble.connections {
      kinds.append { daemon.link.connection(shardIndex)?.end() }
      kinds.append { daemon.link.connection(shardIndex)?.isSilent = true }
      kinds.append { [world] in daemon.cutOff(for: world.number(4_000_000...9_000_000)) }
    }
    if trouble.stops {
      kinds.append { [world] in shard.primary.stop(for: world.number(5_000...1_500_000)) }
      kinds.append { [world] in daemon.pause(for: world.number(5_000...800_000)) }
      kinds.append { [world] in daemon.pause(for: world.number(4_000_000...9_000_000)) }
      kinds.append { [self] in cutReplication(of: shard) }
    }
    if trouble.failovers {
      kinds.append { [self] in failOver(shard) }
      kinds.append { [self] in failOver(shard) }
      if trouble.losesConfirmed { kinds.append { [self] in cutReplication(of: shard) } }
    }
    if trouble.absences {
      kinds.append { [self] in leave(shard) }
      kinds.append { [self] in leave(shard) }
    }
    if trouble.clocks { kinds.append { [self] in setClocks() } }
    if trouble.flushes {
      kinds.append { [self] in
        shard.primary.flushAll()
        hasLostStream = true
        wasFlushed = true
      }
    }
    if trouble.restarts {
      kinds.append { [self] in
        daemons.removeAll { $0 === daemon }
        daemon.end()
        addDaemon(daemon.memory)
      }
    }
    if !kinds.isEmpty { world.pick(kinds)() }
  }

  private func setClocks() {
    for server in world.shards.flatMap(\.servers) where world.chance(oneIn: 2) {
      server.clockError = world.number(-300_000...300_000)
      world.clockErrors.append(server.clockError)
    }
  }

  private func cutReplication(of shard: ModelShard) {
    let primary = shard.primary
    primary.cutReplication(true)
    world.agenda.after(world.number(10_000...1_000_000)) { primary.cutReplication(false) }
  }

  /// Detaches a replica from its primary for a while.
  private func leave(_ shard: ModelShard) {
    let attached = shard.servers.filter { shard.primary.hasAttached($0) }
    guard !attached.isEmpty else { return }
    let replica = world.pick(attached)
    shard.primary.detach(replica)
    world.agenda.after(world.number(10_000...3_000_000)) {
      guard replica.isUp, shard.primary !== replica, !shard.isFormer(replica) else { return }
      shard.primary.attach(replica)
    }
  }

  /// Lets a replica take over, if one can.
  private func failOver(_ shard: ModelShard) {
    guard shard.former.isEmpty, shard.primary.isUp else { return }
    let old = shard.primary
    let hasEnded = !world.settings.trouble.splitBrain || world.chance(oneIn: 2)
    if hasEnded { old.crash() }
    world.agenda.after(world.number(100_000...1_500_000)) { [self] in
      // The old primary may have been started again, because trouble has ended.
      guard shard.primary === old, !(hasEnded && old.isUp) else { return }
      let replicas = shard.servers.filter { $0 !== old && $0.isUp }
      guard let next = successor(of: old, among: replicas) else {
        if hasEnded { old.start(serving: true) }
        return
      }
      if next.log.count < old.log.count || !hasEnded { hasLostStream = true }
      // A primary that runs on may keep a replica until then.
      let kept = hasEnded ? nil : replicas.first { $0 !== next }
      shard.promote(next, keeping: world.chance(oneIn: 2) ? nil : kept)
      world.agenda.after(world.number(100_000...2_000_000)) {
        if !old.isUp { old.start(serving: false) }
        shard.demote()
      }
    }
  }

  /// Returns a replica that may be promoted. With `replicas: all` any that the primary has had
  /// within the grace, whatever it has.
  private func successor(of old: ModelServer, among replicas: [ModelServer]) -> ModelServer? {
    let maximum = { (servers: [ModelServer]) in servers.max { $0.log.count < $1.log.count } }
    if world.settings.trouble.losesConfirmed { return maximum(replicas) }
    guard world.settings.replicas == .all else {
      return maximum(replicas.filter { $0.log.count >= old.lastConfirmed })
    }
    let grace = world.settings.grace.microseconds
    let possible = replicas.filter { old.hasHad($0, within: grace) }
    return possible.isEmpty ? nil : world.pick(possible)
  }
}
