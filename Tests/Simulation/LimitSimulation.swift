import Countdowns
import SeededRandom

/// A random history of starts under policies that name limits, and of THROTTLE TAKE, against plain
/// lists of moments. The engine is replaced by one that reads its state, and rules are reloaded.
package struct LimitSimulation: ~Copyable {
  private let seed: UInt64
  private var random: SeededGenerator
  private var engine: Engine
  private var settings = EngineSettings()
  private var lists = LimitLists()
  private var now = Moment(
    boot: Instant(microseconds: 5_000_000), wall: Instant(microseconds: 1_790_000_000_000_000))
  private var step = 0
  /// The accepted sends of each key, oldest first.
  private var sent: [String: [Sent]] = [:]
  private let keys: [String]
  private var recent: [String] = []
  /// When the cooldown of each key is over.
  private var ownUntil: [String: Int64] = [:]
  /// What is left of it while it is paused.
  private var ownLeft: [String: Int64] = [:]
  /// When rules changed last, which may make limits count longer what was forgotten already.
  private var ruledAt: Int64 = .min / 2
  /// What was taken lately.
  private var taken: [(id: Int64, keys: [[UInt8]])] = []
  /// The newest number that was charged.
  private var newest: Int64 = 0

  private struct Sent {
    let generation: Int64
    let limits: [[UInt8]]
    let at: Int64
    /// When the code expires; nil once its outcome is known.
    var expires: Int64?
    var isRefunded = false
    /// Whether its limits have it back, though it was not refunded.
    var isForgiven = false
  }

  private static let client = Client(connection: 1, uid: 1_000)

  package init(seed: UInt64) {
    self.seed = seed
    random = SeededGenerator(seed: seed)
    keys = (0..<[2, 6, 20][Int(seed % 3)]).map { "+45\($0 % 3)\($0)" }
    settings.keepReady = [.milliseconds(1), .seconds(5), .seconds(600)][Int(seed / 3 % 3)]
    settings.throttles = Self.rules(&random)
    lists.apply(settings.throttles, at: 0)
    let limitsOf = [
      ("one", ["ip"], ["all", "ip"]), ("two", ["range", "all"], []),
      ("three", ["ip", "range", "all"], ["ip"]),
    ]
    for (name, limits, attemptLimits) in limitsOf {
      var rules = SendPolicy.Rules()
      rules.every = .milliseconds(100)
      rules.ladder = [.milliseconds(500), .seconds(2)]
      rules.validity = .milliseconds(Int64.random(in: 1...8_000, using: &random))
      rules.limits = limits
      rules.attemptLimits = attemptLimits
      rules.onResend = Bool.random(using: &random) ? .keep : .replace
      settings.policies[name] = try! SendPolicy(name: name, rules)
    }
    engine = Engine(settings: settings, at: now)
    open()
  }

  private func open() {
    engine.observer = SentEvents()
    engine.connect(1)
    for kind in [EntityKind.throttle, .countdown] {
      _ = engine.subscribe(Self.client, toPattern: kind.channelPrefix + [0x2A])
    }
  }

  /// Returns the rules of three limits, of which one is for each address, one for the key without
  /// its last digit, and one for all.
  private static func rules(_ random: inout SeededGenerator) -> [String: LimitRules] {
    func rate(_ random: inout SeededGenerator) -> Throttle.Rate? {
      Throttle.Rate(
        burst: Int64.random(in: 1...5, using: &random),
        count: Int64.random(in: 1...7, using: &random),
        period: .milliseconds(Int64.random(in: 500...9_000, using: &random)))
    }
    func windows(_ random: inout SeededGenerator) -> [SendPolicy.Window] {
      let first = Int.random(in: 1...4, using: &random)
      let short = SendPolicy.Window(
        limit: first, length: .milliseconds(Int64.random(in: 400...4_000, using: &random)))
      let long = SendPolicy.Window(
        limit: first + Int.random(in: 1...12, using: &random), length: .seconds(30))
      return Bool.random(using: &random) ? [short] : [short, long]
    }
    var ip = LimitRules.Rules()
    ip.rate = rate(&random)
    var range = LimitRules.Rules()
    range.windows = windows(&random)
    range.droppedSuffixLength = 1
    range.passed = .init(
      least: UInt32.random(in: 1...100, using: &random),
      of: UInt32.random(in: 1...5, using: &random),
      within: .seconds(Int64.random(in: 2...40, using: &random)),
      block: .milliseconds(Int64.random(in: 1...9_000, using: &random)))
    var all = LimitRules.Rules()
    all.rate = rate(&random)
    all.isGlobal = true
    if Bool.random(using: &random) { all.windows = windows(&random) }
    return [
      "ip": try! LimitRules(ip), "range": try! LimitRules(range), "all": try! LimitRules(all),
    ]
  }

  package mutating func play(steps: Int) throws(Disagreement) {
    for _ in 0..<steps {
      step += 1
      try pass(Interval(microseconds: Int64.random(in: 1...700_000, using: &random)))
      switch Int.random(in: 0..<50, using: &random) {
      case 0..<17: try start(key(), isReady: false)
      case 17..<24: try takeSeveral()
      case 24..<27: try refund()
      case 27..<30: try passCode()
      case 30: try cancel()
      case 31: try unblock()
      case 32: try Bool.random(using: &random) ? refundNewest() : refundTaken()
      case 33: reload()
      case 34: try restart()
      case 35: try pass(.seconds(60))
      case 36: try Bool.random(using: &random) ? clear() : forgive()
      case 37...38: try change(.pause)
      case 39...41: try change(.resume)
      case 42: try change(.retime([0, 300_000, 3_000_000].randomElement(using: &random)!))
      case 43...46: try attempt()
      default: try compare()
      }
    }
  }

  private mutating func key() -> String { keys.randomElement(using: &random)! }
  private var boot: Int64 { now.boot.microseconds }

  private mutating func address() -> [UInt8] {
    Array("ip:10.0.0.\(Int.random(in: 1...2, using: &random))".utf8)
  }

  private func limits(_ policy: SendPolicy, _ key: String, _ address: [UInt8]) -> [[UInt8]] {
    policy.rules.limits.map { name in
      switch name {
      case "ip": address
      case "range": Array("range:\(key.dropLast())".utf8)
      default: Array("all:".utf8)
      }
    }
  }

  private func disagreement(_ text: String) -> Disagreement {
    Disagreement(
      description: "limits: seed \(seed), step \(step), at \(boot) µs: \(text)\n"
        + recent.suffix(30).joined(separator: "\n"))
  }

  private mutating func note(_ text: String) {
    if recent.count > 200 { recent.removeFirst(100) }
    recent.append("  step \(step), \(boot): \(text)")
  }

  // MARK: Time

  /// Moves from deadline to deadline. Sometimes starts a key at the moment that it is ready.
  private mutating func pass(_ interval: Interval) throws(Disagreement) {
    let end = now.boot + interval
    while let next = engine.nextDeadline.boot, next <= end {
      move(to: max(next, now.boot))
      lists.pass(to: boot)
      while !engine.advance(to: now, budget: 3) {}
      expire()
      for event in engine.takeOutbox() {
        try hear(event)
        guard event.kind == .countdown, event.name == .ready,
          Int.random(in: 0..<3, using: &random) == 0
        else { continue }
        // Only the first: the others may find that it has taken the room.
        try start(String(decoding: event.key, as: UTF8.self), isReady: true)
        break
      }
    }
    move(to: end)
    lists.pass(to: boot)
  }

  private mutating func move(to boot: Instant) {
    now.wall = now.wall + (boot - now.boot)
    now.boot = boot
  }

  private mutating func expire() {
    let now = boot
    var due: [(at: Int64, key: String, index: Int)] = []
    for (key, sends) in sent {
      for (index, send) in sends.enumerated() {
        if let expires = send.expires, expires <= now { due.append((expires, key, index)) }
      }
    }
    for (_, key, index) in due.sorted(by: { ($0.at, $0.index) < ($1.at, $1.index) }) {
      sent[key]![index].expires = nil
      let send = sent[key]![index]
      lists.learn(false, send.generation, send.limits, at: now)
    }
  }

  private func hear(_ event: SentEvent) throws(Disagreement) {
    guard event.kind == .throttle else { return }
    let refusal = lists.refusal([event.key], at: boot)
    let blocked = lists.limits[event.key]?.blockedUntil != nil
    let isRight =
      switch event.name {
      case .full: refusal != nil
      // A code may expire at the moment at which there is room, and block the limit.
      case .room:
        refusal == nil
          || refusal?.reason == .blocked && lists.limits[event.key]?.blockedAt == boot
      case .blocked: blocked
      case .unblocked: !blocked
      default: true
      }
    if !isRight {
      throw disagreement(
        "\(event.name) of \(String(decoding: event.key, as: UTF8.self)), but "
          + String(describing: refusal))
    }
  }

  private func hearAll() throws(Disagreement) {
    let events = engine.takeOutbox().filter { $0.name != .snapshot }
    for (index, event) in events.enumerated() {
      // A limit that got other rules in a reload may have room when it is touched, and be full again.
      if event.name == .room,
        events[index...].contains(where: { $0.name == .full && $0.key == event.key })
      {
        continue
      }
      try hear(event)
    }
  }

  // MARK: Commands

  private mutating func start(_ key: String, isReady: Bool) throws(Disagreement) {
    let before = engine.countdown(key.utf8.span, at: now)
    let name = ["one", "two", "three"].randomElement(using: &random)!
    // At `ready` with the limits of the last start.
    let isResend = before != nil && (isReady || Int.random(in: 0..<3, using: &random) == 0)
    let policy = settings.policies[name]!
    let address = address()
    let used = isResend ? sent[key]!.last!.limits : limits(policy, key, address)
    let own = before.flatMap { cooldownEnd(key, $0.state) }
    let refusal = lists.refusal(used, at: boot)
    let views = listing()
    var start = CountdownStart(Countdown.Plan(count: 1, every: .seconds(1))!)
    start.policy = policy
    if policy.rules.limits.contains("ip") { start.limits = [address] }
    let clock = now
    let client = Self.client
    let given = start
    let answer = Result { () throws(EngineError) in
      isResend
        ? try engine.resendCountdown(key.utf8.span, token: nil, by: client, at: clock)
        : try engine.startCountdown(key.utf8.span, given, by: client, at: clock)
    }
    guard case .success(let (decision, view)) = answer else {
      throw disagreement("START of \(key): \(answer)")
    }
    note("\(isResend ? "RESEND" : "START \(name)") \(key): \(decision), \(view.retryAfterMS) ms")
    guard decision.isAccepted == (own == nil && refusal == nil) else {
      throw disagreement("\(decision), but \(own ?? 0), \(String(describing: refusal))")
    }
    if isReady, !decision.isAccepted { throw disagreement("refused at ready") }
    guard decision.isAccepted else {
      let until = max(own ?? 0, refusal?.until ?? 0)
      guard view.retryAfterMS == (until - boot).roundedUp else {
        throw disagreement("retry after \(view.retryAfterMS) ms, not \((until - boot).roundedUp)")
      }
      let isOwn = until == own
      guard decision.reason == (isOwn ? .cooldown : refusal!.reason),
        view.quota?.limit == (isOwn ? nil : refusal!.key)
      else {
        throw disagreement("\(String(describing: decision.reason)) of \(view.quota?.limit ?? [])")
      }
      guard listing() == views else { throw disagreement("the refusal has changed a limit") }
      return try hearAll()
    }
    let rules = (isResend ? settings.policies[view.quota!.policy]! : policy).rules
    // The codes that it replaces are missed, and those that are more than a key can have.
    learn([], key, keeping: rules.onResend == .replace ? 0 : SendRecord.maximumCodes - 1)
    newest = view.generation.value
    lists.take(used, id: newest, hasCode: true, at: boot)
    sent[key, default: []].append(
      Sent(
        generation: view.generation.value, limits: used, at: boot,
        expires: boot + rules.validity!.microseconds))
    let cooldown = Int64(view.count) * view.everyMS
    ownUntil[key] = boot + cooldown * 1_000
    let room = lists.refusal(used, at: boot).map { ($0.until - boot).roundedUp } ?? 0
    let after = max(cooldown, room)
    guard view.remainingMS >= after else { throw disagreement("ready before it is accepted") }
    guard view.retryAfterMS == after else {
      throw disagreement("the next after \(view.retryAfterMS) ms, not \(after)")
    }
    try hearAll()
  }

  /// Returns until when the cooldown of a key refuses a START; nil if it does not. While it is
  /// paused it does, whatever is left.
  private func cooldownEnd(_ key: String, _ state: CountdownView.State) -> Int64? {
    switch state {
    case .counting: ownUntil[key]! > boot ? ownUntil[key] : nil
    case .paused: boot + ownLeft[key]!
    case .ready, .idle: nil
    }
  }

  private mutating func takeSeveral() throws(Disagreement) {
    let range = "range:+45\(Int.random(in: 0...2, using: &random))"
    let all: [[UInt8]] = [address(), Array(range.utf8), Array("all:".utf8)]
    let keys = all.filter { _ in Bool.random(using: &random) }
    guard !keys.isEmpty else { return }
    let maximum = keys.map { lists.rules(of: $0).maximumCost }.min()!
    let cost = Int64.random(in: 1...min(maximum, 3), using: &random)
    let isPeek = Int.random(in: 0..<4, using: &random) == 0
    let hasToken = !isPeek && Int.random(in: 0..<3, using: &random) == 0
    let token = hasToken ? [UInt8.random(in: 0..<20, using: &random)] : nil
    let first = token.map { lists.remembered($0, keys) } ?? [:]
    let refusal = lists.refusal(keys, cost: cost, at: boot)
    let views = listing()
    let clock = now
    let asked = Result { () throws(EngineError) in
      try engine.takeLimits(
        LimitsRequest(keys: keys, cost: UInt32(cost), isPeek: isPeek, token: token),
        by: Self.client, at: clock)
    }
    guard first.isEmpty else {
      return try checkRepeated(asked, first, keys: Set(keys), cost, unchanged: views)
    }
    guard case .success(let answer) = asked else { throw disagreement("TAKE: \(asked)") }
    let names = keys.map { String(decoding: $0, as: UTF8.self) }
    note("TAKE \(names) \(cost): \(String(describing: answer.refusal))")
    guard answer.refusal?.until.microseconds == refusal?.until,
      answer.refusal?.limit == refusal?.key, answer.refusal?.reason == refusal?.reason
    else { throw disagreement("TAKE: \(answer), but \(String(describing: refusal))") }
    if refusal != nil || isPeek {
      guard listing() == views else { throw disagreement("a refused TAKE has changed a limit") }
    } else {
      newest = answer.id
      lists.take(keys, cost: cost, id: newest, hasCode: false, at: boot)
      taken = taken.suffix(8) + [(answer.id, keys)]
      for (key, view) in zip(keys, answer.views) {
        let isOnRecord = lists.rules(of: key).retention > .zero
        guard view.id == (isOnRecord ? answer.id : nil) else {
          throw disagreement("TAKE has the id \(view.id ?? 0), not \(answer.id)")
        }
        guard token != nil else { continue }
        let known = LimitLists.Token(
          token: token!, keys: Set(keys), cost: cost, at: boot, generation: view.generation,
          id: answer.id)
        lists.remember(known, for: key)
      }
    }
    try hearAll()
  }

  /// Checks the answer to a TAKE whose token was accepted before, by some of its limits.
  private mutating func checkRepeated(
    _ asked: Result<LimitsAnswer, EngineError>, _ first: [[UInt8]: LimitLists.Token],
    keys: Set<[UInt8]>, _ cost: Int64, unchanged views: [UInt8]
  ) throws(Disagreement) {
    note("TAKE again: \(asked)")
    guard listing() == views else { throw disagreement("a repeated TAKE has changed a limit") }
    guard first.values.allSatisfy({ $0.keys == keys && $0.cost == cost }) else {
      guard asked == .failure(.tokenOfAnother) else {
        throw disagreement("the token of another TAKE: \(asked)")
      }
      return
    }
    guard case .success(let answer) = asked, answer.isRepeated, answer.refusal == nil,
      answer.id == first.values.first!.id,
      answer.views.allSatisfy({ view in
        first[view.key].map { $0.generation == view.generation } ?? true
      })
    else { throw disagreement("a repeated TAKE: \(asked)") }
  }

  /// Returns a number between the sends before and after.
  private mutating func refund() throws(Disagreement) {
    let key = key()
    guard let last = sent[key]?.last, let view = engine.countdown(key.utf8.span, at: now),
      view.generation.value == last.generation
    else { return }
    let clock = now
    let answer = Result { () throws(EngineError) in
      try engine.refundCountdown(key.utf8.span, generation: view.generation, at: clock).refund
    }
    note("REFUND \(key): \(answer)")
    guard answer == .success(last.isRefunded ? .acceptedBefore : .accepted) else {
      throw disagreement("REFUND: \(answer)")
    }
    if !last.isRefunded {
      if !last.isForgiven {
        lists.refund(last.generation, sentAt: last.at, last.limits, at: boot)
      }
      ownUntil[key] = boot
      sent[key]![sent[key]!.count - 1].isRefunded = true
      sent[key]![sent[key]!.count - 1].expires = nil
    }
    try hearAll()
  }

  private mutating func passCode() throws(Disagreement) {
    let key = key()
    let valid = (sent[key] ?? []).indices.filter { sent[key]![$0].expires ?? 0 > boot }
    guard let index = valid.randomElement(using: &random),
      engine.countdown(key.utf8.span, at: now) != nil
    else { return }
    let clock = now
    let generation = Generation(sent[key]![index].generation)
    let answer = Result { () throws(EngineError) in
      try engine.passCountdown(key.utf8.span, generation: generation, at: clock).0
    }
    note("PASS \(key) \(generation.value): \(answer)")
    guard answer == .success(.accepted) else { throw disagreement("PASS: \(answer)") }
    learn([index], key, keeping: 0)
    try hearAll()
  }

  /// Tries a code of a key, or all of them, with an address that may have no room.
  private mutating func attempt() throws(Disagreement) {
    let key = key()
    guard let view = engine.countdown(key.utf8.span, at: now), let sends = sent[key],
      let policy = (view.quota?.policy).flatMap({ settings.policies[$0] })
    else { return }
    let valid = sends.filter { $0.expires ?? 0 > boot }
    let atAny = Int.random(in: 0..<3, using: &random) == 0
    // Without a valid code it is about the newest one.
    let code = atAny ? nil : valid.randomElement(using: &random).map { Generation($0.generation) }
    let names = policy.rules.attemptLimits
    let used = names.map { $0 == "ip" ? address() : Array("all:".utf8) }
    let isMissing = names.contains("ip") && Int.random(in: 0..<8, using: &random) == 0
    let given = isMissing ? [] : used.filter { $0.starts(with: "ip:".utf8) }
    let refusal = lists.refusal(used, at: boot)
    let views = listing()
    let clock = now
    let asked = Result { () throws(EngineError) in
      try engine.attemptCountdown(
        key.utf8.span, generation: code, atAny: atAny, limits: given, by: Self.client, at: clock)
    }
    note("ATTEMPT \(key) \(atAny ? "ANY" : "\(code?.value ?? 0)"): \(asked)")
    if isMissing {
      guard case .failure(.limits(.missing)) = asked, listing() == views else {
        throw disagreement("ATTEMPT without an address: \(asked)")
      }
      return
    }
    guard case .success(let (attempt, answer)) = asked else {
      throw disagreement("ATTEMPT: \(asked)")
    }
    guard case .accepted = attempt else {
      let isRight =
        refusal.map {
          attempt == .refused($0.reason) && answer.quota?.limit == $0.key
            && answer.retryAfterMS == ($0.until - boot).roundedUp
        } ?? (valid.isEmpty && (attempt == .expired || attempt == .passed))
      guard isRight, listing() == views else {
        throw disagreement("ATTEMPT: \(attempt), but \(String(describing: refusal))")
      }
      return try hearAll()
    }
    guard refusal == nil, !valid.isEmpty else {
      throw disagreement("ATTEMPT accepted, but \(String(describing: refusal)), \(valid)")
    }
    // Its number is a new one, which the reply does not have.
    newest += 1
    lists.take(used, id: newest, hasCode: false, at: boot)
    try hearAll()
  }

  /// Ends codes of a key, the oldest first: those that were entered, then the others, which are
  /// missed, but for the newest few.
  private mutating func learn(_ entered: [Int], _ key: String, keeping count: Int) {
    let open = (sent[key] ?? []).indices.filter { sent[key]![$0].expires != nil }
    for index in entered + open.filter({ !entered.contains($0) }).dropLast(count) {
      sent[key]![index].expires = nil
      let send = sent[key]![index]
      lists.learn(entered.contains(index), send.generation, send.limits, at: boot)
    }
  }

  private mutating func cancel() throws(Disagreement) {
    let key = key()
    let clock = now
    let answer = Result { () throws(EngineError) in
      try engine.cancelCountdown(key.utf8.span, generation: nil, at: clock)
    }
    guard case .success(let isDone) = answer else { throw disagreement("CANCEL: \(answer)") }
    if isDone, let last = sent[key]?.last, last.expires != nil {
      lists.ignore(last.generation, last.limits)
    }
    note("CANCEL \(key): \(isDone)")
    try hearAll()
  }

  private enum Change {
    case pause, resume
    case retime(Int64)
  }

  /// Changes the cooldown, whatever the countdown waits for.
  private mutating func change(_ change: Change) throws(Disagreement) {
    let key = key()
    let state = engine.countdown(key.utf8.span, at: now)?.state
    let clock = now
    let answer = Result { () throws(EngineError) in
      switch change {
      case .pause: _ = try engine.pauseCountdown(key.utf8.span, generation: nil, at: clock)
      case .resume: _ = try engine.resumeCountdown(key.utf8.span, generation: nil, at: clock)
      case .retime(let left):
        _ = try engine.retimeCountdown(
          key.utf8.span, to: Interval(microseconds: left), generation: nil, at: clock)
      }
    }
    note("\(change) \(key): \(answer)")
    let isPending = state == .counting || state == .paused
    if case .failure(let error) = answer {
      guard !isPending, error == (state == nil ? .notFound : .isReady) else {
        throw disagreement("\(change) of \(key), \(String(describing: state)): \(error)")
      }
    } else if !isPending {
      throw disagreement("\(change) of \(key), \(String(describing: state)): \(answer)")
    }
    switch change {
    case .pause where state == .counting: ownLeft[key] = max(ownUntil[key]! - boot, 0)
    case .resume where state == .paused: ownUntil[key] = boot + ownLeft[key]!
    case .retime(let left) where isPending: (ownLeft[key], ownUntil[key]) = (left, boot + left)
    default: break
    }
    try compare(countdown: key)
    try hearAll()
  }

  private mutating func unblock() throws(Disagreement) {
    let key = Array("range:+45\(Int.random(in: 0...2, using: &random))".utf8)
    let wasBlocked = lists.limits[key]?.blockedUntil != nil
    let clock = now
    let answer = Result { () throws(EngineError) in
      try engine.unblockThrottle(key.span, generation: nil, at: clock)?.isFirst ?? false
    }
    guard answer == .success(wasBlocked) else { throw disagreement("UNBLOCK: \(answer)") }
    lists.unblock(key)
    note("UNBLOCK \(String(decoding: key, as: UTF8.self)): \(wasBlocked)")
    try hearAll()
  }

  /// Gives back what one of the newest TAKEs has taken from one of its limits, sometimes again.
  private mutating func refundTaken() throws(Disagreement) {
    guard let (id, keys) = taken.randomElement(using: &random) else { return }
    let key = keys.randomElement(using: &random)!
    let count = Int64.random(in: 1...4, using: &random)
    let clock = now
    let views = listing()
    let answer = Result { () throws(EngineError) in
      try engine.refundThrottle(
        key.span, cost: UInt32(count), id: id, generation: nil, at: clock)?.isFirst ?? false
    }
    note("THROTTLE REFUND \(String(decoding: key, as: UTF8.self)) \(count) ID \(id): \(answer)")
    if lists.rules(of: key).retention == .zero {
      guard answer == .failure(.limits(.hasNoRecord(key: key))) else {
        throw disagreement("REFUND of an id without a record: \(answer)")
      }
    } else {
      let isFirst = lists.refund(key, count, of: id, at: boot)
      guard answer == .success(isFirst) else {
        throw disagreement("REFUND of \(id): \(answer), not \(isFirst)")
      }
      guard isFirst || listing() == views else {
        throw disagreement("a REFUND of nothing has changed a limit")
      }
    }
    try compare()
  }

  private mutating func refundNewest() throws(Disagreement) {
    let key = Array("all:".utf8)
    let count = Int64.random(in: 1...3, using: &random)
    let clock = now
    let answer = Result { () throws(EngineError) in
      try engine.refundThrottle(key.span, cost: UInt32(count), generation: nil, at: clock) != nil
    }
    if answer == .success(true) { lists.refund(key, count, at: boot) }
    note("THROTTLE REFUND all: \(count): \(answer)")
    try hearAll()
  }

  /// Ends a limit, as CLEAR does.
  private mutating func clear() throws(Disagreement) {
    guard
      let key = lists.limits.keys.sorted(by: { $0.lexicographicallyPrecedes($1) })
        .randomElement(using: &random)
    else { return }
    let clock = now
    let answer = Result { () throws(EngineError) in
      try engine.end(.throttle, key.span, at: clock)
    }
    note("CLEAR \(String(decoding: key, as: UTF8.self)): \(answer)")
    // What is there for its tokens only is not ended.
    if answer == .success(true) { lists.clear(key) }
    try hearAll()
  }

  /// Changes rates, and what `passed` demands.
  private mutating func changeRules() {
    let new = Self.rules(&random)
    for (name, rules) in new {
      var changed = rules.rules
      if Bool.random(using: &random) { changed.rate = settings.throttles[name]!.rules.rate }
      // A longer window would look back at sends that are not on record any more.
      changed.windows = settings.throttles[name]!.rules.windows
      changed.passed?.within = settings.throttles[name]!.rules.passed!.within
      settings.throttles[name] = try! LimitRules(changed)
    }
    lists.apply(settings.throttles, at: boot)
    ruledAt = boot
  }

  /// Longer than any limit counts what was sent.
  private static let longestMemory: Int64 = 60_000_000

  /// Forgives a key, mostly with all that it has used of its limits, however long ago.
  private mutating func forgive() throws(Disagreement) {
    let key = key()
    guard ruledAt + Self.longestMemory < boot, engine.countdown(key.utf8.span, at: now) != nil
    else { return }
    let withLimits = Int.random(in: 0..<4, using: &random) > 0
    let clock = now
    let answer = Result { () throws(EngineError) in
      try engine.forgiveCountdown(
        key.utf8.span, withLimits: withLimits, generation: nil, by: Self.client, at: clock
      ).state
    }
    note("FORGIVE \(key), \(withLimits): \(answer)")
    guard case .success = answer else { throw disagreement("FORGIVE: \(answer)") }
    for index in sent[key]!.indices {
      let send = sent[key]![index]
      if withLimits, !send.isRefunded, !send.isForgiven {
        lists.refund(send.generation, sentAt: send.at, send.limits, at: boot)
        sent[key]![index].isForgiven = true
      } else if send.expires != nil {
        lists.ignore(send.generation, send.limits)
      }
      sent[key]![index].expires = nil
    }
    (ownUntil[key], ownLeft[key]) = (boot, 0)
    try compare()
  }

  private mutating func reload() {
    note("reload")
    changeRules()
    engine.reload(settings, at: now)
  }

  /// Replaces the engine by one that reads its state.
  private mutating func restart() throws(Disagreement) {
    let state = engine.wholeState()
    let bytes = state.bytes(offset: 7)
    guard let read = WholeState(bytes: bytes, offset: 7) else {
      throw disagreement("the state cannot be read")
    }
    // The rules may have changed while the daemon was down.
    if Int.random(in: 0..<3, using: &random) == 0 { changeRules() }
    engine = Engine(settings: settings, at: now)
    guard engine.restore(read, at: now)?.isEmpty == true else {
      throw disagreement("the state cannot be restored")
    }
    note("restart")
    open()
    try compare()
  }

  // MARK: Comparing

  private func listing() -> [UInt8] {
    var query = ListQuery()
    query.limit = 1_000
    return engine.replies(listing: .throttle, query, at: now).replies
  }

  private func compare() throws(Disagreement) {
    let blocked = lists.limits.values.count { $0.blockedUntil != nil }
    guard engine.blockedLimits == blocked else {
      throw disagreement("\(engine.blockedLimits) limits are blocked, not \(blocked)")
    }
    for key in lists.limits.keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
      let view = engine.throttle(key.span, at: now)
      let rules = lists.rules(of: key)
      let left = lists.left(key, at: boot)
      let wait = lists.refusal([key], at: boot).map { ($0.until - boot).roundedUp } ?? 0
      let isSame =
        view.map { $0.remaining == left && $0.retryAfterMS == wait }
        ?? (left == rules.maximumCost && wait == 0)
      guard isSame else {
        let name = String(decoding: key, as: UTF8.self)
        throw disagreement(
          "\(name): \(String(describing: view)), but \(left) left, \(wait) ms")
      }
    }
    for key in keys { try compare(countdown: key) }
    try hearAll()
  }

  /// Compares what a view says about the next START: at `ready` only limits can refuse it.
  private func compare(countdown key: String) throws(Disagreement) {
    guard let view = engine.countdown(key.utf8.span, at: now), let last = sent[key]?.last else {
      return
    }
    let until = max(
      cooldownEnd(key, view.state) ?? 0, lists.refusal(last.limits, at: boot)?.until ?? 0)
    let wait = max(until - boot, 0).roundedUp
    guard view.retryAfterMS == wait else {
      throw disagreement(
        "\(key) is \(view.state), START after \(view.retryAfterMS) ms, not \(wait)")
    }
  }
}
