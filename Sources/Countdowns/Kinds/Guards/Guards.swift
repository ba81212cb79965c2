import TimerWheel

/// A machine that answers "now, later, or not?": a rate limit, idempotency key, gate or debouncer.
///
/// Each is its own kind, but the engine handles all of these machines in the same way.
package protocol Guard: Equatable, Sendable {
  associatedtype View: EntityView

  /// Its next deadline.
  var nextExpiry: Instant? { get }
  static var kind: EntityKind { get }
  /// The state as it is stored.
  var columns: GuardColumns { get }
  /// Restores a machine; returns nil for invalid columns.
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

/// The view of a guard: key, generation and status, in replies and events alike.
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
