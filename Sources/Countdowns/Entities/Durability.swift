/// What outlives the daemon. This is the whole rule:
///
/// - Rate limits, idempotency keys, gates, debouncers and timers without an owner. No connection
///   runs a gate's action any more.
/// - Countdowns without an owner. Of one with an owner its sends under a policy, as if it had been
///   cancelled: an owner that comes and goes is no way around a quota.
/// - Of a HUD the holds and messages with DURABLE.
///
/// Scopes, navigation stacks and pages belong to a running app, and end with the daemon.
extension Kind {
  static var canBeDurable: Bool { false }
  static func stored(_ state: State) -> State? { nil }

  /// Returns whether any part of an entity is stored.
  static func isDurable(_ index: UInt32, in engine: Engine) -> Bool {
    store(of: engine).state(index).flatMap(stored) != nil
  }
}

extension Engine {
  /// Begins to note changes, for `takeChanges`.
  package func noteChanges() { changes.isOn = true }

  /// Whether any stored state has changed since the last `takeChanges`.
  package var hasChanges: Bool { !changes.isEmpty || eventLog.hasUnstored }

  /// Appends the current state, or the removal, of each entity that has changed since the last
  /// call; then the events since the last call.
  package func takeChanges(into batch: ChangeWriter) {
    for kind in EntityKind.durable { kind.behavior.takeChanges(of: self, into: batch) }
    let events = eventLog.takeUnstored()
    for portion in events.portions {
      batch.append(portion, missingThrough: events.missingThrough)
    }
    if let gap = eventLog.takeUnstoredGap() {
      batch.append(gap, missingThrough: gap.lastSequence)
    }
  }

  /// Marks all stored entities as changed, for another store.
  package func noteEverything() {
    for kind in EntityKind.durable where !context.copiedKinds.contains(kind) {
      for index in 0..<UInt32(store(of: kind).indexEnd)
      where kind.behavior.isDurable(index, in: self) {
        changes.note(EntityRef(kind, index), isKept: true)
      }
    }
  }

  /// Throws if the engine is read-only and an entity with this owner would be stored.
  func checkWritable(_ owner: Owner) throws(EngineError) {
    if isReadOnly, owner == .none { throw .readOnly }
  }
}

extension Kind {
  static func takeChanges(of engine: Engine, into batch: ChangeWriter) {
    let changed = engine.changes.take(kind)
    guard !changed.isEmpty else { return }
    for index in changed {
      let entity = EntityRef(kind, index)
      if append(index, of: engine, to: batch) {
        engine.changes.setKept(entity, true)
      } else if var state = store(of: engine).state(index).flatMap({
        engine.context.isWorkbench ? $0 : stored($0)
      }) {
        engine.changes.setKept(entity, true)
        batch.append(Self.self, store(of: engine).key(index).span, &state, at: index)
      } else if engine.changes.isKept(entity) {
        engine.changes.setKept(entity, false)
        batch.appendGone(kind, at: index)
      }
    }
  }
}

/// The highest slot that a stored entity can have.
package enum StoredSlots {
  /// One more than the highest slot: above any limit of entities that the configuration accepts.
  package static let end: UInt32 = 1 << 27
}
