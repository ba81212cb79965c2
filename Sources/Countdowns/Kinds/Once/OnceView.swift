/// The view of an idempotency key.
package struct OnceView: GuardView, ViewOfEntity, Equatable {
  package enum State: String, CaseIterable, Sendable { case idle, running, done }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var remainingMS: Int64
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var owner: Owner
  package var result: [UInt8]?
  /// Milliseconds until the lease is over; nil unless work with a lease is running.
  package var leaseMS: Int64?

  /// Creates the view of a key that has ended.
  init(idle entity: GuardEntity<Once>, at now: Moment) {
    key = entity.key
    state = .idle
    generation = entity.generation
    remainingMS = 0
    nowUnixMS = now.unixMilliseconds
    owner = entity.owner
  }

  init(_ entity: GuardEntity<Once>, at now: Moment) {
    self.init(idle: entity, at: now)
    let machine = entity.machine
    switch machine.phase {
    case .running:
      state = .running
      leaseMS = machine.lease.map { now.milliseconds(until: $0.until) }
    case .lapsed: break
    case .done(let result):
      state = .done
      self.result = result
    }
    remainingMS = machine.remainingTime(at: now.boot).millisecondsRoundedUp
    deadlineUnixMS = now.unixMilliseconds(of: machine.deadline)
  }

  package var kind: EntityKind { .once }
  package var isDurable: Bool { owner == .none }

  package static var blank: OnceView { OnceView(idle: .blank, at: .zero) }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.key(key)
    writer.generation(generation)
    writer.answer(answer, [.duplicate, .mismatch, .repeated, .degraded])
    writeState(to: &writer)
  }

  package func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.choice("state", state, "`idle` in events at the end.")
    writer.field(
      "result", bytes: result, .bytes().orNull,
      "The result; null while running, and in a `mismatch`.")
    writer.time(
      left: remainingMS, until: deadlineUnixMS, now: nowUnixMS, "The time until TTL is over.")
    writer.field(
      "lease_ms", leaseMS, .duration().orNull,
      "The time until LEASE is over; null unless work with a lease is running.")
    writer.owner(owner)
  }
}

extension OnceKind {
  static let events: [EventDescription] = [
    .init(.started, "The first request was accepted."),
    .init(.refused, "A repetition was refused; `reason` `duplicate` or `mismatch`."),
    .init(.done, "The result was recorded."),
    .init(.expired, "TTL is over; or the lease, with `reason` `lease`."),
    .init(.cancelled, "`reason` `cancelled` or `owner-gone`."),
  ]
}
