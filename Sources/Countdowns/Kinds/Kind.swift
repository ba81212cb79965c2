import Wire

/// A kind of entity, as the engine uses it. Each kind implements this in its own folder;
/// `EntityKind` lists all kinds.
///
/// An entity keeps its index for as long as it lives.
package protocol Kind: SendableMetatype {
  associatedtype View: EntityView
  associatedtype Store: EntityStore
  typealias State = Store.State

  static var kind: EntityKind { get }
  /// The namespace of its keys, and the first part of its channels.
  static var name: StaticString { get }
  /// The name of the key parameter in the syntax of its commands.
  static var keyName: String { get }
  /// What messages call an entity.
  static var noun: String { get }
  /// Whether entities of this kind can have an owner.
  static var hasOwners: Bool { get }
  /// The state that a snapshot reports for a key without an entity.
  static var stateOfNothing: StaticString { get }
  /// Whether entities of this kind can survive a restart of the daemon.
  static var canBeDurable: Bool { get }
  static var events: [EventDescription] { get }

  // MARK: Looking

  static func store(of engine: Engine) -> Store
  /// Returns nil if there is no entity at that index that clients see.
  static func entry(
    at index: UInt32, in engine: Engine, now: Moment
  ) -> (owner: Owner, key: [UInt8])?
  static func view(_ index: UInt32, in engine: Engine, at now: Moment) -> View
  /// The bytes, as `FieldSize` counts, that one command may add to a list in a view, besides those
  /// of its arguments; 0 if views have no lists.
  static var partBytes: Int { get }
  /// Returns the views that a new subscriber receives; one for most kinds.
  static func snapshot(_ index: UInt32, in engine: Engine, at now: Moment) -> [View]

  // MARK: Time and owners

  /// Handles the alarm of an entity.
  static func alarmFired(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment)
  /// Runs what is due for an entity. Returns false if the entity does not exist afterwards.
  ///
  /// Whatever looks at an entity calls this first, so a deadline that has passed unnoticed never
  /// shows. What an entity depends on comes before it, always in this order: the scopes that own
  /// it, the stack of a page, the pages that hold a HUD, the HUD.
  static func runDue(_ index: UInt32, in engine: Engine, at now: Moment) -> Bool
  /// Runs what is due for the entities of a page of a listing.
  static func runDue(_ range: Range<UInt32>, in engine: Engine, at now: Moment)
  /// Handles the end of an owner. The index may belong to another entity by now.
  static func ownerGone(
    _ index: UInt32, _ owner: Owner, in engine: Engine, at now: Moment)

  // MARK: State

  /// Adds an entity with this state. Its key and index must be free. What is due happens later.
  /// Returns false if there is no room, or the state contradicts what is there.
  static func restore(
    _ key: Span<UInt8>, _ state: State, at index: UInt32, in engine: Engine, at now: Moment
  ) -> Bool
  static func restore(
    _ record: ArraySlice<UInt8>, at index: UInt32, offset: Int64, in engine: Engine, at now: Moment
  ) throws(EntityRecord.Problem)

  /// Returns whether a stored record is dropped, and notes that it is to be removed.
  static func isDropped(
    _ record: ArraySlice<UInt8>, at index: UInt32, in engine: Engine
  ) -> Bool

  /// Restores the records of a range, which are all of this kind, and appends the refused ones. A
  /// requirement, like `takeChanges`, so that each kind has its own specialized code.
  static func restore(
    _ entities: StoredEntities, _ range: Range<Int>, offset: Int64, in engine: Engine,
    at now: Moment, _ refused: inout [StoredEntities.Entry])

  /// Appends the whole state of all entities of this kind, in the order in which they are restored.
  static func writeAll(of engine: Engine, to batch: ChangeWriter)

  // MARK: Durability

  /// Returns the part of a state that outlives the daemon; nil if nothing does.
  static func stored(_ state: State) -> State?
  /// Returns whether any part of an entity is to be stored, in its current state.
  static func isDurable(_ index: UInt32, in engine: Engine) -> Bool
  /// Appends the entities of this kind that have changed since the last call.
  static func takeChanges(of engine: Engine, into batch: ChangeWriter)
  /// Appends the stored state of an entity by a faster way. Returns false if there is none.
  static func append(_ index: UInt32, of engine: Engine, to batch: ChangeWriter) -> Bool
}

