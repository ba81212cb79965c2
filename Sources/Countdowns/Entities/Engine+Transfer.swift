/// The whole state of an engine, for another engine that continues with the same connections. What
/// clients have asked for at a connection, such as subscriptions, is not part of it.
extension Engine {
  /// Returns the records of all entities, owned ones included, and what goes with them.
  package func wholeState() -> WholeState {
    var budget = Int.max
    adoptRules(budget: &budget)
    let batch = ChangeWriter(offset: 0)
    for kind in EntityKind.allCases where !context.copiedKinds.contains(kind) {
      kind.behavior.writeAll(of: self, to: batch)
    }
    var state = WholeState(lastGeneration: lastGeneration, lastSequence: lastSequence)
    state.records = batch.bytes
    state.closings = scopes.closingsLeft
    return state
  }

  /// Returns the state that outlives the daemon. This engine does nothing more.
  package func durableState() -> WholeState {
    let batch = ChangeWriter(offset: 0)
    noteChanges()
    noteEverything()
    takeChanges(into: batch)
    var state = WholeState(lastGeneration: lastGeneration, lastSequence: lastSequence)
    state.records = batch.bytes
    return state
  }

  /// Continues with the state of another engine. This one must be new, and know the connections.
  ///
  /// - Returns: the entities that cannot be restored; nil if the bytes are no state.
  package func restore(_ state: WholeState, at now: Moment) -> [StoredEntities.Entry]? {
    raiseNumbers(to: state.lastGeneration)
    lastSequence = state.lastSequence
    var entities = StoredEntities()
    let isWhole = ChangeEntry.forEach(of: state.records[...], ofAllKinds: true) { entry in
      if case .current(let kind, let slot, let record) = entry {
        entities.append(kind, slot, record.span)
      }
    }
    guard isWhole else { return nil }
    let refused = restore(entities, offset: 0, at: now)
    state.closings.forEach(scopes.resume)
    return refused
  }
}

package struct WholeState: Stored {
  /// The closing of a scope in progress. What it has done so far shows in the entities that are
  /// left, so it can begin again.
  struct Closing {
    var root: UInt32
    var generation: Generation
    var reason: Reason
  }

  var lastGeneration: Int64
  var lastSequence: Int64
  /// In the order in which they began.
  var closings: [Closing] = []
  /// A batch with the record of each entity.
  var records: [UInt8] = []

  package static var blank: WholeState { WholeState(lastGeneration: 0, lastSequence: 0) }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.version(EntityRecord.version)
    visitor.field("last_generation", &lastGeneration)
    visitor.field("last_seq", &lastSequence)
    visitor.list(
      "closings", &closings, blank: Closing(root: 0, generation: Generation(0), reason: .closed)
    ) {
      $0.field("root", &$1.root)
      $0.generation(&$1.generation)
      $0.code("reason", &$1.reason, of: [.closed, .expired, .ownerGone])
    }
    visitor.field("records", &records)
  }
}

extension Kind {
  static func writeAll(of engine: Engine, to batch: ChangeWriter) {
    let store = store(of: engine)
    for index in 0..<UInt32(store.indexEnd) {
      guard var state = store.state(index) else { continue }
      batch.append(Self.self, store.key(index).span, &state, at: index)
    }
  }
}
