/// The view of one level of a screen.
package struct HUDView: EntityView, Equatable {
  package enum State: String, Sendable {
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
