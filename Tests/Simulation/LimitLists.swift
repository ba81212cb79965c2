import Countdowns

/// Named limits as plain lists of moments: the naive model of `LimitSimulation`.
struct LimitLists {
  /// What happened to a limit.
  fileprivate enum Entry {
    case taken(at: Int64, id: Int64, cost: Int64)
    case givenBack(at: Int64, id: Int64)
    case refunded(at: Int64, count: Int64)
    /// Some of what was taken with an id; what has come back since then is not given back again.
    case returned(at: Int64, id: Int64, count: Int64, taken: Int64)
    /// Other rules came into force.
    case ruled(at: Int64, Throttle.Rate)
  }

  /// A TAKE with a token.
  struct Token {
    let token: [UInt8]
    let keys: Set<[UInt8]>
    let cost: Int64
    let at: Int64
    let generation: Generation
    let id: Int64
  }

  struct Send {
    let at: Int64
    let id: Int64
    var isEntered: Bool?
    var counts: Bool
  }

  struct Limit {
    fileprivate var history: [Entry] = []
    /// The rate at the beginning of the history.
    fileprivate var rate: Throttle.Rate?
    /// The newest that are remembered, oldest first.
    var tokens: [Token] = []
    var sends: [Send] = []
    /// How much was given back by each id.
    var returned: [Int64: Int64] = [:]
    var blockedUntil: Int64?
    /// When it was blocked last.
    var blockedAt: Int64?
    var countedAfter: Int64 = 0
  }

  private(set) var rules: [String: LimitRules] = [:]
  private(set) var limits: [[UInt8]: Limit] = [:]

  func rules(of key: [UInt8]) -> LimitRules {
    rules[String(decoding: key.prefix { $0 != UInt8(ascii: ":") }, as: UTF8.self)]!
  }

  // MARK: Rate

  /// Replays the list: what is used now, in units of 1/count µs, and the first id since it was
  /// last unused.
  private func used(_ key: [UInt8], at now: Int64) -> (level: Int128, since: Int64) {
    var rate = limits[key]?.rate ?? rules(of: key).rate
    var use: Int128 { Int128(rate.period.microseconds) }
    var (level, last, since): (Int128, Int64, Int64) = (0, 0, 0)
    func leak(to moment: Int64) {
      level = max(level - Int128(moment - last) * Int128(rate.count), 0)
      last = moment
    }
    for entry in limits[key]?.history ?? [] {
      switch entry {
      case .taken(let at, let id, let cost):
        leak(to: at)
        if level == 0 { since = id }
        level += Int128(cost) * use
      case .givenBack(let at, let id):
        leak(to: at)
        if id >= since { level = max(level - use, 0) }
      case .refunded(let at, let count):
        leak(to: at)
        level = max(level - Int128(count) * use, 0)
      case .returned(let at, let id, let count, let taken):
        leak(to: at)
        let left = Int128(count) * use - Int128(at - taken) * Int128(rate.count)
        if id >= since { level = max(level - max(left, 0), 0) }
      case .ruled(let at, let new):
        leak(to: at)
        guard new != rate else { continue }
        let newUse = Int128(new.period.microseconds)
        level = min(level, Int128(rate.burst) * use) * newUse
        level = min((level + use - 1) / use, Int128(new.burst) * newUse)
        rate = new
      }
    }
    leak(to: now)
    return (level, since)
  }

  /// Returns until when the limits with these keys refuse, and which of them ends last.
  func refusal(
    _ keys: [[UInt8]], cost: Int64 = 1, at now: Int64
  ) -> (key: [UInt8], until: Int64, reason: Reason)? {
    var last: (key: [UInt8], until: Int64, reason: Reason)?
    for key in keys {
      let rules = rules(of: key)
      var until = now
      if let rate = rules.rules.rate {
        let use = Int128(rate.period.microseconds)
        let excess = used(key, at: now).level + Int128(cost) * use - Int128(rate.burst) * use
        if excess > 0 {
          until = now + Int64((excess + Int128(rate.count) - 1) / Int128(rate.count))
        }
      }
      let sends = limits[key]?.sends ?? []
      for window in rules.rules.windows {
        // The first moment at which so many have left that there is room.
        let moments = [now] + sends.map { $0.at + window.length.microseconds }
        let free = moments.sorted().first { moment in
          moment >= now
            && sends.count { $0.at + window.length.microseconds > moment } + Int(cost)
              <= window.limit
        }
        until = max(until, free ?? now)
      }
      var reason = Reason.limit
      if let blocked = limits[key]?.blockedUntil, blocked > now, blocked >= until {
        (until, reason) = (blocked, .blocked)
      }
      if until > last?.until ?? now { last = (key, until, reason) }
    }
    return last
  }

  /// Returns how many more are accepted now, apart from a block.
  func left(_ key: [UInt8], at now: Int64) -> Int64 {
    let rules = rules(of: key).rules
    var left = Int64.max
    if let rate = rules.rate {
      let use = Int128(rate.period.microseconds)
      left = Int64((Int128(rate.burst) * use - used(key, at: now).level) / use)
    }
    for window in rules.windows {
      let inside = (limits[key]?.sends ?? []).count { $0.at + window.length.microseconds > now }
      left = min(left, Int64(window.limit - inside))
    }
    return max(left, 0)
  }

  // MARK: Changes

  /// Brings rules into force.
  mutating func apply(_ new: [String: LimitRules], at now: Int64) {
    rules = new
    for key in limits.keys { limits[key]!.history.append(.ruled(at: now, rules(of: key).rate)) }
  }

