import Countdowns

/// A naive model of a key's sends under policies, and of its cooldown: a list of sends, and plain
/// arithmetic over the whole list for each question. Times are in microseconds.
struct SendHistory {
  struct Sent {
    let generation: Generation
    let at: Int64
    /// When its code expires; nil once the code is not valid any more.
    var expires: Int64?
    var attempts: UInt32 = 0
    /// Whether the policy of that time no longer needed it.
    var isForgotten = false
    /// Whether it had left the windows of its policy when another policy followed.
    var isOver = false
  }

  enum Clock: Equatable {
    case counting(until: Int64)
    case paused(left: Int64)
    case ready(since: Int64)
    case idle(since: Int64)
  }

  private(set) var policy: SendPolicy
  private(set) var clock: Clock
  var generation: Generation
  var owner = Owner.none
  private(set) var fires = false
  private(set) var isPassed = false
  private(set) var isRefunded = false
  /// The cooldown after the newest accepted send.
  private(set) var cooldown: Int64 = 0
  private var sent: [Sent] = []
  /// The number of the newest send since the count started over. If a send makes the count start
  /// over, that stays so even if the send is refunded.
  private var newestNumber = 0
  private var hasChangedPolicy = false
  /// The end of each lockout since a code was entered, or since a policy took over after a quiet
  /// time.
  private var lockouts: [Int64] = []

  /// The codes of the last attempt at all of them.
  private(set) var tried: [Generation] = []
  /// Every attempt at a code: when, and at which.
  private var guesses: [(at: Int64, codes: (Generation) -> Bool)] = []

  /// When sends were given back.
  private var refunds: [Int64] = []

  /// Creates a history without sends.
  init(_ policy: SendPolicy, _ generation: Generation) {
    self.policy = policy
    self.generation = generation
    clock = .idle(since: 0)
  }

  // MARK: Arithmetic

  /// All sends, so that what the engine forgets must not matter. A policy does not see sends that
  /// an earlier policy no longer needed.
  private var known: [Sent] {
    hasChangedPolicy ? sent.filter { !$0.isForgotten && !$0.isOver } : sent
  }

  /// Returns the history for the next policy: sends outside the windows of this one are over.
  private func followed(by policy: SendPolicy, at now: Int64) -> SendHistory {
    guard policy != self.policy else { return self }
    var next = self
    if let quiet = quietTime, now >= lockedUntil + quiet { next.lockouts = [] }
    if let window = self.policy.rules.guesses {
      next.guesses.removeAll { now - $0.at >= window.length.microseconds }
    }
    if let window = self.policy.rules.refunds {
      next.refunds.removeAll { now - $0 >= window.length.microseconds }
    }
    let longest = Self.longest(self.policy)
    if longest > 0 {
      next.newestNumber = number(now)
      next.sent.removeAll { now - $0.at >= longest && $0.expires == nil }
      for index in next.sent.indices where now - next.sent[index].at >= longest {
        next.sent[index].isOver = true
      }
    }
    next.hasChangedPolicy = true
    next.policy = policy
    return next
  }

  /// Nothing is sent before; long ago without a lockout.
  private var lockedUntil: Int64 { lockouts.max() ?? .min / 2 }

  /// After how long without a lockout its steps start over; nil without lockouts.
  private var quietTime: Int64? { policy.rules.lockout.map(\.microseconds).max() }

  private mutating func lockOut(at now: Int64) {
    guard let quiet = quietTime else { return }
    if now >= lockedUntil + quiet { lockouts = [] }
    let steps = policy.rules.lockout
    lockouts.append(now + steps[min(lockouts.count, steps.count - 1)].microseconds)
  }

  /// Counts on for as long as the attempts allow no send.
  private mutating func waitAfterAttempt(at now: Int64) {
    let until = attemptBlock(now).until
    guard until > now else { return }
    switch clock {
    case .counting(let earlier): clock = .counting(until: max(earlier, until))
    case .ready: clock = .counting(until: until)
    case .paused, .idle: break
    }
  }

