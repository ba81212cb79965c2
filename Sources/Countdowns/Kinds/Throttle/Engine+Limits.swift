import Memory

/// Named limits: several decide together, and all are charged or none.
extension Engine {
  /// A limit that a request is charged to.
  struct Charge {
    let key: [UInt8]
    let rules: LimitRules
    /// The throttle; nil while nothing of the limit is used.
    var index: UInt32?
  }

  // MARK: Deciding

  /// Returns the limits with these keys. Keys whose limit is not in the configuration any more
  /// limit nothing.
  func charges(_ keys: [[UInt8]], at now: Moment) -> [Charge] {
    journal?.willCharge(keys, at: now)
    return charges(of: keys, at: now)
  }

  /// Returns the limits with these keys, of which nothing is asked.
  func charges(of keys: [[UInt8]], at now: Moment) -> [Charge] {
    keys.compactMap { key in
      rules(of: key.span).map {
        Charge(key: key, rules: $0, index: limit(key, at: now))
      }
    }
  }

  /// Returns the rules in force of a key; nil if its limit is not in the configuration, or has one
  /// key for all, which is another one.
  func rules(of key: Span<UInt8>) -> LimitRules? {
    guard let rules = rulesOfName(of: key), rules.hasKey(key) else { return nil }
    return rules
  }

  /// Returns the rules of the name that a key begins with; nil if the configuration has none.
  func rulesOfName(of key: Span<UInt8>) -> LimitRules? {
    guard !settings.throttles.isEmpty, let name = LimitRules.name(of: key) else { return nil }
    return settings.throttles[name]
  }

  /// Returns why and until when limits refuse a request: what ends last. Nil if all accept it.
  func refusal(of charges: [Charge], cost: UInt32 = 1, at now: Moment) -> Refusal? {
    var last: Refusal?
    for charge in charges {
      guard let index = charge.index,
        var refusal = throttles[index].machine.refusal(
          of: cost, by: charge.rules, at: now.boot), refusal.until > last?.until ?? now.boot
      else { continue }
      refusal.limit = charge.key
      last = refusal
    }
    return last
  }

  /// The number of entities that taking from these limits adds, pages of sends included.
  func newEntities(of charges: [Charge]) -> Int {
    charges.reduce(0) { $0 + ($1.index == nil ? 1 : 0) + (needsPage($1) ? 1 : 0) }
  }

  private func needsPage(_ charge: Charge) -> Bool {
    guard !context.isWorkbench, charge.rules.retention > .zero else { return false }
    guard let index = charge.index else { return true }
    return throttles[index].machine.readLimit { $0.sends.isLastPageFull } ?? true
  }

  // MARK: Charging

  /// Takes from all limits, none of which refuses it.
  ///
  /// - Parameters:
  ///   - id: the generation of the send.
  ///   - hasCode: whether there is a code, whose outcome comes later.
  /// - Returns: whether any has no room for one more.
  @discardableResult
  func take(
    _ charges: inout [Charge], cost: UInt32 = 1, id: Generation, hasCode: Bool,
    token: [UInt8]? = nil, digest: Int64 = 0, by client: Client, at now: Moment
  ) -> Bool {
    var isFull = false
    for number in charges.indices {
      let charge = charges[number]
      let index =
        charge.index
        ?? insertGuard(
          ThrottleKind.self, charge.key.span, Throttle(charge.rules, at: now.boot), owner: .none,
          by: client)
      charges[number].index = index
      // A limit that became named while it was in use begins with its rate.
      if !throttles[index].machine.isNamed {
        throttles[index].machine.limit = Throttle.Limit(charge.rules)
      }
      throttles[index].machine.take(
        cost, id: id.value, hasCode: hasCode, by: charge.rules,
        atMost: context.isWorkbench ? LimitRules.maximumInFleet : LimitRules.maximumInWindow,
        at: now.boot
      )
      if token != nil {
        throttles[index].tokens.remember(
          token, of: .take, throttles[index].generation, id: id.value, digest: digest,
          at: now.boot)
      }
      limitChanged(index, .accepted, by: client, at: now)
      if throttles[index].machine.roomAt != nil {
        isFull = true
        publish(ThrottleKind.self, index, .full, at: now)
      }
    }
    return isFull
  }

  /// Gives a send back to the limits that it was charged to, and that still count it.
  func refund(_ send: SendRecord.Send, at now: Moment) {
    journal?.willChange(send.limits, at: now)
    for (index, key) in send.limits.enumerated() {
      if let rules = rules(of: key.span), send.at + rules.memory <= now.boot { continue }
      settle(send, index, nil, at: now)
    }
  }

