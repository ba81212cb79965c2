import TimerWheel

/// The arguments of SCOPE OPEN, beyond the key.
package struct ScopeOpening: Sendable {
  package var parent: [UInt8]?
  /// The owner; nil leaves that of an existing scope unchanged.
  package var owner: Owner?
  package var ttl: Interval?

  package init() {}
}

/// Scopes: when one closes, everything it owns is cancelled.
enum ScopeKind: TableKind {
  static let kind = EntityKind.scope
  static let name: StaticString = "scope"
  static let keyName = "scope"
  static let stateOfNothing: StaticString = "closed"

  static func store(of engine: Engine) -> ScopeStore { engine.scopes }

  /// Returns nil also for a closed scope that is not cleaned up yet.
  static func entry(
    at index: UInt32, in engine: Engine, now: Moment
  ) -> (owner: Owner, key: [UInt8])? {
    guard runDue(index, in: engine, at: now) else { return nil }
    return (engine.scopes.table[index].owner, engine.scopes.table[index].key)
  }

  static func view(_ index: UInt32, in engine: Engine, at now: Moment) -> ScopeView {
    engine.scopeView(index, at: now)
  }

  static func alarmFired(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    engine.scopes.table[index].alarm = nil
    engine.expireScope(index, at: now)
  }

  /// Returns whether a scope exists and is open.
  static func runDue(_ index: UInt32, in engine: Engine, at now: Moment) -> Bool {
    engine.scopes.tree.contains(index)
      && engine.scopes.tree.isOpen(index, at: now.boot, engine.connections)
  }

  static func ownerGone(
    _ index: UInt32, _ owner: Owner, in engine: Engine, at now: Moment
  ) {
    if engine.scopes.tree.contains(index) { engine.scopeOwnerGone(index, owner, at: now) }
  }
}

extension Engine {
  // MARK: Commands

  /// Opens a scope, or renews the lease of an open one with the same parent and owner.
  package func openScope(
    _ key: Span<UInt8>, _ opening: ScopeOpening, by client: Client, at now: Moment
  ) throws(EngineError) -> ScopeView {
    if let index = current(ScopeKind.self, key, at: now) {
      try check(opening, against: index, at: now)
      if let ttl = opening.ttl {
        guard scopes.table[index].ttl != nil else { throw .scope(.noLease) }
        renewLease(of: index, for: ttl, at: now)
      }
      return scopeView(index, at: now)
    }
    try checkLimits(client)
    return scopeView(try insertScope(Array(key), opening, by: client, at: now), at: now)
  }

  /// Opens the scope of a new page, which must not exist yet.
  func openPage(
    _ key: [UInt8], _ opening: ScopeOpening, by client: Client, at now: Moment
  ) throws(EngineError) -> OwnerName {
    try checkFree(page: key, at: now)
    return ownerName(ofScope: try insertScope(key, opening, by: client, at: now))
  }

  /// Throws if there is a scope with this name, even if it is still being closed.
  func checkFree(page key: [UInt8], at now: Moment) throws(EngineError) {
    guard current(ScopeKind.self, key.span, at: now) == nil else {
      throw .scope(.exists(key))
    }
    try makeRoom(forScope: key, at: now)
  }

  private func insertScope(
    _ key: [UInt8], _ opening: ScopeOpening, by client: Client, at now: Moment
  ) throws(EngineError) -> UInt32 {
    if case .scope = opening.owner, opening.parent != nil { throw .scope(.parentAndOwner) }
    let parent = try parent(of: opening, at: now)
    try checkScopeLimits(under: parent)
    try makeRoom(forScope: key, at: now)
    return insertScope(key, opening, under: parent, by: client, at: now)
  }

  /// Closes a scope. Returns false if there was none. The scope and all below it are closed to
  /// clients at once, and cleaned up in the background.
  package func closeScope(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = current(ScopeKind.self, key, at: now) else { return false }
    try check(generation, against: scopes.table[index].generation)
    beginClosing(index, .closed, at: now)
    closeLittle(at: now)
    return true
  }

