/// The view of a rate limit.
package struct ThrottleView: GuardView, ViewOfEntity, Equatable {
  package enum State: String, CaseIterable, Sendable {
    /// Nothing is used.
    case idle
    case available, exhausted
    /// Too few codes were entered: nothing is accepted for a while.
    case blocked
  }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  /// In a reply to TAKE: by which REFUND gives it back; nil if there is nothing to give back by it.
  package private(set) var id: Int64?
  package var limit: Int64
  package var remaining: Int64
  /// The time until a request of the given cost, or of cost 1, is accepted.
  package var retryAfterMS: Int64
  /// The time until all of BURST is available.
  package var resetAfterMS: Int64
  package var nowUnixMS: Int64
  package var rateCount: Int64
  package var rateMS: Int64

  init(
    _ key: [UInt8], _ generation: Generation, _ machine: Throttle, _ answer: Throttle.Answer,
    at now: Moment
  ) {
    self.key = key
    self.generation = generation
    limit = Int64(machine.rate.burst)
    remaining = answer.remaining
    state = answer.resetAfter == .zero ? .idle : remaining > 0 ? .available : .exhausted
    retryAfterMS = answer.retryAfter.millisecondsRoundedUp
    resetAfterMS = answer.resetAfter.millisecondsRoundedUp
    nowUnixMS = now.unixMilliseconds
    rateCount = Int64(machine.rate.count)
    rateMS = machine.rate.period.millisecondsRoundedUp
  }

  /// Creates the view of a named limit: of its rate and its windows, what has the least left.
  init(
    _ key: [UInt8], _ generation: Generation, _ machine: Throttle, by rules: LimitRules,
    cost: UInt32 = 1, at now: Moment
  ) {
    let rate = machine.current(by: rules, at: now.boot)
    let answer = rate.answer(to: min(cost, rate.rate.burst), at: now.boot)
    self.init(key, generation, rate, answer, at: now)
    if rules.rules.rate == nil {
      remaining = .max
      if let longest = rules.rules.windows.max(by: { $0.length < $1.length }) {
        rateCount = Int64(longest.limit)
        rateMS = longest.length.millisecondsRoundedUp
      }
    }
    for window in rules.rules.windows {
      let inside = machine.limit?.filling(window, at: now.boot).inside ?? 0
      let left = Int64(max(window.limit - inside, 0))
      if left < remaining { (remaining, limit) = (left, Int64(window.limit)) }
    }
    let refusal = machine.refusal(of: cost, by: rules, at: now.boot)
    retryAfterMS = refusal.map { ($0.until - now.boot).millisecondsRoundedUp } ?? 0
    let empty = machine.emptyAt
    resetAfterMS = max(empty - now.boot, .zero).millisecondsRoundedUp
    state =
      resetAfterMS == 0
      ? .idle
      : machine.blockedUntil.map { $0 > now.boot } ?? false
        ? .blocked : remaining > 0 ? .available : .exhausted
  }

  init(_ entity: GuardEntity<Throttle>, at now: Moment) {
    let machine = entity.machine
    if let limit = machine.limit {
      self.init(entity.key, entity.generation, machine, by: limit.rules, at: now)
      return
    }
    self.init(
      entity.key, entity.generation, machine, machine.answer(to: 1, at: now.boot), at: now)
  }

  package var kind: EntityKind { .throttle }
  package var isDurable: Bool { true }

  package static var blank: ThrottleView {
    var view = ThrottleView(.blank, at: .zero)
    view.id = 0
    return view
  }

  /// Notes the id of what was taken, if its limit has a record of that.
  mutating func name(_ id: Int64, by rules: LimitRules) {
    if id > 0, rules.retention > .zero { self.id = id }
  }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.key(key)
    writer.generation(generation)
    if let id {
      writer.field(
        "id", id, .count,
        "In a reply to TAKE of a named limit with windows: REFUND with this ID gives it back.")
    }
    writer.answer(answer, [.rate, .repeated, .degraded, .limit, .blocked])
    writeState(to: &writer)
  }

  package func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.choice(
      "state", state,
      "`idle`: nothing is used. `blocked`: too few codes of a named limit were entered.")
    writer.field(
      "limit", limit, .count, "BURST; of a named limit, of what has the least left.")
    writer.field("remaining", remaining, .count, "How much of it is left.")
    writer.field(
      "retry_after_ms", retryAfterMS, .duration(),
      "The time until this COST is accepted, rounded up. GET, LIST and `ready`: for COST 1.")
    writer.field(
      "reset_after_ms", resetAfterMS, .duration(),
      "The time until all of BURST is back, rounded up.")
    writer.now(nowUnixMS)
    writer.field(
      "rate_count", rateCount, .count, "The count of RATE, or of the longest window.")
    writer.field(
      "rate_ms", rateMS, .duration(), "The duration of RATE, or of the longest window.")
  }
}

extension ThrottleKind {
  static let events: [EventDescription] = [
    .init(.accepted, "The request was accepted."), .init(.refused, "The request was refused."),
    .init(.refunded, "REFUND."), .init(.ready, "All of BURST is back."),
    .init(.full, "A named limit has no room for one more."), .init(.room, "It has room again."),
    .init(.blocked, "Too few codes of a named limit were entered; `reason` is `passed`."),
    .init(.unblocked, "The block is over, or UNBLOCK."),
    .init(.cancelled, "CLEAR."),
  ]
}