  private func settle(
    _ send: SendRecord.Send, _ index: Int, _ outcome: LimitSends.Outcome?, at now: Moment
  ) {
    let settlement = SharedLimits.Settlement(share: send.share(index), outcome: outcome)
    guard let shared = context.sharedLimits else { return settle(settlement, at: now) }
    shared.settled.append(settlement)
  }

  /// Gives a share of a limit back.
  ///
  /// - Parameters:
  ///   - cost: what was taken with this id.
  ///   - taken: when it was taken, if what has come back since then is not given back again.
  func refund(
    _ share: LimitShare, cost: UInt32 = 1, taken: Instant? = nil, at now: Moment
  ) {
    guard let index = current(ThrottleKind.self, share.key.span, at: now),
      throttles[index].machine.isNamed
    else { return }
    let hadRoom = throttles[index].machine.roomAt == nil
    guard
      throttles[index].machine.refund(id: share.id, cost: cost, taken: taken, at: now.boot)
    else { return }
    limitChanged(index, .refunded, at: now)
    endIfUnused(index, hadRoom: hadRoom, at: now)
  }

  /// Reports to the limits of a send whether its code was entered.
  func learn(_ outcome: LimitSends.Outcome, of send: SendRecord.Send, at now: Moment) {
    journal?.willChange(send.limits, at: now)
    for index in send.limits.indices { settle(send, index, outcome, at: now) }
  }

  /// Reports to a limit whether the code of a send was entered.
  func learn(_ outcome: LimitSends.Outcome, of share: LimitShare, at now: Moment) {
    guard let index = current(ThrottleKind.self, share.key.span, at: now),
      let known = throttles[index].machine.readLimit({ $0.rules })
    else { return }
    let rules = rules(of: share.key.span) ?? known
    let passes = throttles[index].machine.learn(outcome, of: share.id, by: rules, at: now.boot)
    syncSends(of: index)
    guard let passes, let passed = rules.rules.passed else { return }
    statistics.decisions.blocked += 1
    stores.throttles.noteBlock(of: index)
    limitChanged(index, .blocked, reason: .passed, at: now)
    notices.append(.blocked(key: share.key, passes, passed))
  }

  /// Ends a block. Returns nil if nothing of the limit is used.
  package func unblockThrottle(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> (isFirst: Bool, view: ThrottleView)? {
    guard let index = current(ThrottleKind.self, key, at: now) else { return nil }
    try check(generation, against: throttles[index].generation)
    try checkWritable(.none)
    let isFirst = throttles[index].machine.unblock(at: now.boot)
    if isFirst {
      stores.throttles.noteBlock(of: index)
      limitChanged(index, .unblocked, at: now)
      shadow?.learn { other throws(EngineError) in
        _ = try other.unblockThrottle(key, generation: nil, at: now)
      }
    }
    let view = ThrottleView(throttles[index], at: now)
    if isFirst { endIfUnused(index, hadRoom: true, at: now) }
    return (isFirst, view)
  }

  /// Returns until when somebody waits who finds no room now; nil if all limits have room.
  func promisedRoom(of charges: [Charge], at now: Moment) -> Refusal? {
    if let journal { journal.willChange(charges.map(\.key), at: now) }
    var last: Refusal?
    for charge in charges {
      guard let index = charge.index,
        var refusal = throttles[index].machine.refusal(of: 1, by: charge.rules, at: now.boot),
        let room = throttles[index].machine.promise(by: charge.rules, at: now.boot)
      else { continue }
      context.sharedLimits?.promised[charge.key] = room
      refusal.until = room
      refusal.limit = charge.key
      if room > last?.until ?? now.boot { last = refusal }
    }
    return last
  }

  // MARK: Time

  /// Runs what is due for a named limit.
  func fireLimit(_ index: UInt32, at now: Moment) {
    while let due = throttles[index].machine.nextOfLimit, due <= now.boot {
      let limit = throttles[index].machine.limit!
      statistics.record(late: (now.boot - due).microseconds)
      if limit.blockedUntil == due {
        _ = throttles[index].machine.unblock(at: now.boot)
        stores.throttles.noteBlock(of: index)
        publish(ThrottleKind.self, index, .unblocked, due: due, at: now)
      } else if limit.roomAt == due {
        let key = throttles[index].key
        let rules = rules(of: key.span) ?? limit.rules
        if throttles[index].machine.findRoom(by: rules, at: now.boot) {
          publish(ThrottleKind.self, index, .room, due: due, at: now)
        } else {
          noteChange(ThrottleKind.self, index)
        }
      } else {
        publish(ThrottleKind.self, index, .ready, due: due, at: now)
        ThrottleKind.release(index, in: self)
        return endGuard(ThrottleKind.self, index, at: now)
      }
    }
  }

  private func limitChanged(
    _ index: UInt32, _ event: Event.Name, reason: Reason? = nil, by client: Client? = nil,
    at now: Moment
  ) {
    syncSends(of: index, by: client)
    arm(ThrottleKind.self, index)
    publish(ThrottleKind.self, index, event, reason: reason, at: now)
  }

  func endIfUnused(_ index: UInt32, hadRoom: Bool, at now: Moment) {
    if throttles[index].machine.emptyAt <= now.boot {
      ThrottleKind.release(index, in: self)
      return endGuard(ThrottleKind.self, index, at: now)
    }
    if !hadRoom, throttles[index].machine.roomAt == nil {
      publish(ThrottleKind.self, index, .room, at: now)
    }
    arm(ThrottleKind.self, index)
  }
}

/// What the log reports of limits.
package enum EngineNotice: Equatable, Sendable {
  /// Sends under a limit are refused, as too few of their codes were entered.
  case blocked(key: [UInt8], Throttle.Passes, LimitRules.Passed)
  /// Stored limits are dropped: their name has one key for all now.
  case dropped(name: String, count: Int)
  /// An administrator has forgiven a key.
  case forgiven(key: [UInt8], withLimits: Bool, uid: UInt32)
}

// MARK: - Storing

/// A page of sends: the limit, and the user who has added the page. The limit is `.max` while it is
/// unknown; then the page counts for no user.
struct SendPage {
  var limit: UInt32
  var uid: UInt32

