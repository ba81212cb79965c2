/// What is reported of an idempotency guard.
package struct OnceView: GuardView, Equatable {
  package enum State: String, CaseIterable, Sendable { case idle, running, done }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var remainingMS: Int64
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var owner: Owner
  package var result: [UInt8]?

  /// Of what is over.
  init(idle key: [UInt8], _ generation: Generation, nowUnixMS: Int64) {
    self.key = key
    self.generation = generation
    self.nowUnixMS = nowUnixMS
    state = .idle
    remainingMS = 0
    owner = .none
  }

  init(_ entity: GuardEntity<Once>, at now: Moment) {
    self.init(
      idle: entity.key, entity.generation, nowUnixMS: now.wall.microseconds / 1_000)
    let machine = entity.machine
    switch machine.phase {
    case .running: state = .running
    case .done(let result):
      state = .done
      self.result = result
    }
    remainingMS = machine.remainingTime(at: now.boot).millisecondsRoundedUp
    deadlineUnixMS = now.unixMilliseconds(of: machine.deadline)
    owner = entity.owner
  }

  package var kind: EntityKind { .once }
  package var isDurable: Bool { owner == .none }

  package func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    writer.field("result", bytes: result)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("owner", owner)
  }
}
