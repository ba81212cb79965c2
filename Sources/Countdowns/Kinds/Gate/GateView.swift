/// The view of a session's gate.
package struct GateView: GuardView, ViewOfEntity, Equatable {
  package enum State: String, CaseIterable, Sendable { case closed, pending, open }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  /// The pending action, or the one to run.
  package var action: [UInt8]?
  package var payload: [UInt8]?
  /// Whether a connection runs the action.
  package var isTaken = false
  /// Milliseconds until the session closes or the pending action is dropped; nil until CLOSE.
  package var remainingMS: Int64?
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var owner: Owner

  /// Creates the view of a closed session without a pending action.
  init(closed key: [UInt8], _ generation: Generation = Generation(0), at now: Moment) {
    self.key = key
    self.generation = generation
    state = .closed
    nowUnixMS = now.unixMilliseconds
    owner = .none
  }

  init(_ entity: GuardEntity<Gate>, at now: Moment) {
    let machine = entity.machine
    self.init(closed: entity.key, entity.generation, at: now)
    state = machine.isOpen ? .open : .pending
    let waiting = machine.pending ?? machine.run?.action
    action = waiting?.name
    payload = waiting?.payload
    isTaken = machine.run?.taker != nil
    owner = entity.owner
    guard let deadline = machine.end else { return }
    remainingMS = now.milliseconds(until: deadline)
    deadlineUnixMS = now.unixMilliseconds(of: deadline)
  }

  package var kind: EntityKind { .gate }
  package var isDurable: Bool { owner == .none }

  package static var blank: GateView { GateView(closed: [], at: .zero) }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.key(key, "The session.")
    writer.generation(
      generation, "New with each pending CHECK and each OPEN; OPEN keeps that of an action.")
    writer.answer(answer, [.login, .taken, .noAction, .degraded])
    writeState(to: &writer)
  }

  package func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.choice("state", state, "The state.")
    writer.field(
      "action", bytes: action, .text().orNull,
      "The pending action, or the one to run; null if none.")
    writer.field("payload", bytes: payload, .bytes().orNull, "PAYLOAD; null without.")
    writer.field("taken", isTaken, "Whether a connection runs the action.")
    writer.time(
      left: remainingMS, until: deadlineUnixMS, now: nowUnixMS, as: .duration().orNull,
      "The time until the action is dropped or the session closes; null if open until CLOSE.")
    writer.owner(owner)
  }
}

extension GateKind {
  static let events: [EventDescription] = [
    .init(.pending, "An action waits for the session to open."),
    .init(
      .dismissed,
      "An action will not run; `reason` `replaced`, `cancelled`, `expired`, `closed` or "
        + "`owner-gone`."
    ),
    .init(.opened, "OPEN."), .init(.run, "TAKE `action` and run it with `payload`."),
    .init(.taken, "A connection runs the action."), .init(.done, "DONE."),
    .init(.closed, "`reason` `expired`, or null after CLOSE."),
  ]
}