  /// Returns until when the attempts allow no send, and why.
  func attemptBlock(_ now: Int64) -> (until: Int64, reason: Reason) {
    let guesses = guessesUntil(now)
    return guesses > max(lockedUntil, now) ? (guesses, .guesses) : (lockedUntil, .locked)
  }

  func guessesLeft(_ now: Int64) -> Int? {
    policy.rules.guesses.map { window in
      max(window.limit - guesses.count { now - $0.at < window.length.microseconds }, 0)
    }
  }

  /// Returns the first moment at which the key has a guess left.
  func guessesUntil(_ now: Int64) -> Int64 {
    guard let window = policy.rules.guesses else { return now }
    let moments = [now] + guesses.map { $0.at + window.length.microseconds }
    return moments.sorted().first { $0 >= now && guessesLeft($0)! > 0 }!
  }

  private static func longest(_ policy: SendPolicy) -> Int64 {
    policy.rules.windows.map(\.length.microseconds).max() ?? 0
  }

  private func number(_ now: Int64) -> Int {
    let longest = Self.longest(policy)
    guard longest > 0 else { return newestNumber }
    guard let newest = known.last, now - newest.at < longest else { return 0 }
    return newestNumber
  }

  private func inside(_ window: SendPolicy.Window, _ now: Int64) -> Int {
    known.count { $0.at <= now && now - $0.at < window.length.microseconds }
  }

  /// Returns the first moment at which `holds` is true: now, or when a send leaves a window.
  private func first(from now: Int64, _ holds: (Int64) -> Bool) -> Int64 {
    var moments = [now]
    for send in known {
      for window in policy.rules.windows { moments.append(send.at + window.length.microseconds) }
    }
    return moments.sorted().first { $0 >= now && holds($0) }!
  }

  /// Returns when windows and channels allow a send, and which of them does so last.
  private func quota(_ now: Int64) -> (until: Int64, reason: Reason) {
    let windows = first(from: now) { moment in
      policy.rules.windows.allSatisfy { inside($0, moment) < $0.limit }
    }
    var last = (until: windows, reason: Reason.window)
    if !policy.rules.channels.isEmpty {
      let channels = first(from: now) { number($0) < policy.rules.channels.count }
      if channels > now, channels >= windows { last = (channels, .exhausted) }
    }
    let block = attemptBlock(now)
    return block.until > max(last.until, now) ? block : last
  }

  /// Returns why nothing may be sent, and until when; nil if a send is allowed.
  func refusal(
    _ now: Int64, by policy: SendPolicy
  ) -> (reason: Reason, until: Int64)? {
    let quota = followed(by: policy, at: now).quota(now)
    guard isPending else { return quota.until > now ? (quota.reason, quota.until) : nil }
    let cooldown = now + left(now)
    if quota.until > now, quota.until >= cooldown { return (quota.reason, quota.until) }
    return (.cooldown, cooldown)
  }

  var isPending: Bool {
    switch clock {
    case .counting, .paused: true
    case .ready, .idle: false
    }
  }

  func left(_ now: Int64) -> Int64 {
    switch clock {
    case .counting(let until): until - now
    case .paused(let left): left
    case .ready, .idle: 0
    }
  }

  // MARK: Views

  func sends(_ now: Int64) -> Int { number(now) }

  func sendsLeft(_ now: Int64) -> Int? {
    var left = policy.rules.windows.map { max($0.limit - inside($0, now), 0) }
    let channels = policy.rules.channels.count
    if channels > 0 { left.append(max(channels - sends(now), 0)) }
    return left.min()
  }

  /// Returns the channel of the newest send if `offset` is 0, of the next one if it is 1.
  func channel(_ offset: Int, _ now: Int64) -> String? {
    let index = sends(now) - 1 + offset
    let channels = policy.rules.channels
    return channels.indices.contains(index) ? channels[index] : nil
  }

  func code(_ wanted: Generation?, _ now: Int64) -> Sent? {
    codeIndex(wanted).map { sent[$0] }.flatMap { $0.expires ?? 0 > now ? $0 : nil }
  }

