import Countdowns
import SeededRandom
import Wire

/// A daemon without sockets that gets random commands about policies, limits and tokens, while time
/// passes as it does for a daemon: due work is late, and the machine is suspended.
final class SendingWorld {
  private(set) var now = Moment(
    boot: Instant(microseconds: 5_000_000), wall: Instant(microseconds: 1_790_000_000_000_000))
  private var host: ModelHost!
  private(set) var dispatcher: Dispatcher!
  private var `operator`: Session!
  /// A client that owns countdowns, and whose connection is lost now and then.
  private var app: Session!
  private var lastConnection: UInt64 = 0
  var random: SeededGenerator
  let settings: EngineSettings
  /// Policies that commands name.
  private let policies: [SendPolicy]
  private let keys: [String]
  /// The generations of the newest sends of each key.
  private(set) var sent: [String: [Int64]] = [:]
  /// The policy of the newest START of each key.
  private var policyOf: [String: SendPolicy] = [:]
  /// The limits and the ids of the newest TAKEs.
  private var taken: [(limits: [String], id: Int64)] = []
  private var recent: [String] = []

  var engine: Engine { dispatcher.engine }

  /// - Parameter shadows: whether each policy has a shadow with the same rules.
  init(seed: UInt64, shadows: Bool) {
    random = SeededGenerator(seed: seed)
    keys = (0..<[3, 10, 30][Int(seed % 3)]).map { "+45\($0 % 3)\($0)" }
    var settings = EngineSettings()
    settings.keepReady = [.zero, .seconds(5), .seconds(600)].randomElement(using: &random)!
    settings.throttles = Self.limits(&random)
    var policies: [SendPolicy] = []
    for index in 0..<4 {
      let rules = Self.rules(index, &random)
      let shadow = shadows && index < 3 ? "shadow\(index)" : nil
      policies.append(try! SendPolicy(name: "p\(index)", rules, shadow: shadow))
      if let shadow { settings.policies[shadow] = try! SendPolicy(name: shadow, rules) }
    }
    for policy in policies { settings.policies[policy.name] = policy }
    self.settings = settings
    self.policies = policies
    open(Engine(settings: settings, at: now))
  }

  private func open(_ engine: Engine) {
    var access = Dispatcher.Settings()
    access.access.daemonUser = 1_000
    host = ModelHost { [unowned self] in now }
    dispatcher = Dispatcher(engine: engine, settings: access, host: host)
    `operator` = connect()
    app = connect()
  }

  private func connect() -> Session {
    lastConnection += 1
    let session = Session(
      connection: lastConnection, peer: Peer(uid: 1_000, pid: 7), address: "", at: now)
    dispatcher.open(session)
    return session
  }

  // MARK: Rules

  private static func limits(_ random: inout SeededGenerator) -> [String: LimitRules] {
    func number(_ range: ClosedRange<Int64>) -> Int64 { Int64.random(in: range, using: &random) }
    func window(_ most: Int64) -> SendPolicy.Window {
      .init(limit: Int(number(1...most)), length: .seconds(number(5...600)))
    }
    var ip = LimitRules.Rules()
    ip.rate = Throttle.Rate(
      burst: number(1...5), count: number(1...7), period: .seconds(number(5...300)))
    var range = LimitRules.Rules()
    range.windows = [window(12)]
    range.droppedSuffixLength = 1
    var all = LimitRules.Rules()
    all.windows = [window(30)]
    all.isGlobal = true
    if number(0...1) == 0 {
      all.rate = Throttle.Rate(burst: number(4...9), count: 5, period: .seconds(number(5...60)))
    }
    func passed() -> LimitRules.Passed {
      .init(
        least: UInt32(number(1...100)), of: UInt32(number(1...6)),
        within: .seconds(number(20...900)), block: .milliseconds(number(1...600_000)))
    }
    range.passed = passed()
    if number(0...1) == 0 { all.passed = passed() }
    return [
      "ip": try! LimitRules(ip), "range": try! LimitRules(range), "all": try! LimitRules(all),
    ]
  }

