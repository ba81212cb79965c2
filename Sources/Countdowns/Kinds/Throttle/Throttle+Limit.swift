/// A named limit: a throttle whose rules have a name. Besides the rate it has windows, and stops
/// sends whose codes nobody enters.
///
///     open --last room taken--> full --room--> open
///     open, full --too few codes entered--> blocked --block over, UNBLOCK--> open | full
///
/// The rules in force decide, so the caller passes them: those of the limit are the rules of its
/// newest send, by which it stays on record.
extension Throttle {
  /// What only a named limit has.
  package struct Limit: Equatable, Sendable {
    package internal(set) var rules: LimitRules
    package internal(set) var sends = LimitSends()
    /// The id of the first send since the rate was last unused: an earlier one has come back.
    package internal(set) var busySince: Int64 = 0
    /// Sends up to this id do not count for `passed` any more.
    package internal(set) var countedAfter: Int64 = 0
    package internal(set) var blockedUntil: Instant?
    /// When there is room again; nil while there is.
    package internal(set) var roomAt: Instant?
    /// The latest room that was promised to somebody who waits. Not stored.
    var promised: Instant?

    init(_ rules: LimitRules) { self.rules = rules }

    /// The newest id that is known.
    var newestID: Int64 { max(busySince, sends.last?.id ?? 0) }
  }

  /// The codes that were looked at when a limit was blocked.
  package struct Passes: Equatable, Sendable {
    package var entered: UInt32
    package var of: UInt32
  }

  /// Creates an unused named limit.
  package init(_ rules: LimitRules, at now: Instant) {
    self.init(rules.rate, at: now)
    limit = Limit(rules)
  }

  // MARK: Inputs

  /// Takes `cost` from a limit that does not refuse it.
  ///
  /// - Parameter maximum: how many units stay on record.
  mutating func take(
    _ cost: UInt32, id: Int64, hasCode: Bool, by rules: LimitRules, atMost maximum: Int,
    at now: Instant
  ) {
    change(rules.rate, at: now)
    let isUnused = emptyRate <= now
    use(cost, at: now)
    changeLimit { limit, rate in
      if limit.rules !== rules { limit.rules = rules }
      if isUnused { limit.busySince = id }
      if rules.retention > .zero {
        limit.prune(by: rules, at: now)
        let outcome: LimitSends.Outcome = hasCode ? .unknown : .ignored
        // Without a window, only the newest matter: they alone can count for `passed`.
        let count = min(Int(cost), maximum)
        let excess = limit.sends.count + count - maximum
        if excess > 0 { limit.sends.removeFirst(excess) }
        // The servers' clock may have been set back.
        let at = max(now, limit.sends.last?.at ?? now)
        limit.sends.append(.init(at: at, id: id, count: UInt32(count), outcome))
      }
      limit.roomAt = limit.fullUntil(rate, at: now)
    }
  }

  /// Takes the rules in force: what is used at that moment stays used, and comes back at their
  /// rate. Returns false if they are those that it has.
  mutating func adopt(_ rules: LimitRules, at moment: Instant) -> Bool {
    guard !isNamed || !changeLimit({ limit, _ in limit.hasRules(like: rules) }) else {
      return false
    }
    change(rules.rate, at: moment)
    if !isNamed { limit = Limit(rules) }
    changeLimit { limit, rate in
      limit.rules = rules
      // A full limit reports its room when it is looked at next.
      limit.roomAt = limit.fullUntil(rate, at: moment) ?? limit.roomAt.map { min($0, moment) }
    }
    return true
  }

  /// Gives one send back, as if it had not been. Returns false if it does not matter any more.
  ///
  /// - Parameters:
  ///   - cost: what was taken with this id.
  ///   - taken: when it was taken, if what has come back since then is not given back again.
  mutating func refund(
    id: Int64, cost: UInt32 = 1, taken: Instant? = nil, at now: Instant
  ) -> Bool {
    guard let busySince = readLimit({ $0.busySince }) else { return false }
    let isUsed = id >= busySince && emptyRate > now
    if isUsed { refund(cost, taken: taken, at: now) }
    return changeLimit { limit, rate in
      let isOnRecord = limit.sends.remove(cost, of: id)
      limit.roomAt = limit.fullUntil(rate, at: now)
      return isUsed || isOnRecord
    }
  }

  /// Gives back what was taken with an id, until `cost` of it is given back in all: to windows that
  /// it has not left, and to the rate what has not come back. Returns false if that is nothing.
  mutating func refund(
    _ cost: UInt32, of id: Int64, by rules: LimitRules, at now: Instant
  ) -> Bool {
    guard let busySince = readLimit({ $0.busySince }) else { return false }
    let given = changeLimit { limit, _ in
      limit.prune(by: rules, at: now)
      return limit.sends.refund(cost, of: id)
    }
    guard let (units, taken) = given else { return false }
    if id >= busySince, emptyRate > now { refund(units, taken: taken, at: now) }
    changeLimit { limit, rate in limit.roomAt = limit.fullUntil(rate, at: now) }
    return true
  }

