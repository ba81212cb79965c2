import TimerWheel

/// A machine that answers "now, later, or not?": a rate limit, idempotency key, gate or debouncer.
///
/// Each is its own kind, but the engine handles all of these machines in the same way.
package protocol Guard: Stored, Equatable, Sendable {
  associatedtype View: GuardView

  /// Its next deadline.
  var nextExpiry: Instant? { get }
  /// Until when it is remembered once it is over; nil if there is nothing to remember.
  var rememberedUntil: Instant? { get }
  /// The lowest version of records that has everything of this machine.
  var format: UInt8 { get }
  /// The connection that runs its action.
  var taker: UInt64? { get }
}

extension Guard {
  package var taker: UInt64? { nil }
  package var rememberedUntil: Instant? { nil }
  package var format: UInt8 { EntityRecord.plain }
}

package struct GuardEntity<Machine: Guard>: KeyedEntity {
  let key: [UInt8]
  package internal(set) var machine: Machine
  package var generation: Generation
  var owner: Owner
  var uid: UInt32
  /// Whether it has ended, and is only there for its tokens and what the machine remembers.
  var isOver = false
  var alarm: TimerWheel.Token?
  var tokens = Tokens()

  var nextExpiry: Instant? { isOver ? rememberedUntil : machine.nextExpiry }

  /// Until when it is there once it is over; nil if it is not.
  var rememberedUntil: Instant? {
    [tokens.until, machine.rememberedUntil].compactMap(\.self).max()
  }

  func forEachOwner(_ body: (Owner) -> Void) {
    body(owner)
    if let taker = machine.taker { body(.connection(taker)) }
  }
}

extension GuardEntity: EntityState {
  package static func blank(_ key: Span<UInt8>) -> GuardEntity {
    GuardEntity(
      key: Array(key), machine: .blank, generation: Generation(0), owner: .none, uid: 0)
  }

  package var format: UInt8 {
    guard tokens.format > machine.format else { return machine.format }
    return EntityRecord.isShared(machine.format)
      ? EntityRecord.completeShared : max(machine.format, EntityRecord.complete)
  }

  package mutating func state<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.generation(&generation)
    visitor.field("uid", &uid)
    visitor.owner(&owner)
    machine.fields(&visitor)
    visitor.field("over", &isOver)
    tokens.fields(&visitor)
    visitor.require(!isOver || rememberedUntil != nil)
  }
}

/// The view of a guard: key, generation and status, in replies and events alike.
package protocol GuardView: EntityView {
  var generation: Generation { get set }
  func writeState(to writer: inout some FieldWriter & ~Copyable)
}

extension GuardView {
  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    writeState(to: &writer)
  }
}

extension GuardKind {
  static var canBeDurable: Bool { true }
  static func stored(_ state: Entity) -> Entity? { state.owner == .none ? state : nil }
}