  private static func rules(
    _ index: Int, _ random: inout SeededGenerator
  ) -> SendPolicy.Rules {
    let limits = [["ip", "range", "all"], ["range", "all"], ["ip"], []][index]
    while true {
      var rules = SendPolicy.Rules()
      func number(_ range: ClosedRange<Int64>) -> Int64 { Int64.random(in: range, using: &random) }
      rules.ladder = (0...number(0...2)).map { _ in .milliseconds(number(1_000...90_000)) }
      if number(0...1) == 0 {
        rules.windows = [.init(limit: Int(number(2...6)), length: .seconds(number(60...900)))]
      }
      rules.validity = .milliseconds(number(1_000...300_000))
      rules.attempts = UInt32(number(1...3))
      if number(0...1) == 0 { rules.lockout = [.seconds(number(5...60)), .seconds(300)] }
      if number(0...1) == 0 {
        rules.guesses = .init(limit: Int(number(1...5)), length: .seconds(number(30...900)))
      }
      rules.onResend = number(0...1) == 0 ? .keep : .replace
      if !rules.windows.isEmpty, number(0...3) == 0 { rules.channels = ["sms", "sms", "call"] }
      rules.limits = limits
      if number(0...1) == 0 {
        rules.refunds = .init(limit: Int(number(1...3)), length: .seconds(number(30...900)))
      }
      rules.attemptLimits = [["ip"], [], ["all", "ip"], ["all"]][index]
      if (try? SendPolicy(name: "p", rules)) != nil { return rules }
    }
  }

  // MARK: Chance

  func number(_ range: ClosedRange<Int64>) -> Int64 { Int64.random(in: range, using: &random) }
  func chance(oneIn n: Int64) -> Bool { number(1...n) == 1 }
  private func pick<T>(_ choices: [T]) -> T { choices.randomElement(using: &random)! }

  // MARK: Time

  /// Lets time pass. Due work is done in time, a little late, or only after the next commands.
  func pass() {
    switch number(0...39) {
    case 0: now = later(number(60_000_000...9_000_000_000))
    case 1: now = later(number(0...30_000_000))
    case 2: break
    default: run(until: later(number(0...12_000_000)))
    }
    if chance(oneIn: 4) { run(until: now) }
  }

  private func later(_ microseconds: Int64) -> Moment {
    let step = Interval(microseconds: microseconds)
    return Moment(boot: now.boot + step, wall: now.wall + step)
  }

  private func run(until end: Moment) {
    let late = chance(oneIn: 2) ? 0 : number(0...3_000)
    while let next = engine.nextDeadline.boot, next <= end.boot {
      now = later(max((next - now.boot).microseconds, 0) + late)
      _ = engine.advance(to: now, budget: Int(number(1...20)))
      clear()
    }
    if now.boot < end.boot { now = end }
    while !engine.advance(to: now, budget: 100) {}
    clear()
  }

  private func clear() {
    var outbox = Outbox()
    engine.exchangeOutbox(&outbox)
    engine.notices.removeAll()
  }

  // MARK: The daemon

  /// Ends this daemon, and begins one that has what was stored.
  func restart() {
    let state = engine.durableState()
    note("RESTART")
    if chance(oneIn: 2) { now = later(number(0...600_000_000)) }
    let engine = Engine(settings: settings, at: now)
    guard engine.restore(state, at: now)?.isEmpty == true else {
      preconditionFailure("the state can be restored")
    }
    open(engine)
  }

  /// Reloads the same rules.
  func reload() {
    note("RELOAD")
    var settings = settings
    settings.throttles = settings.throttles.mapValues { try! LimitRules($0.rules) }
    settings.policies = settings.policies.mapValues {
      try! SendPolicy(name: $0.name, $0.rules, shadow: $0.shadow)
    }
    engine.reload(settings, at: now)
  }

  func disconnect() {
    note("DISCONNECT")
    dispatcher.close(app)
    app = connect()
  }

  /// Executes a command, and learns what was sent. Returns the reply.
  @discardableResult
  func say(_ line: String) -> [UInt8] {
    let words = line.split(separator: " ").map { Array($0.utf8) }
    let session: Session = line.contains("OWNER") ? app : `operator`
    KeptArguments(words).withArguments { _ = dispatcher.execute($0, for: session, at: now) }
    while session.next == .part { dispatcher.goOn(session, at: now) }
    clear()
    let reply = session.takeOutput()
    let isError = reply.first == UInt8(ascii: "-")
    learn(reply, to: words)
    note(line + (isError ? ": " + String(decoding: reply.dropLast(2), as: UTF8.self) : ""))
    return reply
  }

