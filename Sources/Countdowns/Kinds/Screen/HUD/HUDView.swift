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

  package static var blank: HUDView { HUDView([], .normal, .blank, at: .zero) }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.key(key, "The screen.")
    writer.generation(generation)
    writeState(to: &writer)
  }

  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    writeState(to: &writer)
    if let superseded { writer.field("superseded_generation", superseded.value) }
  }

  private func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.choice("state", state, "The state.")
    writer.choice("level", level, "LEVEL.")
    writer.choice("kind", content, "KIND.")
    writer.field("status", bytes: status, .text().orNull, "The text; null without one.")
    writer.choice("mask", mask, "The strictest MASK of all holds.")
    writer.fraction(fraction, "The progress; null before PROGRESS.")
    writer.field("leases", leases, .count, "The hold count.")
    writer.field(
      "holds", records: holds, .record("hold", Presentation.Show.fields),
      "The holds, oldest first.")
    writer.field(
      "dismissing", isDismissing, "A dismissal is held until MIN, delayed, or in progress.")
    writer.field("paused", isPaused, "Time is paused.")
    writer.time(
      left: remainingMS, until: deadlineUnixMS, now: nowUnixMS, as: .duration().orNull,
      "The time until it begins to disappear, as far as known; else null.")
    writer.field(
      "end", end?.rawValue,
      .choice(["dismissed", "timed-out", "owner-gone", "tapped", "never-shown"]).orNull,
      "How it ended; null before.")
    writer.owner(owner, "The owner of the newest hold.")
    writer.field("durable", isDurable, "Whether any of it survives restarts.")
  }
}

/// A hold, as replies and events list it.
extension Presentation.Show: FieldRecord {
  package func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.generation(generation)
    writer.choice("kind", request.kind, "KIND.")
    writer.field("status", bytes: request.status, .text().orNull, "Its text.")
    writer.choice("mask", request.mask, "Its MASK.")
    writer.fraction(fraction, "Its progress.")
    writer.field("request", bytes: request.path, .text().orNull, "The path of its REQUEST.")
    writer.field("grace_ms", request.grace.millisecondsRoundedUp, .duration(), "GRACE.")
    writer.field(
      "max_ms", request.maximum?.millisecondsRoundedUp, .duration().orNull, "MAX.")
    writer.owner(owner)
    writer.field("durable", request.isDurable, "DURABLE.")
  }
}

extension HUDKind {
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
}
