/// The view of a plain timer.
package struct TimerView: ViewOfEntity, Equatable {
  package enum State: String, Sendable {
    case running, paused
    /// No time is left: it fires now.
    case idle
  }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var remainingMS: Int64
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var everyMS: Int64?
  package var clock: TimerClock
  package var late: PlainTimer.Late
  package var fired: Int64
  package var missed: Int64
  package var owner: Owner
  package var payload: [UInt8]?
  /// In `fired`: the number of missed periods, not counting the one for which it fires.
  package var justMissed: Int64?

  package var kind: EntityKind { .timer }
  package var isDurable: Bool { owner == .none }

  init(_ entity: TimerEntity, at now: Moment) {
    let machine = entity.machine
    key = entity.key
    generation = entity.generation
    switch machine.phase {
    case .running(let deadline):
      state = deadline > now.on(entity.clock) ? .running : .idle
      deadlineUnixMS = now.unixMilliseconds(of: deadline, on: entity.clock)
    case .paused:
      state = .paused
    }
    remainingMS = machine.remainingTime(at: now.on(entity.clock)).millisecondsRoundedUp
    nowUnixMS = now.unixMilliseconds
    everyMS = machine.every?.millisecondsRoundedUp
    clock = entity.clock
    late = machine.late
    fired = machine.fired
    missed = machine.missed
    owner = entity.owner
    payload = entity.payload
  }

  package static var blank: TimerView { TimerView(.blank, at: .zero) }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.key(key)
    writer.generation(generation)
    writer.answer(answer, [.exists, .degraded])
    writeState(to: &writer)
    writeSettings(late, to: &writer)
  }

  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    switch name {
    case .cancelled:
      writer.over("idle", at: nowUnixMS)
    case .fired:
      // A one-shot timer is over once it has fired.
      if everyMS == nil { writer.over("idle", at: nowUnixMS) } else { writeState(to: &writer) }
      writer.field("fired", fired)
      writer.field("missed", justMissed)
      writer.field("payload", bytes: payload)
    case .set, .snapshot:
      writeState(to: &writer)
      writeSettings(nil, to: &writer)
    default:
      writeState(to: &writer)
    }
  }

  private func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field(
      "state", state.rawValue, .choice(["running", "paused", "idle"]),
      "`idle`: it fires now, or is over.")
    writer.time(
      left: remainingMS, until: deadlineUnixMS, now: nowUnixMS, "The time until it fires.",
      deadline: "When it fires; null while paused.")
  }

  /// - Parameter late: nil in events, which leave it out.
  private func writeSettings(
    _ late: PlainTimer.Late?, to writer: inout some FieldWriter & ~Copyable
  ) {
    writer.field("every_ms", everyMS, .duration().orNull, "The period; null without EVERY.")
    writer.choice("clock", clock, "CLOCK.")
    if let late { writer.choice("late", late, "LATE.") }
    writer.field("fired", fired, .count, "How often it has fired.")
    writer.field("missed", missed, .count, "The periods that were missed.")
    writer.owner(owner)
    writer.field("payload", bytes: payload, .bytes().orNull, "PAYLOAD; null without.")
  }
}

extension TimerKind {
  static let events: [EventDescription] = [
    .init(.set, "SET."), .init(.paused, "PAUSE."), .init(.resumed, "RESUME."),
    .init(.retimed, "RETIME."), .init(.fired, "It was due."),
    .init(.cancelled, "`reason` `cancelled`, `replaced` or `owner-gone`."),
  ]
}