  /// Gives back the newest `cost`.
  mutating func refundNewest(_ cost: UInt32, at now: Instant) {
    refund(cost, at: now)
    guard isNamed else { return }
    changeLimit { limit, rate in
      limit.sends.removeLast(Int(cost))
      limit.roomAt = limit.fullUntil(rate, at: now)
    }
  }

  /// Learns whether the code of a send was entered. Returns the codes that count, if they are too
  /// few and sends are refused from now on.
  mutating func learn(
    _ outcome: LimitSends.Outcome, of id: Int64, by rules: LimitRules, at now: Instant
  ) -> Passes? {
    changeLimit { limit, _ in
      // What no rule looks at any more changes nothing.
      limit.prune(by: rules, at: now)
      guard limit.sends.set(outcome, of: id), outcome != .ignored, limit.blockedUntil == nil,
        let passed = rules.rules.passed, let passes = limit.passes(by: passed, at: now),
        UInt64(passes.entered) * 100 < UInt64(passed.least) * UInt64(passes.of)
      else { return nil }
      limit.blockedUntil = now + passed.block
      limit.countedAfter = limit.sends.last?.id ?? limit.countedAfter
      limit.roomAt = nil
      return passes
    }
  }

  /// Ends a block. Returns false if there is none.
  mutating func unblock(at now: Instant) -> Bool {
    guard blockedUntil != nil else { return false }
    changeLimit { limit, rate in
      limit.blockedUntil = nil
      limit.roomAt = limit.fullUntil(rate, at: now)
    }
    return true
  }

  /// Notes whether there is room, once `roomAt` has come. Returns whether there is.
  mutating func findRoom(by rules: LimitRules, at now: Instant) -> Bool {
    let until = refusal(of: 1, by: rules, at: now)?.until
    return changeLimit { limit, _ in
      limit.roomAt = until
      return until == nil
    }
  }

  /// Notes what was promised for a copy of this limit.
  mutating func note(_ promised: Instant) { changeLimit { limit, _ in limit.promised = promised } }

  /// Returns when somebody who waits for room may expect it, if nobody else comes: each one a room
  /// later than the one before, and at the latest when the limit is unused.
  mutating func promise(by rules: LimitRules, at now: Instant) -> Instant? {
    guard let first = refusal(of: 1, by: rules, at: now)?.until else { return nil }
    let rate = current(by: rules, at: now)
    return changeLimit { limit, _ in
      var room = first
      if let promised = limit.promised, promised >= first {
        let later = max(rate.refill(after: promised), limit.leaves(after: promised, by: rules))
        room = max(first, min(later, max(rate.emptyRate, limit.emptyWindows(by: rules))))
      }
      limit.promised = room
      return room
    }
  }

  // MARK: State

  /// Returns why and until when `cost` is refused; nil if it is accepted.
  package func refusal(of cost: UInt32, by rules: LimitRules, at now: Instant) -> Refusal? {
    readLimit { limit in
      let least = min(cost, rules.rate.burst)
      let answer =
        rules.rate == rate
        ? answer(to: least, at: now) : current(by: rules, at: now).answer(to: least, at: now)
      var until = answer.isAccepted ? now : now + answer.retryAfter
      for window in rules.rules.windows {
        guard let free = limit.room(in: window, for: Int(cost), at: now) else { continue }
        until = max(until, free)
      }
      if let blocked = limit.blockedUntil, blocked >= until, blocked > now {
        return Refusal(.blocked, until: blocked)
      }
      return until > now ? Refusal(.limit, until: until) : nil
    } ?? nil
  }

  /// The earliest of what happens by itself.
  var nextOfLimit: Instant? {
    readLimit { limit in
      let empty = limit.emptyAt(emptyRate)
      return min(empty, limit.blockedUntil ?? empty, limit.roomAt ?? empty)
    }
  }

  /// When nothing is used and nothing is on record any more.
  var emptyAt: Instant { readLimit { $0.emptyAt(emptyRate) } ?? emptyRate }

  // MARK: Parts

  /// Returns the rate as it is by the rules in force. Its limit is the same.
  func current(by rules: LimitRules, at now: Instant) -> Throttle {
    guard rules.rate != rate else { return self }
    var changed = self
    changed.change(rules.rate, at: now)
    return changed
  }
}

extension Throttle.Limit {
  /// Returns when nothing is on record any more, and the rate is unused from `emptyRate` on.
  fileprivate func emptyAt(_ emptyRate: Instant) -> Instant {
    let empty = max(emptyRate, blockedUntil ?? .zero)
    return sends.last.map { max(empty, $0.at + rules.retention) } ?? empty
  }