extension Kind {
  /// The fields of its views, in replies and events.
  static var fields: [Field] { View.fields }
  static var keyName: String { "key" }
  static var noun: String { name.description }
  static var hasOwners: Bool { true }
  static func snapshot(_ index: UInt32, in engine: Engine, at now: Moment) -> [View] {
    [view(index, in: engine, at: now)]
  }

  static func runDue(_ range: Range<UInt32>, in engine: Engine, at now: Moment) {
    for index in range { _ = runDue(index, in: engine, at: now) }
  }

  static func entry(
    at index: UInt32, in engine: Engine, now: Moment
  ) -> (owner: Owner, key: [UInt8])? {
    store(of: engine).entry(index)
  }

  static var partBytes: Int { 0 }
  static func isDropped(
    _ record: ArraySlice<UInt8>, at index: UInt32, in engine: Engine
  ) -> Bool { false }
  static func append(_ index: UInt32, of engine: Engine, to batch: ChangeWriter) -> Bool { false }
}

/// A kind whose entities are in an `EntityTable`.
protocol TableKind: Kind where Store: TableStore {
  typealias Entity = Store.Entity

  /// Ends what an entity has besides, before it is removed.
  static func release(_ index: UInt32, in engine: Engine)
}

extension TableKind {
  static func table(of engine: Engine) -> EntityTable<Entity> { store(of: engine).table }
  static func release(_ index: UInt32, in engine: Engine) {}
}

/// The kinds of entity, each with its own namespace of keys and channels. Together with what other
/// files ask about them, this is the registry of kinds: `make lint` finds files that name a kind
/// outside its folder.
///
/// The raw values are stored, so they never change; new kinds are added at the end.
package enum EntityKind: UInt8, CaseIterable, Sendable {
  case countdown, hud, timer, scope
  case throttle, once, gate, debounce
  case nav, page

  private static let kinds: [any Kind.Type] = [
    CountdownKind.self, HUDKind.self, TimerKind.self, ScopeKind.self,
    ThrottleKind.self, OnceKind.self, GateKind.self, DebounceKind.self,
    NavigationKind.self, PageKind.self,
  ]

  /// The kinds as INFO lists them, which is also the order of their commands.
  static let listed: [EntityKind] = [
    .countdown, .hud, .timer, .throttle, .once, .gate, .debounce, .scope, .nav, .page,
  ]
  static let commands =
    countdownCommands + hudCommands + timerCommands + throttleCommands + onceCommands
    + gateCommands + debounceCommands + scopeCommands + navigationCommands + pageCommands

  /// The kinds whose entities outlive connections and interfaces: CLEAR ends them, and a fleet can
  /// share them.
  package static let independent = allCases.filter { $0.shared != nil }
  /// The kinds whose entities can own others.
  static let owners: [EntityKind] = [.scope, .page]
  /// The kind whose entities are fetched into the cache before their commands.
  static let prefetched = EntityKind.countdown

  /// The behavior of a kind that a fleet can share; nil for others.
  var shared: (any SharedKind.Type)? { behavior as? any SharedKind.Type }

  package var behavior: any Kind.Type { Self.kinds[Int(rawValue)] }

  package var name: StaticString { behavior.name }

  /// The prefix of this kind's channels, such as `countdown:`.
  package var channelPrefix: [UInt8] { Self.channelPrefixes[Int(rawValue)] }

  private static let channelPrefixes = allCases.map { kind in
    Array(kind.name.bytes) + [UInt8(ascii: ":")]
  }

  /// Returns 64 bits that stand for an entity, in this run of the program.
  func hash(of key: Span<UInt8>) -> UInt64 { SipHash.ofProcess(key) &+ UInt64(rawValue) }

  /// Calls `body` with the name of an entity's channel.
  func withChannel<R>(_ key: Span<UInt8>, _ body: (Span<UInt8>) -> R) -> R {
    let prefix = channelPrefix
    return ShortText.withTemporary(atMost: prefix.count + key.count) { channel in
      channel.raw(prefix.span)
      channel.raw(key)
      return body(channel.bytes)
    }
  }

  /// Whether entities of this kind can survive a restart of the daemon.
  package var canBeDurable: Bool { behavior.canBeDurable }
  /// The kinds whose entities can.
  package static let durable = allCases.filter(\.canBeDurable)
}
