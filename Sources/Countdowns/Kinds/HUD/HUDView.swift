/// The view of one level of a screen.
package struct HUDView: EntityView, Equatable {
  package enum State: String, CaseIterable, Sendable {
    case waiting, appearing, visible, disappearing, hidden

    init(_ phase: Presentation.Phase) {
      self =
        switch phase {
        case .waiting: .waiting
        case .appearing: .appearing
        case .visible: .visible
        case .disappearing: .disappearing
        case .hidden: .hidden
        }
    }
  }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var level: Level
  package var content: Presentation.Kind
  package var status: [UInt8]?
  package var mask: Presentation.Mask
  package var fraction: Double?
  /// The holds, oldest first.
  package var holds: [Presentation.Show]
  package var isDismissing: Bool
  package var isPaused: Bool
  package var remainingMS: Int64?
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var end: Presentation.End?
  package var owner: Owner
  package var isDurable: Bool
  /// The generation that this one superseded, in events only.
  package var superseded: Generation?

  package var kind: EntityKind { .hud }
  package var leases: Int64 { Int64(holds.count) }

  init(
    _ screen: [UInt8], _ level: Level, _ machine: Presentation, superseding old: Generation? = nil,
    at now: Moment
  ) {
    key = screen
    self.level = level
    state = State(machine.phase)
    generation = machine.generation
    content = machine.shown.request.kind
    status = machine.shown.request.status
    mask = machine.mask
    fraction = machine.shown.fraction
    holds = machine.holds
    isDismissing = machine.isDismissing
    isPaused = machine.isPaused
    let left = machine.remainingTime(at: now.boot)
    remainingMS = left?.millisecondsRoundedUp
    deadlineUnixMS = isPaused ? nil : left.map { now.unixMilliseconds(of: now.boot + $0) }
    nowUnixMS = now.unixMilliseconds
    end = machine.end
    owner = machine.shown.owner
    isDurable = machine.isDurable
    superseded = old
  }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.field("key", bytes: key)
    writer.field("generation", generation.value)
    writeState(to: &writer)
  }

  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    writeState(to: &writer)
    if let superseded { writer.field("superseded_generation", superseded.value) }
  }

  private func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    writer.field("level", level.rawValue)
    writer.field("kind", content.rawValue)
    writer.field("status", bytes: status)
    writer.field("mask", mask.rawValue)
    writer.field("fraction", fraction)
    writer.field("leases", leases)
    writer.field("holds", records: holds)
    writer.field("dismissing", isDismissing)
    writer.field("paused", isPaused)
    writer.time(left: remainingMS, until: deadlineUnixMS, now: nowUnixMS)
    writer.field("end", end?.rawValue)
    writer.field("owner", owner)
    writer.field("durable", isDurable)
  }
}

/// A hold, as replies and events list it.
extension Presentation.Show: FieldRecord {
  package func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("generation", generation.value)
    writer.field("kind", request.kind.rawValue)
    writer.field("status", bytes: request.status)
    writer.field("mask", request.mask.rawValue)
    writer.field("fraction", fraction)
    writer.field("request", bytes: request.path)
    writer.field("grace_ms", request.grace.millisecondsRoundedUp)
    writer.field("max_ms", request.maximum?.millisecondsRoundedUp)
    writer.field("owner", owner)
    writer.field("durable", request.isDurable)
  }
}

extension HUDKind {
  static let fields: [Field] = [
    Field("key", .key, "The screen."), .generation,
    Field(
      "state", .choice(HUDView.State.self), "The state."),
    Field("level", .choice(Level.self), "LEVEL."),
    Field("kind", .choice(Presentation.Kind.self), "KIND."),
    Field("status", .text().orNull, "The text; null without one."),
    Field("mask", .choice(Presentation.Mask.self), "The strictest MASK of all holds."),
    Field("fraction", .fraction.orNull, "The progress; null before PROGRESS."),
    Field("leases", .count, "The hold count."),
    Field("holds", .list(.record("hold", holdFields)), "The holds, oldest first."),
    Field("dismissing", .boolean, "A dismissal is held until MIN, delayed, or in progress."),
    Field("paused", .boolean, "Time is paused."),
    Field(
      "remaining_ms", .duration().orNull,
      "The time until it begins to disappear, as far as known; else null."),
    .sameAsTime, .now,
    Field(
      "end", .choice(["dismissed", "timed-out", "owner-gone", "tapped", "never-shown"]).orNull,
      "How it ended; null before."),
    Field("owner", .owner, "The owner of the newest hold."),
    Field("durable", .boolean, "Whether any of it survives restarts."),
  ]

  private static let holdFields: [Field] = [
    .generation, Field("kind", .choice(Presentation.Kind.self), "KIND."),
    Field("status", .text().orNull, "Its text."),
    Field("mask", .choice(Presentation.Mask.self), "Its MASK."),
    Field("fraction", .fraction.orNull, "Its progress."),
    Field("request", .text().orNull, "The path of its REQUEST."),
    Field("grace_ms", .duration(), "GRACE."), Field("max_ms", .duration().orNull, "MAX."), .owner,
    Field("durable", .boolean, "DURABLE."),
  ]

  static let events: [EventDescription] = [
    .init(.willAppear, "It begins to appear."),
    .init(.didAppear, "It is fully visible; not if it was dismissed in the fade-in."),
    .init(
      .updated, "The text, progress, kind, mask or holds have changed.",
      [
        Field(
          "superseded_generation", .generation.orNull,
          "After a SHOW: the generation of the one before.")
      ]),
    .init(.paused, "PAUSE."), .init(.resumed, "RESUME."),
    .init(.touched, "TAP; not in the event log."),
    .init(.willDisappear, "`end` reports why."),
    .init(
      .didDisappear, "`end` reports why; `never-shown` comes without the events before."),
  ]

  /// The fields of WHY.
  static let explanation: [Field] = [
    Field("key", .key, "The screen."),
    Field(
      "state", .choice(HUDView.State.self), "The state."),
    Field("why", .text(), "One sentence: the state, and what it waits for."),
    Field("reasons", .list(.text()), "What it waits for, as words."),
    Field("holders", .list(.text()), "Who holds it."),
    Field("mask", .choice(Presentation.Mask.self).orNull, "The mask; null if hidden."),
    Field("blocked_by", .text().orNull, "The request that blocks the screen."),
    Field("level", .choice(Level.self).orNull, "The level; null if hidden."),
    Field("generation", .generation.orNull, "The fencing token; null if hidden."),
  ]

  /// The fields of MASK.
  static let verdict: [Field] = [
    Field("request", .text(), "The path of the request."),
    Field("mask", .choice(Presentation.Mask.self), "The mask that it gets."),
    Field("rule", .text().orNull, "The rule that blocks it; null if none does."),
  ]
}