  private func codeIndex(_ wanted: Generation?) -> Int? {
    guard let wanted else { return sent.indices.last }
    return sent.firstIndex { $0.generation == wanted }
  }

  var generations: [Generation] { sent.map(\.generation) }

  // MARK: Time

  enum Happening {
    case expired(Generation)
    case ready
  }

  /// Processes what is due by `now`, and returns it in order.
  mutating func pass(to now: Int64) -> [(due: Int64, what: Happening)] {
    var happened: [(due: Int64, what: Happening)] = []
    while let due = nextExpiry, due <= now, !isReady(before: due) {
      let index = sent.firstIndex { $0.expires == due }!
      sent[index].expires = nil
      forget(at: due)
      happened.append((due, .expired(sent[index].generation)))
    }
    if case .counting(let until) = clock, until <= now {
      clock = .ready(since: until)
      happened.append((until, .ready))
      happened += pass(to: now)
    }
    return happened
  }

  private func isReady(before due: Int64) -> Bool {
    if case .counting(let until) = clock { until < due } else { false }
  }

  private var nextExpiry: Int64? { sent.compactMap(\.expires).min() }

  /// Returns when the history is forgotten; nil while a cooldown is pending.
  private func end(keepReady: Int64, tokens: Int64) -> Int64? {
    let matters = max(
      known.last.map { $0.at + Self.longest(policy) } ?? 0, sent.compactMap(\.expires).max() ?? 0,
      lockedUntil + (quietTime ?? 0), guessesMatter, refundsMatter)
    switch clock {
    case .counting, .paused: return nil
    case .ready(let since): return max(since + keepReady, matters, tokens)
    case .idle(let since):
      // Sends on record keep the tokens.
      return max(since, matters, sent.contains { !$0.isForgotten } ? tokens : 0)
    }
  }

  /// Returns when the newest guess matters no more.
  private var guessesMatter: Int64 {
    guard let window = policy.rules.guesses else { return 0 }
    return guesses.map { $0.at + window.length.microseconds }.max() ?? 0
  }

  private var refundsMatter: Int64 {
    guard let window = policy.rules.refunds, let last = refunds.max() else { return 0 }
    return last + window.length.microseconds
  }

  func refundsLeft(_ now: Int64) -> Int? {
    policy.rules.refunds.map { window in
      max(window.limit - refunds.count { now - $0 < window.length.microseconds }, 0)
    }
  }

  func isForgotten(_ now: Int64, keepReady: Int64, tokens: Int64) -> Bool {
    end(keepReady: keepReady, tokens: tokens).map { $0 <= now } ?? false
  }

  func deadline(keepReady: Int64, tokens: Int64) -> Int64? {
    var moments = [nextExpiry, end(keepReady: keepReady, tokens: tokens)]
    if case .counting(let until) = clock { moments.append(until) }
    return moments.compactMap { $0 }.min()
  }

  // MARK: Changes

  mutating func send(_ new: Generation, fires: Bool, by policy: SendPolicy, at now: Int64) {
    self = followed(by: policy, at: now)
    newestNumber = number(now) + 1
    if policy.rules.onResend == .replace { forgetCodes() }
    sent.append(
      Sent(generation: new, at: now, expires: policy.rules.validity.map { now + $0.microseconds }))
    if sent.count > SendRecord.maximumCodes {
      sent[sent.count - 1 - SendRecord.maximumCodes].expires = nil
    }
    forget(at: now)
    generation = new
    self.fires = fires
    isPassed = false
    isRefunded = false
    let ladder = policy.rules.ladder
    cooldown =
      ladder.isEmpty
      ? policy.rules.every.microseconds * Int64(policy.rules.plainCount)
      : ladder[min(newestNumber, ladder.count) - 1].microseconds
    count(for: duration, at: now)
  }

  private var duration: Int64 { fires ? cooldown - policy.rules.every.microseconds : cooldown }

  private mutating func forget(at now: Int64) {
    let longest = Self.longest(policy)
    for index in sent.indices.dropLast() {
      let send = sent[index]
      guard send.isOver || send.at + longest <= now, send.expires == nil else { return }
      sent[index].isForgotten = true
    }
  }

