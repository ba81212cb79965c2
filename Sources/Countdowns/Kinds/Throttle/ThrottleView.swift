/// The view of a rate limit.
package struct ThrottleView: GuardView, Equatable {
  package enum State: String, CaseIterable, Sendable {
    /// Nothing is used.
    case idle
    case available, exhausted
  }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
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

  init(_ entity: GuardEntity<Throttle>, at now: Moment) {
    let machine = entity.machine
    self.init(
      entity.key, entity.generation, machine, machine.answer(to: 1, at: now.boot), at: now)
  }

  package var kind: EntityKind { .throttle }
  package var isDurable: Bool { true }

  package func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    writer.field("limit", limit)
    writer.field("remaining", remaining)
    writer.field("retry_after_ms", retryAfterMS)
    writer.field("reset_after_ms", resetAfterMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("rate_count", rateCount)
    writer.field("rate_ms", rateMS)
  }
}

extension ThrottleKind {
  static let fields =
    [Field("key", .key, "The key."), .generation] + .answer([.rate, .repeated, .degraded]) + [
      Field("state", .choice(ThrottleView.State.self), "`idle`: nothing is used."),
      Field("limit", .count, "BURST."),
      Field("remaining", .count, "How much of BURST is left."),
      Field(
        "retry_after_ms", .duration(),
        "The time until this COST is accepted, rounded up. GET, LIST and `ready`: for COST 1."),
      Field("reset_after_ms", .duration(), "The time until all of BURST is back, rounded up."),
      .now,
      Field("rate_count", .count, "The count of RATE."),
      Field("rate_ms", .duration(), "The duration of RATE."),
    ]

  static let events: [EventDescription] = [
    .init(.accepted, "The request was accepted."), .init(.refused, "The request was refused."),
    .init(.refunded, "REFUND."), .init(.ready, "All of BURST is back."),
  ]
}
