import Wire

/// A kind of entity: what the engine asks of it, whatever it is. Each kind answers for itself, in a
/// folder of its own; `EntityKind` lists them.
///
/// An entity's index is its own for as long as it lives.
package protocol Kind: SendableMetatype {
  associatedtype View: EntityView

  static var kind: EntityKind { get }
  /// Its namespace: what its channels begin with.
  static var name: StaticString { get }
  /// What the syntax lines of its commands call its keys.
  static var keyName: String { get }
  /// Whether anything of this kind goes with an owner.
  static var hasOwners: Bool { get }
  /// What a snapshot reports of a key that names nothing.
  static var stateOfNothing: StaticString { get }
  /// Whether any of them outlive the daemon.
  static var canBeDurable: Bool { get }

  // MARK: Looking

  static func count(in engine: Engine) -> Int
  /// One more than the highest index in use.
  static func indexEnd(in engine: Engine) -> Int
  /// O(1).
  static func find(_ key: Span<UInt8>, in engine: Engine) -> UInt32?
  /// Nil if there is nothing at that index.
  static func entry(
    at index: UInt32, in engine: Engine, now: Moment
  ) -> (owner: Owner, key: [UInt8])?
  static func view(_ index: UInt32, in engine: Engine, at now: Moment) -> View
  /// How many parts a view has that a client can make many: what a listing does is bounded by them.
  static func parts(of view: View) -> Int
  /// What a new subscriber receives; most kinds have one view.
  static func snapshot(_ index: UInt32, in engine: Engine, at now: Moment) -> [View]

  // MARK: Time and owners

  /// The entity's alarm has gone off.
  static func expire(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment)
  /// Runs what is due for an entity. Returns false if there is none afterwards.
  static func settle(_ index: UInt32, in engine: Engine, at now: Moment) -> Bool
  /// An owner has closed. The index may be another entity's by now.
  static func ownerGone(
    _ index: UInt32, _ owner: Owner, in engine: Engine, at now: Moment)

  // MARK: Durability

  /// Whether something of it is to be stored, as it is now.
  static func isDurable(_ index: UInt32, in engine: Engine) -> Bool
  /// Whether nothing is at that index.
  static func isFree(_ index: UInt32, in engine: Engine) -> Bool
  /// Appends the entities of this kind that have changed since the last call.
  static func takeChanges(of engine: Engine, into batch: ChangeWriter)
}

extension Kind {
  static var keyName: String { "key" }
  static var hasOwners: Bool { true }
  static var canBeDurable: Bool { false }

  static func snapshot(_ index: UInt32, in engine: Engine, at now: Moment) -> [View] {
    [view(index, in: engine, at: now)]
  }

  /// Whether a key and an index are nobody's yet.
  static func canRestore(_ key: [UInt8], at index: UInt32, in engine: Engine) -> Bool {
    isFree(index, in: engine) && find(key.span, in: engine) == nil
  }

  static func parts(of view: View) -> Int { 0 }
  static func isDurable(_ index: UInt32, in engine: Engine) -> Bool { false }
  static func takeChanges(of engine: Engine, into batch: ChangeWriter) {}
}

/// A kind of which something outlives the daemon.
protocol DurableKind: Kind {
  associatedtype Record: StoredRecord

  /// What is stored of an entity; nil if nothing is.
  static func record(_ index: UInt32, in engine: Engine) -> Record?
  /// Appends the bytes of its record where there is a shorter way to them; false if not.
  static func append(_ index: UInt32, of engine: Engine, to batch: ChangeWriter) -> Bool
}

extension DurableKind {
  static var canBeDurable: Bool { true }

  static func append(_ index: UInt32, of engine: Engine, to batch: ChangeWriter) -> Bool { false }

  static func takeChanges(of engine: Engine, into batch: ChangeWriter) {
    let changed = engine.changes.take(kind)
    guard !changed.isEmpty else { return }
    for index in changed {
      let entity = EntityRef(kind, index)
      if append(index, of: engine, to: batch) {
        engine.changes.setKept(entity, true)
      } else if var record = Self.record(index, in: engine) {
        engine.changes.setKept(entity, true)
        batch.append(&record, kind, at: index)
      } else if engine.changes.isKept(entity) {
        engine.changes.setKept(entity, false)
        batch.appendGone(kind, at: index)
      }
    }
  }
}

/// A kind whose entities are in a table of their own.
protocol TableKind: Kind {
  associatedtype Entity: KeyedEntity

  static func table(of engine: Engine) -> EntityTable<Entity>
}

extension TableKind {
  static func count(in engine: Engine) -> Int { table(of: engine).count }
  static func indexEnd(in engine: Engine) -> Int { table(of: engine).indexEnd }

  static func find(_ key: Span<UInt8>, in engine: Engine) -> UInt32? {
    table(of: engine).find(key)
  }

  static func entry(
    at index: UInt32, in engine: Engine, now: Moment
  ) -> (owner: Owner, key: [UInt8])? {
    table(of: engine).entity(at: index).map { ($0.owner, $0.key) }
  }

  static func isFree(_ index: UInt32, in engine: Engine) -> Bool {
    !table(of: engine).contains(index)
  }
}

/// What kinds of entity there are. Each has a namespace of keys and of channels of its own.
///
/// The numbers are stored, so they never change; new kinds come at the end.
package enum EntityKind: UInt8, CaseIterable, Sendable {
  case countdown, hud, timer, scope
  case throttle, once, gate, debounce
  case nav, page

  private static let kinds: [any Kind.Type] = [
    CountdownKind.self, HUDKind.self, TimerKind.self, ScopeKind.self,
    ThrottleKind.self, OnceKind.self, GateKind.self, DebounceKind.self,
    NavigationKind.self, PageKind.self,
  ]

  /// Nil: daemons cannot share it.
  var shared: (any SharedKind.Type)? { behavior as? any SharedKind.Type }

  package var behavior: any Kind.Type { Self.kinds[Int(rawValue)] }

  package var name: StaticString { behavior.name }

  /// What channels of this kind begin with.
  package var channelPrefix: [UInt8] { Self.channelPrefixes[Int(rawValue)] }

  private static let channelPrefixes = allCases.map { kind in
    Array(kind.name.bytes) + [UInt8(ascii: ":")]
  }

  /// Lends the name of an entity's channel.
  func withChannel<R>(_ key: Span<UInt8>, _ body: (Span<UInt8>) -> R) -> R {
    let prefix = channelPrefix
    return ShortText.withTemporary(atMost: prefix.count + key.count) { channel in
      channel.raw(prefix.span)
      channel.raw(key)
      return body(channel.bytes)
    }
  }

  /// Whether any of them outlive the daemon.
  package var canBeDurable: Bool { behavior.canBeDurable }
}