  /// Notes the generation of a send: of a view's field, or the second number of a brief reply.
  private func learn(_ reply: [UInt8], to words: [[UInt8]]) {
    let lines = String(decoding: reply, as: UTF8.self).split(separator: "\r\n")
    if words.count > 1, words[1] == Array("TAKE".utf8), let name = lines.firstIndex(of: "id") {
      let limits = words.map { String(decoding: $0, as: UTF8.self) }.filter { $0.contains(":") }
      taken = taken.suffix(8) + [(limits, Int64(lines[name + 1].dropFirst())!)]
    }
    guard words.count > 2, [Array("START".utf8), Array("RESEND".utf8)].contains(words[1]) else {
      return
    }
    let isBrief = lines.first == "*3"
    let name = lines.firstIndex(of: isBrief ? "*3" : "generation")
    let accepted = lines.firstIndex(of: isBrief ? "*3" : "accepted")
    guard let name, let accepted, lines[accepted + 1] == ":1",
      let generation = Int64(lines[name + (isBrief ? 2 : 1)].dropFirst())
    else { return }
    let key = String(decoding: words[2], as: UTF8.self)
    if words.count > 4, words[3] == Array("POLICY".utf8) {
      policyOf[key] = settings.policies[String(decoding: words[4], as: UTF8.self)]
    }
    sent[key, default: []].append(generation)
    if sent[key]!.count > 6 { sent[key]!.removeFirst() }
  }

  // MARK: Commands

  private func limit() -> String {
    pick(["ip:\(number(1...4))", "range:+45\(number(0...2))", "all:"])
  }

  private func token(oneIn n: Int64) -> String {
    chance(oneIn: n) ? " TOKEN t\(number(1...20))" : ""
  }

  /// Returns an address if limits need one. A few forget it, which is an error.
  private func address(_ limits: [String]?) -> String {
    let needsAddress = limits?.contains("ip") ?? false
    return needsAddress && !chance(oneIn: 40) ? " LIMIT ip:\(number(1...4))" : ""
  }

  /// Returns a random command.
  func command() -> String {
    let key = pick(keys)
    let generation = sent[key].map { pick($0) } ?? 1
    let which = chance(oneIn: 3) ? " GENERATION \(generation)" : ""
    switch number(0...59) {
    case 0...21: return start(key)
    case 22...25: return "COUNTDOWN RESEND \(key)" + token(oneIn: 4)
    case 26...32:
      return "COUNTDOWN ATTEMPT \(key)" + (chance(oneIn: 5) ? " ANY" : which)
        + address(policyOf[key]?.rules.attemptLimits) + token(oneIn: 4)
    case 33...36: return "COUNTDOWN PASS \(key)" + which
    case 37, 38: return "COUNTDOWN REFUND \(key) GENERATION \(sent[key]?.last ?? 1)"
    case 39: return "COUNTDOWN CANCEL \(key)"
    case 40: return "COUNTDOWN PAUSE \(key)"
    case 41, 42: return "COUNTDOWN RESUME \(key)"
    case 43: return "COUNTDOWN RETIME \(key) \(number(0...40_000))ms"
    case 44: return "COUNTDOWN FORGIVE \(key)" + (chance(oneIn: 2) ? " LIMITS" : "")
    case 45...49:
      let limits = Set((0..<number(1...3)).map { _ in limit() }).sorted()
      return "THROTTLE TAKE \(limits.joined(separator: " "))"
        + (chance(oneIn: 8) ? " PEEK" : token(oneIn: 4))
    case 50:
      guard !taken.isEmpty, chance(oneIn: 2) else {
        return "THROTTLE REFUND \(limit()) \(number(1...3))"
      }
      let take = pick(taken)
      return "THROTTLE REFUND \(pick(take.limits)) \(number(1...3)) ID \(take.id)"
    case 51: return "THROTTLE UNBLOCK \(limit())"
    case 52: return "THROTTLE TAKE \(key) BURST 2 RATE 2/1m" + token(oneIn: 2)
    case 53: return chance(oneIn: 2) ? "CLEAR countdown \(key)" : "CLEAR throttle \(limit())"
    case 54: return "ONCE BEGIN \(key) TTL 1m"
    case 55: return "COUNTDOWN START \(key) COUNT 1 EVERY \(number(1...40))s" + token(oneIn: 4)
    default: return "COUNTDOWN \(pick(["GET", "WHY"])) \(key)"
    }
  }

  private func start(_ key: String) -> String {
    let policy = pick(policies)
    let limit = address(policy.rules.limits)
    let owner = chance(oneIn: 12) ? " OWNER connection" : ""
    let brief = chance(oneIn: 3) ? " BRIEF" : ""
    return "COUNTDOWN START \(key) POLICY \(policy.name)\(limit)\(owner)\(brief)"
      + token(oneIn: 4)
  }

  // MARK: Reports

  func note(_ text: String) {
    if recent.count > 400 { recent.removeFirst(200) }
    recent.append("  \(now.boot.microseconds): \(text)")
  }

  var last: String { recent.last ?? "" }
  var history: String { recent.suffix(60).joined(separator: "\n") }
}
