import TimerWheel

/// What answers "now, later, or not?": rate limits, idempotency guards, gates and debounced calls.
/// Each kind has keys and channels of its own; what the engine does around them is the same.
package enum GuardMachine: Equatable, Sendable {
  case throttle(Throttle)
  case once(Once)
  // Elsewhere in memory: they are large and few, and rate limits small and many.
  indirect case gate(Gate)
  indirect case debounce(Debounce)

  package var kind: EntityKind {
    switch self {
    case .throttle: .throttle
    case .once: .once
    case .gate: .gate
    case .debounce: .debounce
    }
  }

  var nextExpiry: Instant? {
    switch self {
    case .throttle(let throttle): throttle.nextExpiry
    case .once(let once): once.deadline
    case .gate(let gate): gate.nextExpiry
    case .debounce(let debounce): debounce.nextExpiry
    }
  }
}

struct GuardEntity: KeyedEntity {
  let key: [UInt8]
  var machine: GuardMachine
  var generation: Generation
  var owner: Owner
  let uid: UInt32
  var alarm: TimerWheel.Token?

  // The machine of an entity whose table says what it is.

  var throttle: Throttle {
    get {
      guard case .throttle(let throttle) = machine else { preconditionFailure("no throttle") }
      return throttle
    }
    set { machine = .throttle(newValue) }
  }

  var once: Once {
    get {
      guard case .once(let once) = machine else { preconditionFailure("no once") }
      return once
    }
    set { machine = .once(newValue) }
  }

  var gate: Gate {
    get {
      guard case .gate(let gate) = machine else { preconditionFailure("no gate") }
      return gate
    }
    set { machine = .gate(newValue) }
  }

  var debounce: Debounce {
    get {
      guard case .debounce(let debounce) = machine else { preconditionFailure("no debounce") }
      return debounce
    }
    set { machine = .debounce(newValue) }
  }
}

/// A table for each kind of guard.
struct GuardTables: ~Copyable {
  private var throttles = EntityTable<GuardEntity>()
  private var onces = EntityTable<GuardEntity>()
  private var gates = EntityTable<GuardEntity>()
  private var debounces = EntityTable<GuardEntity>()

  static let kinds: [EntityKind] = [.throttle, .once, .gate, .debounce]

  var count: Int { throttles.count + onces.count + gates.count + debounces.count }

  subscript(kind: EntityKind) -> EntityTable<GuardEntity> {
    _read {
      switch kind {
      case .throttle: yield throttles
      case .once: yield onces
      case .gate: yield gates
      case .debounce: yield debounces
      case .countdown, .hud, .timer, .scope, .nav, .page: preconditionFailure("no guard")
      }
    }
    _modify {
      switch kind {
      case .throttle: yield &throttles
      case .once: yield &onces
      case .gate: yield &gates
      case .debounce: yield &debounces
      case .countdown, .hud, .timer, .scope, .nav, .page: preconditionFailure("no guard")
      }
    }
  }

  subscript(entity: EntityRef) -> GuardEntity {
    _read { yield self[entity.kind][entity.index] }
    _modify { yield &self[entity.kind][entity.index] }
  }

  func find(_ kind: EntityKind, _ key: UnsafeRawBufferPointer) -> EntityRef? {
    self[kind].find(key).map { EntityRef(kind, $0) }
  }

  /// Nil if there is none, or not any more.
  func entity(_ entity: EntityRef) -> GuardEntity? {
    self[entity.kind].entity(at: Int(entity.index))
  }
}