  fileprivate func emptyWindows(by rules: LimitRules) -> Instant {
    sends.last.map { $0.at + rules.longest } ?? .zero
  }

  /// Returns the number of units in a window. `changes` is when the oldest leaves.
  func filling(
    _ window: SendPolicy.Window, at now: Instant
  ) -> (inside: Int, changes: Instant?) {
    let first = sends.firstUnit(at: now, within: window.length)
    guard first < sends.count else { return (0, nil) }
    return (sends.count - first, sends.time(ofUnit: first) + window.length)
  }

  /// Returns when a window has room for `cost`; nil if it has.
  fileprivate func room(in window: SendPolicy.Window, for cost: Int, at now: Instant) -> Instant? {
    let inside = sends.count - sends.firstUnit(at: now, within: window.length)
    guard inside + cost > window.limit else { return nil }
    let leaving = min(sends.count - 1, sends.count - window.limit + cost - 1)
    return leaving >= 0 ? sends.time(ofUnit: leaving) + window.length : nil
  }

  /// Returns when the first unit leaves a window after a moment.
  fileprivate func leaves(after moment: Instant, by rules: LimitRules) -> Instant {
    var latest = moment
    for window in rules.rules.windows {
      let first = sends.firstUnit(at: moment, within: window.length)
      if first < sends.count { latest = max(latest, sends.time(ofUnit: first) + window.length) }
    }
    return latest
  }

  /// Returns when one more is accepted by the limit's own rules; nil if it is now, or blocked.
  fileprivate func fullUntil(_ rate: Throttle, at now: Instant) -> Instant? {
    guard blockedUntil == nil else { return nil }
    var until = now + rate.answer(to: 1, at: now).retryAfter
    for window in rules.rules.windows {
      if let free = room(in: window, for: 1, at: now) { until = max(until, free) }
    }
    return until > now ? until : nil
  }

  /// Returns whether rules allow what its own do, and shares them if they do.
  fileprivate mutating func hasRules(like other: LimitRules) -> Bool {
    guard rules !== other else { return true }
    guard rules.rate == other.rate, rules.rules.windows == other.rules.windows,
      rules.rules.passed == other.rules.passed
    else { return false }
    rules = other
    return true
  }

  /// Completes the rules that were read: the rate is the throttle's.
  mutating func adopt(_ rate: Throttle.Rate) {
    var complete = rules.rules
    complete.rate = rate == .unlimited && !complete.windows.isEmpty ? nil : rate
    if let read = try? LimitRules(complete) { rules = read }
  }

  fileprivate mutating func prune(by rules: LimitRules, at now: Instant) {
    let stale = sends.firstUnit(at: now, within: rules.retention)
    if stale > 0 { sends.removeFirst(stale) }
  }

  /// Returns how many of the newest codes were entered; nil while too few are known.
  fileprivate func passes(
    by passed: LimitRules.Passed, at now: Instant
  ) -> Throttle.Passes? {
    var passes = Throttle.Passes(entered: 0, of: 0)
    for send in sends.newestFirst {
      guard send.at + passed.within > now, send.id > countedAfter else { return nil }
      switch send.outcome {
      case .unknown, .ignored: continue
      case .entered: passes.entered += 1
      case .missed: break
      }
      passes.of += 1
      if passes.of == passed.of { return passes }
    }
    return nil
  }
}

extension Throttle.Limit: Stored {
  package static var blank: Throttle.Limit {
    var rules = LimitRules.Rules()
    rules.rate = .unlimited
    guard let blank = try? LimitRules(rules) else { preconditionFailure("valid rules") }
    return Throttle.Limit(blank)
  }

  /// Visits all fields but the rate, which is the throttle's, and sends that have pages.
  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    var rules = rules.rules
    visitor.list("windows", &rules.windows, blank: SendPolicy.Window.blank) {
      var limit = UInt32($1.limit)
      $0.field("limit", &limit)
      $1.limit = Int(limit)
      $0.field("length", &$1.length.microseconds)
    }
    let blank = LimitRules.Passed(least: 1, of: 1, within: .zero, block: .zero)
    visitor.optional("passed", &rules.passed, blank: blank) {
      $0.field("least", &$1.least)
      $0.field("of", &$1.of)
      $0.field("in", &$1.within.microseconds)
      $0.field("block", &$1.block.microseconds)
    }
    visitor.field("busy_since", &busySince)
    visitor.field("counted_after", &countedAfter)
    visitor.instant("blocked_until", &blockedUntil)
    visitor.instant("room_at", &roomAt)
    if EntityRecord.isShared(visitor.format) { sends.fields(&visitor) }
    guard Visitor.isReading else { return }
    rules.rate = .unlimited
    if let read = try? LimitRules(rules) { self.rules = read } else { visitor.fail() }
  }
}
