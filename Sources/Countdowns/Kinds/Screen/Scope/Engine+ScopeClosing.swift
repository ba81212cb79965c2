/// How scopes close: at once for clients, in the background for the daemon.
extension Engine {
  /// Closes small trees completely before the reply to the command.
  func closeLittle(at now: Moment) {
    var budget = 256
    closeScopes(at: now, budget: &budget)
  }

  /// Marks a scope as closed: clients do not see it from now on. O(1); O(pages) for a page's scope.
  func beginClosing(_ index: UInt32, _ reason: Reason, at now: Moment) {
    scopes.tree.beginClosing(index)
    scopes.table[index].isClosing = true
    scopes.table[index].alarm = arm(
      scopes.table[index].alarm, for: nil, EntityRef(.scope, index))
    scopes.closings.begin(
      ScopeStore.Closing(
        root: index, generation: scopes.table[index].generation, reason: reason, cursor: index))
    leaveStack(index, at: now)
  }

  /// Begins to close a scope whose lease has expired, unless a suspend has prolonged it.
  func expireScope(_ index: UInt32, at now: Moment) {
    if scopes.tree.prolong(index, at: now.boot) { return armLease(of: index) }
    if isFirstToEnd(index, at: now) { beginClosing(index, .expired, at: now) }
  }

  /// Removes a closed connection's handlers, and begins to close the scope if it is the owner.
  func scopeOwnerGone(_ index: UInt32, _ owner: Owner, at now: Moment) {
    if case .connection(let connection) = owner {
      scopes.table[index].handlers.removeAll(of: connection)
    }
    guard scopes.table[index].owner == owner, isFirstToEnd(index, at: now) else { return }
    statistics.ownerGone += 1
    beginClosing(index, .ownerGone, at: now)
  }

  /// Returns whether a scope is neither closing nor closed by a scope above it.
  func isFirstToEnd(_ index: UInt32, at now: Moment) -> Bool {
    guard !scopes.table[index].isClosing else { return false }
    return scopes.tree.parent(of: index).map { ScopeKind.runDue($0, in: self, at: now) } ?? true
  }

  /// Continues the closings in progress, the newest first. Each step is O(1): it descends to a
  /// child, cancels one owned entity, or removes one scope that has nothing left.
  func closeScopes(at now: Moment, budget: inout Int) {
    while budget > 0, !scopes.closings.isEmpty {
      budget -= 1
      let closing = scopes.closings.newest
      guard scopes.table.contains(closing.root),
        scopes.table[closing.root].generation == closing.generation
      else {
        scopes.closings.endNewest()
        continue
      }
      let cursor = closing.cursor
      // A scope's own entities are cancelled before it is removed.
      if let entity = scopes.table[cursor].ownedLeft?.next() {
        ownerGone(entity, .scope(ownerName(ofScope: cursor)), at: now)
      } else if let child = scopes.tree.firstChild(of: cursor) {
        scopes.closings.newest.cursor = child
      } else if let name = scopes.table[cursor].name, let owned = connections.takeOwned(of: name) {
        scopes.table[cursor].ownedLeft = owned.makeIterator()
      } else {
        let isLast = cursor == closing.root
        if isLast {
          scopes.closings.endNewest()
        } else {
          scopes.closings.newest.cursor = scopes.tree.parent(of: cursor)!
        }
        let reason: Reason = scopes.tree.isRouted(cursor) ? .parentClosed : .ownerGone
        removeScope(cursor, reason: isLast ? closing.reason : reason, at: now)
      }
    }
  }

  /// Removes a closed scope with this name, so that the name is free; throws if that takes longer.
  func makeRoom(
    forScope key: [UInt8], at now: Moment
  ) throws(EngineError) {
    guard let old = scopes.table.find(key) else { return }
    if let (cause, why) = scopes.tree.cause(of: old, at: now.boot, connections),
      isFirstToEnd(cause, at: now)
    {
      beginClosing(cause, why == .leaseOver ? .expired : .ownerGone, at: now)
    }
    closeLittle(at: now)
    if scopes.table.find(key) != nil { throw .scope(.isClosing(key)) }
  }

  /// Removes a scope that has nothing below it and owns nothing.
  private func removeScope(_ index: UInt32, reason: Reason, at now: Moment) {
    leaveStack(index, at: now)
    publish(scope: index, .closed, reason: reason, at: now)
    scopes.tree.remove(index)
    remove(ScopeKind.self, index)
  }
}