  static let restored = SendPage(limit: .max, uid: 0)
}

/// The sends of a limit are stored in pages, each at a slot of its own among the throttles. Those
/// of a fleet are stored with their limit.
extension Engine {
  /// Notes the pages that have changed.
  ///
  /// - Parameter client: who has added a send.
  func syncSends(of index: UInt32, by client: Client? = nil) {
    guard throttles[index].machine.isNamed else { return }
    guard !context.isWorkbench else { return noteChange(ThrottleKind.self, index) }
    let uid = client?.uid ?? throttles[index].uid
    let (changed, freed) = throttles[index].machine.changeLimit { limit, _ in
      limit.sends.takeChanges {
        let slot = throttles.reserve()
        stores.throttles.pages.insert(SendPage(limit: index, uid: uid), at: slot)
        connections.adjustEntityCount(by: 1, for: uid)
        return slot
      }
    }
    for slot in changed { changes.note(EntityRef(.throttle, slot), isKept: true) }
    for slot in freed { releasePage(slot) }
  }

  fileprivate func releasePage(_ slot: UInt32) {
    let page = stores.throttles.pages.remove(slot)
    if page.limit != .max { connections.adjustEntityCount(by: -1, for: page.uid) }
    changes.note(EntityRef(.throttle, slot), isKept: false)
    throttles.release(slot)
  }
}

extension ThrottleKind {
  static func end(
    _ key: Span<UInt8>, in engine: Engine, at now: Moment
  ) throws(EngineError) -> Bool {
    let isFirst = try engine.cancel(Self.self, key, generation: nil, at: now)
    engine.shadow?.learn { other throws(EngineError) in
      _ = try other.cancel(Self.self, key, generation: nil, at: now)
    }
    return isFirst
  }

  static func release(_ index: UInt32, in engine: Engine) {
    guard engine.throttles[index].machine.isNamed else { return }
    let slots = engine.throttles[index].machine.changeLimit { limit, _ in
      limit.sends.removeAll()
    }
    for slot in slots { engine.releasePage(slot) }
    engine.stores.throttles.blocked.remove(EntityRef(kind, index))
  }

  static func isDurable(_ index: UInt32, in engine: Engine) -> Bool {
    if engine.stores.throttles.pages.contains(index) {
      return engine.throttles.contains(engine.stores.throttles.pages[index].limit)
    }
    return store(of: engine).state(index).flatMap(stored) != nil
  }

  /// Appends a page of sends.
  static func append(_ index: UInt32, of engine: Engine, to batch: ChangeWriter) -> Bool {
    guard engine.stores.throttles.pages.contains(index),
      let entity = engine.throttles.entity(at: engine.stores.throttles.pages[index].limit)
    else { return false }
    let sends = entity.machine.limit?.sends.page(at: index) ?? []
    batch.append(kind, at: index) { $0.page(of: entity.key, sends) }
    return true
  }

  static func writeAll(of engine: Engine, to batch: ChangeWriter) {
    let store = store(of: engine)
    for index in 0..<UInt32(store.indexEnd) where !append(index, of: engine, to: batch) {
      guard var state = store.state(index) else { continue }
      batch.append(Self.self, store.key(index).span, &state, at: index)
    }
  }

