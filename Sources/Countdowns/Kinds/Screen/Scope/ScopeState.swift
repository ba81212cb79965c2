/// The state of a scope: the entity, and its place in the tree.
///
/// A scope is restored after its parent, and after its older siblings: in the order of generations.
package struct ScopeState: EntityState {
  var entity: ScopeEntity
  /// The scope above; nil without one.
  var parent: UInt32?
  /// Whether the scope above is the parent of events, or only the owner.
  var isRouted: Bool
  var leaseEnd: Instant?
  /// Whether the scope has a name as an owner.
  var isNamed: Bool

  package var generation: Generation { entity.generation }

  package static func blank(_ key: Span<UInt8>) -> ScopeState {
    ScopeState(
      entity: ScopeEntity(key: Array(key), generation: Generation(0), owner: .none, uid: 0),
      parent: nil, isRouted: false, leaseEnd: nil, isNamed: false)
  }

  package mutating func state<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.generation(&entity.generation)
    visitor.field("uid", &entity.uid)
    visitor.owner(&entity.owner)
    visitor.interval("ttl", &entity.ttl)
    visitor.optional("parent", &parent, blank: 0) { $0.field("parent", &$1) }
    visitor.field("routed", &isRouted)
    visitor.instant("lease_end", &leaseEnd)
    entity.handlers.fields(&visitor)
    visitor.optional("stack", &entity.stack, blank: 0) { $0.field("stack", &$1) }
    visitor.field("closing", &entity.isClosing)
    visitor.field("named", &isNamed)
    visitor.require(parent != nil || !isRouted)
  }
}

extension Handlers: Stored {
  package static var blank: Handlers { Handlers() }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.list("handlers", &all, blank: Handler(connection: 0, event: [], captures: false)) {
      $0.number("connection", &$1.connection)
      $0.field("event", &$1.event)
      $0.field("captures", &$1.captures)
    }
  }
}

extension ScopeStore {
  func state(_ index: UInt32) -> ScopeState? {
    guard let entity = table.entity(at: index) else { return nil }
    return ScopeState(
      entity: entity, parent: tree.parent(of: index), isRouted: tree.isRouted(index),
      leaseEnd: tree.leaseEnd(of: index), isNamed: entity.name != nil)
  }

  var closingsLeft: [WholeState.Closing] {
    closings.list.filter { table.entity(at: $0.root)?.generation == $0.generation }.map {
      WholeState.Closing(root: $0.root, generation: $0.generation, reason: $0.reason)
    }
  }

  func resume(_ closing: WholeState.Closing) {
    guard table.contains(closing.root) else { return }
    closings.begin(
      Closing(
        root: closing.root, generation: closing.generation, reason: closing.reason,
        cursor: closing.root))
  }
}

extension ScopeKind {
  /// Writes parents before their children, and children by age.
  static func writeAll(of engine: Engine, to batch: ChangeWriter) {
    let scopes = engine.scopes
    let places = (0..<UInt32(scopes.indexEnd)).filter { scopes.contains($0) }
    for index in places.sorted(by: { scopes.table[$0].generation < scopes.table[$1].generation }) {
      guard var state = scopes.state(index) else { continue }
      batch.append(Self.self, scopes.key(index).span, &state, at: index)
    }
  }

  static func restore(
    _ key: Span<UInt8>, _ state: ScopeState, at index: UInt32, in engine: Engine, at now: Moment
  ) -> Bool {
    if let parent = state.parent, !engine.scopes.tree.contains(parent) { return false }
    var entity = state.entity
    var connection: UInt64?
    if case .connection(let id) = entity.owner { connection = id }
    if state.isNamed {
      entity.name = OwnerName(key: entity.key, index: index, generation: entity.generation)
    }
    engine.restore(Self.self, entity, at: index)
    engine.scopes.tree.insert(
      index, under: state.parent, isRouted: state.isRouted, connection: connection,
      leaseEnd: state.leaseEnd, ttl: state.entity.ttl)
    if entity.isClosing {
      engine.scopes.tree.beginClosing(index)
    } else if entity.ttl != nil {
      engine.armLease(of: index)
    }
    return true
  }
}