  /// Returns what the limits with these keys remember of a token.
  func remembered(_ token: [UInt8], _ keys: [[UInt8]]) -> [[UInt8]: Token] {
    var found: [[UInt8]: Token] = [:]
    for key in keys { found[key] = limits[key]?.tokens.last { $0.token == token } }
    return found
  }

  mutating func remember(_ token: Token, for key: [UInt8]) {
    limits[key]!.tokens = (limits[key]!.tokens + [token]).suffix(Tokens.maximum)
  }

  mutating func take(_ keys: [[UInt8]], cost: Int64 = 1, id: Int64, hasCode: Bool, at now: Int64) {
    for key in keys {
      // What happened before it was unused does not matter.
      if used(key, at: now).level == 0 {
        limits[key, default: Limit()].history = []
        limits[key]!.rate = rules(of: key).rate
      }
      limits[key, default: Limit()].history.append(.taken(at: now, id: id, cost: cost))
      for _ in 0..<cost {
        limits[key]!.sends.append(Send(at: now, id: id, isEntered: nil, counts: hasCode))
      }
    }
  }

  /// Returns whether a limit still counts what was sent at a moment: in a window, for `passed`, or
  /// as the rate would not have all of its burst back.
  func counts(_ key: [UInt8], sentAt sent: Int64, at now: Int64) -> Bool {
    let rules = rules(of: key)
    guard sent + rules.retention.microseconds <= now else { return true }
    guard let rate = rules.rules.rate else { return false }
    let burst = Int128(rate.burst) * Int128(rate.period.microseconds)
    return burst > Int128(now - sent) * Int128(rate.count)
  }

  mutating func refund(_ id: Int64, sentAt sent: Int64, _ keys: [[UInt8]], at now: Int64) {
    for key in keys where limits[key] != nil && counts(key, sentAt: sent, at: now) {
      limits[key]!.history.append(.givenBack(at: now, id: id))
      if let place = limits[key]!.sends.firstIndex(where: { $0.id == id }) {
        limits[key]!.sends.remove(at: place)
      }
    }
  }

  /// Gives back the newest.
  mutating func refund(_ key: [UInt8], _ count: Int64, at now: Int64) {
    guard limits[key] != nil else { return }
    limits[key]!.history.append(.refunded(at: now, count: count))
    // Those that no rule looks at any more are not on record.
    let old = limits[key]!.sends.prefix {
      $0.at + rules(of: key).retention.microseconds <= now
    }
    let recorded = limits[key]!.sends.count - old.count
    limits[key]!.sends.removeLast(min(Int(count), recorded))
  }

  /// Gives back what was taken with an id, so that `count` of it is given back in all. Returns
  /// whether that is anything.
  mutating func refund(_ key: [UInt8], _ count: Int64, of id: Int64, at now: Int64) -> Bool {
    let retention = rules(of: key).retention.microseconds
    let units = (limits[key]?.sends ?? []).filter { $0.id == id && $0.at + retention > now }
    let before = limits[key]?.returned[id] ?? 0
    let more = min(Int64(units.count), count - before)
    guard more > 0 else { return false }
    limits[key]!.returned[id] = before + more
    limits[key]!.history.append(.returned(at: now, id: id, count: more, taken: units[0].at))
    for _ in 0..<more {
      let place = limits[key]!.sends.firstIndex { $0.id == id }!
      limits[key]!.sends.remove(at: place)
    }
    return true
  }

  mutating func learn(_ isEntered: Bool, _ id: Int64, _ keys: [[UInt8]], at now: Int64) {
    for key in keys {
      guard let place = limits[key]?.sends.firstIndex(where: { $0.id == id && $0.counts }) else {
        continue
      }
      limits[key]!.sends[place].isEntered = isEntered
      guard let passed = rules(of: key).rules.passed, limits[key]!.blockedUntil == nil else {
        continue
      }
      let known = limits[key]!.sends.filter {
        $0.isEntered != nil && $0.at + passed.within.microseconds > now
          && $0.id > limits[key]!.countedAfter
      }.suffix(Int(passed.of))
      guard known.count == Int(passed.of),
        known.count(where: { $0.isEntered! }) * 100 < Int(passed.least) * known.count
      else { continue }
      limits[key]!.blockedUntil = now + passed.block.microseconds
      limits[key]!.blockedAt = now
      limits[key]!.countedAfter = limits[key]!.sends.last!.id
    }
  }

  mutating func ignore(_ id: Int64, _ keys: [[UInt8]]) {
    for key in keys {
      guard
        let place = limits[key]?.sends.firstIndex(where: { $0.id == id && $0.isEntered == nil })
      else { continue }
      limits[key]!.sends[place].counts = false
    }
  }

  mutating func clear(_ key: [UInt8]) { limits[key] = nil }

  mutating func unblock(_ key: [UInt8]) { limits[key]?.blockedUntil = nil }

  mutating func pass(to now: Int64) {
    for key in limits.keys where limits[key]!.blockedUntil.map({ $0 <= now }) ?? false {
      limits[key]!.blockedUntil = nil
    }
    // What no rule looks at any more.
    for key in limits.keys {
      let retention = rules(of: key).retention.microseconds
      limits[key]!.sends.removeAll { $0.at + retention <= now }
    }
    // What is not used any more is forgotten with its tokens.
    for (key, limit) in limits {
      guard let newest = limit.tokens.last, newest.at + Tokens.retention.microseconds <= now,
        limit.sends.isEmpty, limit.blockedUntil == nil, used(key, at: now).level == 0
      else { continue }
      limits[key]!.tokens = []
    }
  }
}
