import TimerWheel

/// A countdown as it is taken out of its table; its key stays there.
struct CountdownEntity {
  var machine: Countdown
  var generation: Generation
  let uid: UInt32
  var titles: Titles?
  var alarm: TimerWheel.Token?
  /// Beside it, and the same as long as it lives.
  fileprivate(set) var extras: CountdownExtras?

  init(
    machine: Countdown, generation: Generation, uid: UInt32, titles: Titles?,
    alarm: TimerWheel.Token? = nil, extras: CountdownExtras? = nil
  ) {
    self.machine = machine
    self.generation = generation
    self.uid = uid
    self.titles = titles
    self.alarm = alarm
    self.extras = extras
  }

  var terms: Terms { Terms(plan: machine.plan, uid: uid, titles: titles) }

  var owner: Owner {
    get { extras?.owner ?? .none }
    set { if extras != nil || newValue != .none { makeExtras().owner = newValue } }
  }
  /// What was sent under a policy; nil if it never had one.
  var sending: Sending? {
    get { extras?.sending }
    set { if extras != nil || newValue != nil { makeExtras().sending = newValue } }
  }
  var meta: [UInt8]? {
    get { extras?.meta }
    set { if extras != nil || newValue != nil { makeExtras().meta = newValue } }
  }
  /// The newest tokens of accepted starts; see `SentToken.most`.
  var tokens: [SentToken] {
    get { extras?.tokens ?? [] }
    set { if extras != nil || !newValue.isEmpty { makeExtras().tokens = newValue } }
  }

  private mutating func makeExtras() -> CountdownExtras {
    if extras == nil { extras = CountdownExtras() }
    return extras!
  }
}

/// What only some countdowns have. Beside them, so that the others do not grow by it; each belongs to
/// one countdown.
final class CountdownExtras {
  var owner = Owner.none
  var sending: Sending?
  var meta: [UInt8]?
  var tokens: [SentToken] = []
}

/// The token of a start that was accepted.
package struct SentToken: Equatable, Sendable {
  /// How many a key remembers; the oldest makes room.
  package static let most = 16

  package var token: [UInt8]
  package var generation: Generation

  package init(_ token: [UInt8], _ generation: Generation) {
    self.token = token
    self.generation = generation
  }
}

/// A policy, and what was sent under it; each belongs to one countdown.
final class Sending {
  var policy: SendPolicy
  var record: SendRecord
  /// Whether the last start named it. If not, it is remembered for the next one that does.
  var isInForce = true

  init(_ policy: SendPolicy, _ record: SendRecord = SendRecord()) {
    self.policy = policy
    self.record = record
  }

  /// What was sent, as far as it matters to a policy that may follow this one.
  func record(for policy: SendPolicy, at now: Instant) -> SendRecord {
    policy == self.policy ? record : record.handedOver(from: self.policy, at: now)
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

  func isDurable(on level: Level) -> Bool {
    index(of: level).map { presentations[$0].machine.request.isDurable } == true
  }

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
