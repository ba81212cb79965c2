import TimerWheel

/// What answers "now, later, or not?": rate limits, idempotency keys, gates and debouncers.
///
/// Each is a kind of its own; what the engine does around their machines is the same.
package protocol Guard: Equatable, Sendable {
  associatedtype View: EntityView

  /// When time next means something to it.
  var nextExpiry: Instant? { get }
  /// As a store keeps it.
  var stored: GuardMachine { get }
}

struct GuardEntity<Machine: Guard>: KeyedEntity {
  let key: [UInt8]
  var machine: Machine
  var generation: Generation
  var owner: Owner
  let uid: UInt32
  var alarm: TimerWheel.Token?
}

/// The machine of any of them, as a store keeps it.
package enum GuardMachine: Equatable, Sendable {
  case throttle(Throttle)
  case once(Once)
  case gate(Gate)
  case debounce(Debounce)

  package var kind: EntityKind {
    switch self {
    case .throttle: .throttle
    case .once: .once
    case .gate: .gate
    case .debounce: .debounce
    }
  }
}

/// What is reported of them: their key, their generation, and how they are, in replies and events alike.
package protocol GuardView: EntityView {
  func writeState(to writer: inout some FieldWriter & ~Copyable)
}

extension GuardView {
  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.field("key", bytes: key)
    writer.field("generation", generation.value)
    answer?.write(to: &writer)
    writeState(to: &writer)
  }

  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    writeState(to: &writer)
  }
}