  package func touchScope(
    _ key: Span<UInt8>, ttl: Interval?, generation: Generation?, at now: Moment
  ) throws(EngineError) -> ScopeView {
    guard let index = current(ScopeKind.self, key, at: now) else { throw .notFound }
    try check(generation, against: scopes.table[index].generation)
    guard let current = scopes.table[index].ttl else { throw .scope(.noLease) }
    renewLease(of: index, for: ttl ?? current, at: now)
    return scopeView(index, at: now)
  }

  /// Visits a scope and all below it, parents first, children in the order in which they opened.
  ///
  /// - Parameters:
  ///   - cursor: 0, or the cursor that the previous page returned.
  ///   - take: takes a view; returns whether there is room for another one.
  /// - Returns: the cursor to continue from; 0 at the end.
  package func scopeTree(
    _ key: Span<UInt8>, cursor: Int64, limit: Int, at now: Moment, _ take: (ScopeView) -> Bool
  ) throws(EngineError) -> Int64 {
    guard let root = current(ScopeKind.self, key, at: now) else { throw .notFound }
    var next: UInt32? = root
    if cursor != 0 {
      let slot = UInt32(truncatingIfNeeded: cursor)
      guard ScopeKind.runDue(slot, in: self, at: now), treeCursor(slot) == cursor,
        scopes.tree.isBelow(slot, root)
      else { throw .scope(.cursorIsGone) }
      next = slot
    }
    var (count, looks, hasRoom) = (0, limit * ListQuery.looksPerResult, true)
    while let scope = next, count < limit, looks > 0, hasRoom {
      looks -= 1
      if ScopeKind.runDue(scope, in: self, at: now) {
        hasRoom = take(scopeView(scope, at: now))
        count += 1
      }
      next = scopes.tree.next(after: scope, within: root)
    }
    return next.map(treeCursor) ?? 0
  }

  private func treeCursor(_ scope: UInt32) -> Int64 {
    (scopes.table[scope].generation.value & 0x7FFF_FFFF) << 32 | Int64(scope)
  }

  // MARK: Owners

  /// Returns the owner that `OWNER scope:ID` currently names.
  package func scopeOwner(
    _ key: Span<UInt8>, at now: Moment
  ) throws(EngineError) -> Owner {
    guard let index = current(ScopeKind.self, key, at: now) else {
      throw .scope(.noScope(Array(key)))
    }
    return .scope(ownerName(ofScope: index))
  }

  func ownedCount(ofScope index: UInt32) -> Int {
    scopes.table[index].name.map { connections.ownedCount(of: $0) } ?? 0
  }

  func ownerName(ofScope index: UInt32) -> OwnerName {
    if let name = scopes.table[index].name { return name }
    let entity = scopes.table[index]
    let name = OwnerName(key: entity.key, index: index, generation: entity.generation)
    scopes.table[index].name = name
    return name
  }

  /// Returns whether an owner is open: false as soon as it closes, even before its cleanup.
  func isAlive(_ owner: Owner, at now: Moment) -> Bool {
    switch owner {
    case .none: true
    case .connection(let id): connections.isAlive(connection: id)
    case .scope(let name): scopes.isOpen(name, at: now.boot, connections)
    case .page(let name): isAlive(lease: name, at: now)
    }
  }

  // MARK: Steps

  private func check(
    _ opening: ScopeOpening, against index: UInt32, at now: Moment
  ) throws(EngineError) {
    let parent = parentKey(of: index)
    if let wanted = opening.parent, wanted != parent {
      if let other = current(ScopeKind.self, wanted.span, at: now),
        scopes.tree.isBelow(other, index)
      {
        throw .scope(.parentBelow(wanted))
      }
      throw .scope(.otherParent(parent))
    }
    let owner = scopes.table[index].owner
    if let wanted = opening.owner, wanted != owner { throw .scope(.otherOwner(owner)) }
  }

