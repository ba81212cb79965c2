import CountdownCore

/// One key under a policy, as naively as can be: a list of all that was ever sent, and plain
/// arithmetic over all of it each time something is asked. Nothing is thrown away before the key is
/// forgotten, nothing is remembered that the list says.
///
/// Times are whole milliseconds.
package struct SendPolicyModel {
  package struct Sent {
    package let generation: Int64
    package let at: Int64
    let validity: Int64?
    var attempts: Int64 = 0
    var isTakenBack = false
    /// Replaced, passed, or one too many.
    var isVoid = false
    var isExpiryTold = false

    package func isGood(_ now: Int64) -> Bool {
      guard let validity, !isTakenBack, !isVoid else { return false }
      return now < at + validity
    }
  }

  package enum Clock: Equatable {
    case counting(until: Int64)
    case paused(left: Int64)
    case ready(since: Int64)
    case idle(since: Int64)
  }

  package enum Verdict: Equatable {
    case accepted
    case duplicate
    case refused(String, until: Int64)
    case stale
    case nothing
  }

  package let policy: SendPolicy
  package let keepReady: Int64
  package private(set) var all: [Sent] = []
  /// Nil when there is no such key.
  package private(set) var clock: Clock?
  package private(set) var generation: Int64 = 0
  private var isPassed = false
  private var isRefunded = false
  private var fires = false
  private var token: String?
  /// What time did and nobody has asked about yet: `ready 5`, `expired 3`.
  package var events: [String] = []

  package init(_ policy: SendPolicy, keepReady: Int64) {
    self.policy = policy
    self.keepReady = keepReady
  }

  // MARK: Arithmetic

  private var rules: SendPolicy.Rules { policy.rules }
  private var live: [Sent] { all.filter { !$0.isTakenBack } }
  private var longest: Int64 { rules.windows.map(\.length.inMilliseconds).max() ?? 0 }

  /// How many there are since sends started over.
  package func number(_ now: Int64) -> Int {
    var number = 0
    var before: Int64?
    for send in live {
      if longest > 0, let before, send.at - before >= longest { number = 0 }
      number += 1
      before = send.at
    }
    if longest > 0, let before, now - before >= longest { number = 0 }
    return number
  }

  private func inside(_ window: SendPolicy.Window, _ now: Int64) -> Int {
    live.count { $0.at <= now && now - $0.at < window.length.inMilliseconds }
  }

  package func left(_ now: Int64) -> Int? {
    var left = rules.windows.map { max($0.limit - inside($0, now), 0) }
    if !rules.channels.isEmpty { left.append(max(rules.channels.count - number(now), 0)) }
    return left.min()
  }

  package func channel(_ number: Int) -> String? {
    rules.channels.indices.contains(number) ? rules.channels[number] : nil
  }

  /// The first moment from now on at which that holds: now, or when a send leaves a window.
  private func first(_ now: Int64, _ holds: (Int64) -> Bool) -> Int64 {
    var moments = [now]
    for send in live {
      for window in rules.windows { moments.append(send.at + window.length.inMilliseconds) }
    }
    return moments.sorted().first { $0 >= now && holds($0) }!
  }

  /// When windows and channels allow a send.
  private func quota(_ now: Int64) -> (until: Int64, reason: String) {
    let windows = first(now) { moment in
      rules.windows.allSatisfy { inside($0, moment) < $0.limit }
    }
    let channels =
      rules.channels.isEmpty ? now : first(now) { number($0) < rules.channels.count }
    return channels > now && channels >= windows ? (channels, "exhausted") : (windows, "window")
  }

  /// Why nothing may be sent, and until when.
  package func refusal(_ now: Int64) -> Verdict? {
    let quota = quota(now)
    let cooldown: Int64
    switch clock {
    case .counting(let until): cooldown = until
    case .paused(let left): cooldown = now + left
    case .ready, .idle, nil:
      return quota.until > now ? .refused(quota.reason, until: quota.until) : nil
    }
    if quota.until > now, quota.until >= cooldown {
      return .refused(quota.reason, until: quota.until)
    }
    return .refused("cooldown", until: cooldown)
  }

  package var newest: Sent? { live.last }

  private var codeIndices: [Int] { all.indices.filter { !all[$0].isTakenBack } }

  package func attemptsLeft(_ now: Int64) -> Int64? {
    guard let newest, newest.isGood(now), let most = rules.attempts else { return nil }
    return Int64(most) - newest.attempts
  }

  // MARK: Time

  /// Whatever is due by then happens, in order.
  package mutating func pass(to now: Int64) {
    guard clock != nil else { return }
    var due: [(at: Int64, order: Int, event: String)] = []
    for index in all.indices where !all[index].isExpiryTold && !all[index].isTakenBack {
      let send = all[index]
      guard !send.isVoid, let validity = send.validity, send.at + validity <= now else { continue }
      due.append((send.at + validity, 0, "expired \(send.generation)"))
      all[index].isExpiryTold = true
    }
    if case .counting(let until) = clock, until <= now {
      due.append((until, 1, "ready \(generation)"))
      clock = .ready(since: until)
    }
    events += due.sorted { ($0.at, $0.order) < ($1.at, $1.order) }.map(\.event)
    if isForgotten(now) {
      clock = nil
      all = []
    }
  }

  private func isForgotten(_ now: Int64) -> Bool {
    let matters = live.contains { now - $0.at < longest || $0.isGood(now) }
    switch clock {
    case .ready(let since): return now - since >= keepReady && !matters
    case .idle: return !matters
    case .counting, .paused, nil: return false
    }
  }

  // MARK: Commands

  package mutating func start(
    _ new: Int64, fires: Bool, token: String?, at now: Int64
  ) -> Verdict {
    if clock != nil, let token, token == self.token { return .duplicate }
    if let refusal = refusal(now) { return refusal }
    if rules.onResend == .replace { for index in all.indices { all[index].isVoid = true } }
    all.append(Sent(generation: new, at: now, validity: rules.validity?.inMilliseconds))
    if codeIndices.count > SendRecord.mostCodes {
      all[codeIndices[codeIndices.count - 1 - SendRecord.mostCodes]].isVoid = true
    }
    generation = new
    isPassed = false
    isRefunded = false
    self.fires = fires
    self.token = token
    var cooldown = rules.every.inMilliseconds * Int64(rules.plainCount)
    if !rules.ladder.isEmpty {
      cooldown = rules.ladder[min(number(now), rules.ladder.count) - 1].inMilliseconds
    }
    if fires { cooldown -= rules.every.inMilliseconds }
    clock = .counting(until: max(now + cooldown, quota(now).until))
    pass(to: now)
    return .accepted
  }

  package mutating func resend(_ new: Int64, token: String?, at now: Int64) -> Verdict {
    guard clock != nil else { return .nothing }
    return start(new, fires: fires, token: token, at: now)
  }

  package mutating func refund(_ wanted: Int64, at now: Int64) -> Verdict {
    guard clock != nil else { return .nothing }
    guard wanted == generation else { return .stale }
    guard !isRefunded else { return .duplicate }
    isRefunded = true
    token = nil
    if let index = codeIndices.last { all[index].isTakenBack = true }
    switch clock {
    case .counting, .paused: clock = .counting(until: now)
    case .ready, .idle, nil: break
    }
    pass(to: now)
    return .accepted
  }

  package mutating func attempt(_ wanted: Int64?, at now: Int64) -> Verdict {
    guard clock != nil else { return .nothing }
    let codes = codeIndices
    var index = codes.last
    if let wanted {
      index = codes.first { all[$0].generation == wanted }
      // Of an earlier code no more is known than whether it is good.
      let isGood = index.map { all[$0].isGood(now) } ?? false
      if wanted != generation, !isGood { return .stale }
    }
    if isPassed { return .refused("passed", until: 0) }
    guard let index, all[index].isGood(now) else { return .refused("expired", until: 0) }
    if let most = rules.attempts, all[index].attempts >= Int64(most) {
      return .refused("locked", until: 0)
    }
    all[index].attempts += 1
    if all[index].attempts == rules.attempts.map({ Int64($0) }) {
      events.append("locked \(wanted ?? generation)")
    }
    return .accepted
  }

  package mutating func passCode(at now: Int64) -> Verdict {
    guard clock != nil else { return .nothing }
    guard !isPassed else { return .duplicate }
    isPassed = true
    for index in all.indices { all[index].isVoid = true }
    events.append("passed \(generation)")
    pass(to: now)
    return .accepted
  }

  package mutating func pause(at now: Int64) -> Bool {
    guard case .counting(let until) = clock else { return isPaused }
    clock = .paused(left: until - now)
    return true
  }

  package mutating func resume(at now: Int64) -> Bool {
    guard case .paused(let left) = clock else { return isCounting }
    count(for: left, at: now)
    return true
  }

  package mutating func retime(_ left: Int64, at now: Int64) -> Bool {
    if isPaused, left > 0 {
      clock = .paused(left: left)
    } else if isPaused || isCounting {
      count(for: left, at: now)
    } else {
      return false
    }
    return true
  }

  package mutating func cancel(at now: Int64) -> Bool {
    switch clock {
    case .idle, nil: return false
    case .counting, .paused, .ready: break
    }
    token = nil
    clock = .idle(since: now)
    pass(to: now)
    return true
  }

  private mutating func count(for left: Int64, at now: Int64) {
    clock = .counting(until: max(now + left, quota(now).until))
    pass(to: now)
  }

  private var isPaused: Bool { if case .paused = clock { true } else { false } }
  private var isCounting: Bool { if case .counting = clock { true } else { false } }
}

extension Interval {
  var inMilliseconds: Int64 { microseconds / 1_000 }
}