  /// Drops what earlier releases have stored of a global limit under other keys than its one.
  static func isDropped(
    _ record: ArraySlice<UInt8>, at index: UInt32, in engine: Engine
  ) -> Bool {
    guard !engine.settings.throttles.isEmpty, let range = EntityRecord.key(of: record.span),
      let rules = engine.rulesOfName(of: record.span.extracting(range)),
      !rules.hasKey(record.span.extracting(range))
    else { return false }
    let slot = EntityRef(kind, index)
    engine.changes.setKept(slot, true)
    engine.changes.note(slot, isKept: false)
    guard !EntityRecord.isSends(record.first) else { return true }
    engine.noteDropped(LimitRules.name(of: record.span.extracting(range)) ?? "")
    return true
  }

  static func restore(
    _ record: ArraySlice<UInt8>, at index: UInt32, offset: Int64, in engine: Engine, at now: Moment
  ) throws(EntityRecord.Problem) {
    guard EntityRecord.isSends(record.first) else {
      try restoreEntity(record, at: index, offset: offset, in: engine, at: now)
      engine.stores.throttles.noteBlock(of: index)
      engine.adoptRules(index, at: now.boot)
      guard let range = EntityRecord.key(of: record.span),
        let pages = engine.stores.throttles.pagesWithoutLimit.removeValue(
          forKey: Array(record.span.extracting(range)))
      else { return }
      for (slot, sends) in pages where !engine.attach(sends, at: slot, to: index) {
        engine.releasePage(slot)
      }
      return
    }
    guard let (key, sends) = page(record, offset: offset), index < KeyIndex.maximumEntries,
      engine.stores.throttles.isFree(index)
    else { throw .damaged }
    engine.throttles.reserve(index)
    engine.stores.throttles.pages.insert(.restored, at: index)
    if let limit = engine.throttles.find(key) {
      guard engine.attach(sends, at: index, to: limit) else {
        engine.releasePage(index)
        throw .damaged
      }
    } else {
      engine.stores.throttles.pagesWithoutLimit[key, default: []].append((index, sends))
    }
    engine.changes.setKept(EntityRef(.throttle, index), true)
  }

  /// Reads a page of sends, and the key of their limit.
  private static func page(
    _ record: ArraySlice<UInt8>, offset: Int64
  ) -> (key: [UInt8], sends: [LimitSends.Send])? {
    guard let range = EntityRecord.key(of: record.span) else { return nil }
    var reader = StateReader(record.dropFirst(range.upperBound), offset: offset)
    reader.format = record.first!
    var sends: [LimitSends.Send] = []
    reader.list("sends", &sends)
    guard !reader.hasFailed, reader.bytesLeft == 0, !sends.isEmpty else { return nil }
    return (Array(record.span.extracting(range)), sends)
  }

  /// Adds the pages of a limit that joins a fleet: their newest sends. Returns false if they are
  /// not of this limit.
  static func adopt(
    _ pages: [ArraySlice<UInt8>], _ index: UInt32, offset: Int64, in engine: Engine
  ) -> Bool {
    let found = pages.compactMap { page($0, offset: offset) }
    guard found.count == pages.count, engine.throttles[index].machine.isNamed,
      found.allSatisfy({ $0.key == engine.throttles[index].key })
    else { return false }
    let sends = found.flatMap { $0.sends }.sorted { $0.id < $1.id }
    return engine.throttles[index].machine.changeLimit { limit, _ in
      let isRead = sends.allSatisfy { limit.sends.add($0) }
      limit.sends.removeFirst(max(limit.sends.count - LimitRules.maximumInFleet, 0))
      return isRead
    }
  }
}

extension Engine {
  fileprivate func noteDropped(_ name: String) {
    guard case .dropped(name, let count) = notices.last else {
      return notices.append(.dropped(name: name, count: 1))
    }
    notices[notices.count - 1] = .dropped(name: name, count: count + 1)
  }

  /// Adds a stored page to its limit. Returns false if the limit cannot have it.
  fileprivate func attach(_ sends: [LimitSends.Send], at slot: UInt32, to index: UInt32) -> Bool {
    guard throttles[index].machine.isNamed, !throttles[index].isOver,
      throttles[index].machine.changeLimit({ limit, _ in limit.sends.attach(sends, at: slot) })
    else { return false }
    stores.throttles.pages[slot] = SendPage(limit: index, uid: throttles[index].uid)
    connections.adjustEntityCount(by: 1, for: throttles[index].uid)
    arm(ThrottleKind.self, index)
    return true
  }
}
