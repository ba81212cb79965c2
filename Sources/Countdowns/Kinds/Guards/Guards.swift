import TimerWheel

/// What answers "now, later, or not?": rate limits, idempotency keys, gates and debouncers.
///
/// Each is a kind of its own; what the engine does around their machines is the same.
package protocol Guard: Equatable, Sendable {
  associatedtype View: EntityView

  /// When time next means something to it.
  var nextExpiry: Instant? { get }
  static var kind: EntityKind { get }
  /// As a store keeps it.
  var columns: GuardColumns { get }
  /// Nil if none is like this.
  init?(_ columns: GuardColumns)
}

struct GuardEntity<Machine: Guard>: KeyedEntity {
  let key: [UInt8]
  var machine: Machine
  var generation: Generation
  var owner: Owner
  let uid: UInt32
  var alarm: TimerWheel.Token?
}

/// What is reported of them: their key, their generation, and how they are, in replies and events
/// alike.
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