  private mutating func forgetCodes() {
    for index in sent.indices { sent[index].expires = nil }
  }

  /// Refunds the newest send.
  mutating func refund(at now: Int64) -> SendRecord.Refund {
    guard !isRefunded else { return .acceptedBefore }
    guard refundsLeft(now) != 0 else { return .refused }
    if policy.rules.refunds != nil { refunds.append(now) }
    isRefunded = true
    newestNumber = max(sends(now) - 1, 0)
    sent.removeLast()
    if isPending { count(for: 0, at: now) }
    return .accepted
  }

  mutating func attempt(_ wanted: Generation?, at now: Int64) -> SendRecord.Attempt {
    if isPassed { return .passed }
    if guessesUntil(now) > now { return .refused(.guesses) }
    let answer = attemptCode(wanted, at: now)
    if case .accepted = answer {
      let code = sent[codeIndex(wanted)!].generation
      guess({ $0 == code }, at: now)
    }
    return answer
  }

  private mutating func guess(_ codes: @escaping (Generation) -> Bool, at now: Int64) {
    if policy.rules.guesses != nil { guesses.append((now, codes)) }
    waitAfterAttempt(at: now)
  }

  private mutating func attemptCode(
    _ wanted: Generation?, at now: Int64
  ) -> SendRecord.Attempt {
    guard code(wanted, now) != nil, let index = codeIndex(wanted) else { return .expired }
    guard let maximum = policy.rules.attempts else {
      sent[index].attempts += 1
      return .accepted(isLast: false)
    }
    guard sent[index].attempts < maximum else { return .locked }
    sent[index].attempts += 1
    let isLast = sent[index].attempts == maximum
    if isLast { lockOut(at: now) }
    return .accepted(isLast: isLast)
  }

  /// Counts an attempt at all valid codes: at each of them that can be tried alone.
  mutating func attemptAny(at now: Int64) -> SendRecord.Attempt {
    if isPassed { return .passed }
    if guessesUntil(now) > now { return .refused(.guesses) }
    let before = lockouts
    var (answers, accepted) = ([SendRecord.Attempt](), [Generation]())
    for generation in generations.suffix(SendRecord.maximumCodes) {
      let answer = attemptCode(generation, at: now)
      answers.append(answer)
      guard case .accepted = answer else { continue }
      accepted.append(generation)
    }
    guard !accepted.isEmpty else {
      return answers.contains(.locked) ? .locked : .expired
    }
    tried = accepted
    let isLast = answers.contains(.accepted(isLast: true))
    // One step of the lockout, however many are locked.
    lockouts = before
    if isLast { lockOut(at: now) }
    // It was at every code that there was.
    let newest = generation
    guess({ $0 <= newest }, at: now)
    return .accepted(isLast: isLast)
  }

  /// Returns the codes of the last attempt at all of them that are still valid.
  func triedCodes(_ now: Int64) -> [Sent] { tried.compactMap { code($0, now) } }

  mutating func pass(_ wanted: Generation?, at now: Int64) -> SendRecord.Pass {
    if isPassed { return .acceptedBefore }
    guard let code = code(wanted, now) else { return .expired }
    isPassed = true
    tried = []
    forgetCodes()
    let blocked = attemptBlock(now).until
    lockouts = []
    guesses.removeAll { $0.codes(code.generation) }
    // Only the cooldown is left.
    if blocked > now, clock == .counting(until: blocked) {
      let own = isRefunded ? now : sent.last!.at + duration
      count(for: max(own - now, 0), at: now)
    }
    return .accepted
  }

  /// Counts for `left`, and at least until windows and channels allow a send.
  mutating func count(for left: Int64, at now: Int64) {
    clock = .counting(until: max(now + left, quota(now).until))
  }

  mutating func pause(left: Int64) { clock = .paused(left: left) }

  mutating func cancel(at now: Int64) {
    clock = .idle(since: now)
    owner = .none
  }
}
