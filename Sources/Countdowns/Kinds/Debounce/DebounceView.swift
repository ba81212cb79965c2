/// The view of a debouncer.
package struct DebounceView: GuardView, ViewOfEntity, Equatable {
  package enum State: String, CaseIterable, Sendable { case idle, waiting, resting }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  /// The number of calls that no event has reported yet; in `fired`, of those that it reports.
  package var calls: Int64
  /// Milliseconds until it fires, or until the burst is over.
  package var remainingMS: Int64
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var quietMS: Int64
  package var maximumWaitMS: Int64?
  package var edges: Debounce.Edges
  package var spacingMS: Int64?
  package var owner: Owner
  package var payload: [UInt8]?

  /// Creates the view of a burst that is over.
  init(idle entity: GuardEntity<Debounce>, at now: Moment) {
    let rule = entity.machine.rule
    key = entity.key
    state = .idle
    generation = entity.generation
    calls = 0
    remainingMS = 0
    nowUnixMS = now.unixMilliseconds
    quietMS = rule.quiet.millisecondsRoundedUp
    maximumWaitMS = rule.maximumWait?.millisecondsRoundedUp
    edges = rule.edges
    spacingMS = rule.spacing?.millisecondsRoundedUp
    owner = entity.owner
  }

  init(_ entity: GuardEntity<Debounce>, at now: Moment) {
    self.init(idle: entity, at: now)
    let machine = entity.machine
    state = machine.waiting == nil ? .resting : .waiting
    calls = machine.waiting?.calls ?? 0
    payload = machine.waiting?.payload
    remainingMS = now.milliseconds(until: machine.nextDue)
    deadlineUnixMS = now.unixMilliseconds(of: machine.nextDue)
  }

  package var kind: EntityKind { .debounce }
  package var isDurable: Bool { owner == .none }

  package static var blank: DebounceView { DebounceView(idle: .blank, at: .zero) }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.key(key)
    writer.generation(generation, "New with each burst.")
    writer.answer(answer, [.repeated, .degraded])
    writeState(to: &writer)
  }

  package func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.choice(
      "state", state,
      "`resting`: nothing is pending, but the burst is not over; `idle` in events at the end.")
    writer.field(
      "calls", calls, .count,
      "The calls that no event has reported yet; in `fired`, those it reports.")
    writer.time(
      left: remainingMS, until: deadlineUnixMS, now: nowUnixMS,
      "The time until it fires, or until the burst is over.")
    writer.field("quiet_ms", quietMS, .duration(), "The quiet time.")
    writer.field("max_wait_ms", maximumWaitMS, .duration().orNull, "MAXWAIT; null without.")
    writer.field("leading", edges != .trailing, "Whether the first call of a burst fires at once.")
    writer.choice("edges", edges, "EDGES.")
    writer.field("spacing_ms", spacingMS, .duration().orNull, "SPACING; null without.")
    writer.owner(owner)
    writer.field("payload", bytes: payload, .bytes().orNull, "PAYLOAD; null without.")
  }
}

extension DebounceKind {
  static let events: [EventDescription] = [
    .init(.fired, "`reason` `quiet`, `max-wait`, `spacing`, `leading` or `flush`."),
    .init(.cancelled, "`reason` `cancelled` or `owner-gone`."),
  ]
}