  /// Returns the scope above a new scope: its parent, or else the scope that owns it.
  private func parent(
    of opening: ScopeOpening, at now: Moment
  ) throws(EngineError) -> UInt32? {
    if let parent = opening.parent {
      guard let index = current(ScopeKind.self, parent.span, at: now) else {
        throw .scope(.noScope(parent))
      }
      return index
    }
    guard case .scope(let owner) = opening.owner else { return nil }
    guard isAlive(.scope(owner), at: now) else { throw .scope(.noScope(owner.key)) }
    return owner.index
  }

  private func checkScopeLimits(under parent: UInt32?) throws(EngineError) {
    guard let parent else { return }
    let limits = settings.limits
    guard scopes.tree.depth(of: parent) < limits.scopeDepth else {
      throw .limit(name: "max-scope-depth", value: limits.scopeDepth)
    }
    guard scopes.tree.childCount(of: parent) < limits.scopeChildren else {
      throw .limit(name: "max-scope-children", value: limits.scopeChildren)
    }
  }

  private func insertScope(
    _ key: [UInt8], _ opening: ScopeOpening, under parent: UInt32?, by client: Client,
    at now: Moment
  ) -> UInt32 {
    let owner = opening.owner ?? .none
    var connection: UInt64?
    if case .connection(let id) = owner { connection = id }
    let index = insert(
      ScopeKind.self,
      ScopeEntity(
        key: key, generation: newGeneration(), owner: owner, uid: client.uid, ttl: opening.ttl))
    let leaseEnd = opening.ttl.map { now.boot + $0 }
    scopes.tree.insert(
      index, under: parent, isRouted: opening.parent != nil, connection: connection,
      leaseEnd: leaseEnd, ttl: opening.ttl)
    armLease(of: index)
    publish(scope: index, .opened, at: now)
    return index
  }

  private func renewLease(of index: UInt32, for ttl: Interval, at now: Moment) {
    scopes.table[index].ttl = ttl
    scopes.tree.renew(index, until: now.boot + ttl, ttl: ttl)
    armLease(of: index)
  }

  /// Notes that the machine was suspended, before anything that was due meanwhile happens.
  ///
  /// - Parameters:
  ///   - from: the last time before it; what was due by then and has not happened counts as later.
  ///   - until: the first time after it.
  package func noteSuspension(from: Instant, until: Instant) {
    scopes.tree.suspension = Suspension(from: ran(until: from), until: until)
  }

  func armLease(of index: UInt32) {
    scopes.table[index].alarm = arm(
      scopes.table[index].alarm, for: scopes.tree.leaseEnd(of: index), EntityRef(.scope, index))
  }

  func parentKey(of index: UInt32) -> [UInt8]? {
    guard scopes.tree.isRouted(index) else { return nil }
    return scopes.tree.parent(of: index).map { scopes.table[$0].key }
  }

  // MARK: Views and events

  func scopeView(_ index: UInt32, at now: Moment) -> ScopeView {
    let entity = scopes.table[index]
    // While a page is popped, its scope has a lease in the tree, which is not reported.
    let leaseEnd = entity.ttl.flatMap { _ in scopes.tree.leaseEnd(of: index) }
    return ScopeView(
      key: entity.key, state: .open, generation: entity.generation,
      parent: parentKey(of: index), depth: scopes.tree.depth(of: index),
      children: scopes.tree.childCount(of: index), owned: ownedCount(ofScope: index),
      handlers: entity.handlers.count, ttlMS: entity.ttl?.millisecondsRoundedUp,
      remainingMS: leaseEnd.map(now.milliseconds(until:)),
      deadlineUnixMS: leaseEnd.map(now.unixMilliseconds(of:)),
      nowUnixMS: now.unixMilliseconds, owner: entity.owner)
  }

  func publish(
    scope index: UInt32, _ name: Event.Name, reason: Reason? = nil, at now: Moment
  ) {
    let head = Event.Head(name, scopes.table[index].generation, reason: reason, at: now)
    publish(.scope, scopes.table[index].key, head) {
      var view = scopeView(index, at: now)
      if name == .closed { view.state = .closed }
      return view
    }
  }
}
