import CountdownCore
import TimerWheel

struct CountdownEntity: KeyedEntity {
  let key: [UInt8]
  var machine: Countdown
  var generation: Generation
  var owner: Owner
  let uid: UInt32
  var titles: Titles?
  /// What was sent under a policy; nil if it never had one.
  var sending: Sending?
  var meta: [UInt8]?
  /// The token of the start that was accepted last.
  var token: [UInt8]?
  var alarm: TimerWheel.Token?
}

/// A policy, and what was sent under it. Beside the entity, so that countdowns without a policy do
/// not grow by it; each belongs to one entity.
final class Sending {
  var policy: SendPolicy
  var record: SendRecord
  /// Whether the last start named it. If not, it is remembered for the next one that does.
  var isInForce = true

  init(_ policy: SendPolicy, _ record: SendRecord = SendRecord()) {
    self.policy = policy
    self.record = record
  }
}

struct HUDEntity: KeyedEntity {
  let key: [UInt8]
  /// What is shown on each level, by rising level; never empty.
  var presentations: [(level: Level, machine: Presentation)]
  /// Connections that hold or held a lease of it, or show what is shown.
  var owners: Set<Owner>
  let uid: UInt32
  var alarm: TimerWheel.Token?

  var nextExpiry: Instant? { presentations.compactMap(\.machine.nextExpiry).min() }

  /// Whether anything of it outlives the daemon.
  var isDurable: Bool { presentations.contains { $0.machine.request.isDurable } }

  func index(of level: Level?) -> Int? {
    guard let level else { return presentations.indices.last }
    return presentations.firstIndex { $0.level == level }
  }

  /// The level of a generation: what is in front of it does not hide it from who shows it.
  func level(of generation: Generation) -> Level? {
    presentations.first { $0.machine.generation == generation }?.level
  }

  /// The front level with a lease that `owner` may give back: its own, else nobody's, else any.
  func level(leasedBy owner: Owner) -> Level? {
    func front(where holds: (Leases) -> Bool) -> Level? {
      presentations.last { holds($0.machine.leases) }?.level
    }
    return front { $0.owners.contains(owner) } ?? front { $0.owners.contains(.none) }
      ?? front { !$0.isEmpty }
  }
}

struct TimerEntity: KeyedEntity {
  let key: [UInt8]
  var machine: PlainTimer
  var generation: Generation
  var owner: Owner
  let uid: UInt32
  var clock: TimerClock
  var payload: [UInt8]?
  var alarm: TimerWheel.Token?
}

/// Names an entity for as long as it lives, in 64 bits: what timers carry.
struct EntityRef: Hashable {
  var kind: EntityKind
  var index: UInt32

  init(_ kind: EntityKind, _ index: UInt32) {
    self.kind = kind
    self.index = index
  }

  init(payload: UInt64) {
    kind = EntityKind(rawValue: UInt8(truncatingIfNeeded: payload >> 32))!
    index = UInt32(truncatingIfNeeded: payload)
  }

  var payload: UInt64 { UInt64(kind.rawValue) << 32 | UInt64(index) }
}
