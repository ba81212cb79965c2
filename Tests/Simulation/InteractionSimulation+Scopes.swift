import Countdowns

/// Commands on scopes and what they own, asked of the engine and of the model.
extension InteractionSimulation {
  private static let names = (0..<10).map { "s\($0)" }
  private static let timers = (0..<6).map { "t\($0)" }
  private static let events = ["tap", "swipe", "*"]

  mutating func playScopes() throws(Disagreement) {
    let name = pick(Self.names)
    switch Int.random(in: 0..<20, using: &random) {
    case 0..<7: try open(name)
    case 7..<9: try close(name)
    case 9..<11: try touch(name)
    case 11..<13: try setTimer(pick(Self.timers))
    case 13..<15: try playGuard()
    case 15: try handle(name)
    case 16..<18: try emit(anyScope())
    default: try compareScope(anyScope())
    }
  }

  /// Returns the name of an open scope, or sometimes any name.
  mutating func anyScope() -> String {
    let open = model.scopes.keys.sorted()
    return chance(oneIn: 5) || open.isEmpty ? pick(Self.names) : pick(open)
  }

  private func generation(of name: String?) -> Generation? {
    name.flatMap { model.scopes[$0]?.generation }
  }

  private mutating func anyConnection() -> UInt64 { pick(model.connections.sorted()) }

  // MARK: Opening and closing

  private mutating func open(_ name: String) throws(Disagreement) {
    var opening = ScopeOpening()
    var parent: String?
    var ownerName: String?
    switch Int.random(in: 0..<8, using: &random) {
    case 0..<4: parent = anyScope()
    case 4: ownerName = anyScope()
    default: break
    }
    if ownerName == nil, chance(oneIn: 4) { opening.owner = .connection(anyConnection()) }
    if chance(oneIn: 3) { opening.ttl = pick([.milliseconds(500), .seconds(5), .seconds(90)]) }
    opening.parent = parent.map { Array($0.utf8) }
    let wanted = opening
    try observe("OPEN \(name) \(opening) owner \(ownerName ?? "-")") { this throws(Disagreement) in
      var opening = wanted
      if let ownerName {
        guard let owner = try this.owner(ownerName) else { return }
        opening.owner = owner
      }
      let expected = this.expected(name, opening, below: parent ?? ownerName)
      let asked = this.ask { (engine, now, client) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try engine.openScope(key, opening, by: client, at: now).generation
        }
      }
      if asked == .failure(.scope(.isClosing(Array(name.utf8)))),
        this.model.scopes[name] == nil, this.events.isBeingClosed(name)
      {
        return
      }
      if this.isFull(asked, adding: this.model.scopes[name] == nil ? 1 : 0) { return }
      switch (asked, expected) {
      case (.success(let generation), nil):
        this.opened(name, opening, generation, below: parent ?? ownerName)
      case (.failure(let error), .some(let wanted)):
        try this.compare("the error of OPEN \(name)", error, wanted)
      default:
        throw Disagreement(
          description: "OPEN \(name): \(asked), expected \(String(describing: expected))")
      }
      try this.compareScope(name)
    }
  }

  /// Returns the expected error, or nil.
  private func expected(
    _ name: String, _ opening: ScopeOpening, below above: String?
  ) -> EngineError? {
    if let scope = model.scopes[name] {
      let parent = scope.isRouted ? scope.parent : nil
      if let wanted = opening.parent.map({ String(decoding: $0, as: UTF8.self) }), wanted != parent
      {
        return model.scopes[wanted] != nil && model.isBelow(wanted, name)
          ? .scope(.parentBelow(Array(wanted.utf8)))
          : .scope(.otherParent(parent.map { Array($0.utf8) }))
      }
      if let wanted = opening.owner, wanted != scope.owner {
        return .scope(.otherOwner(scope.owner))
      }
      return opening.ttl != nil && scope.ttl == nil ? .scope(.noLease) : nil
    }
    guard let above else { return nil }
    if model.scopes[above] == nil { return .scope(.noScope(Array(above.utf8))) }
    if model.depth(above) >= 6 { return .limit(name: "max-scope-depth", value: 6) }
    return nil
  }

  private mutating func opened(
    _ name: String, _ opening: ScopeOpening, _ generation: Generation, below above: String?
  ) {
    if model.scopes[name] != nil {
      if let ttl = opening.ttl { model.renew(name, ttl.microseconds) }
      return
    }
    events.note(scope: generation, name, below: self.generation(of: above))
    model.open(
      name,
      InteractionModel.Scope(
        generation: generation, parent: above, isRouted: opening.parent != nil,
        owner: opening.owner ?? .none, ttl: opening.ttl?.microseconds,
        leaseEnd: opening.ttl.map { model.now + $0.microseconds }))
  }

  /// Notes the scope of a page, which has the parent and the owner of the page below it.
  mutating func opened(page name: String, _ generation: Generation, above below: String?) {
    let like = below.flatMap { model.scopes[$0] }
    events.note(scope: generation, name, below: self.generation(of: like?.parent))
    model.open(
      name,
      InteractionModel.Scope(
        generation: generation, parent: like?.parent, isRouted: like?.isRouted ?? false,
        owner: like?.owner ?? .none, ttl: nil, leaseEnd: nil))
  }

  mutating func close(_ name: String) throws(Disagreement) {
    try observe("CLOSE \(name)") { this throws(Disagreement) in
      let isAlive = this.model.scopes[name] != nil
      let asked = this.ask { (engine, now, _) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try engine.closeScope(key, generation: nil, at: now)
        }
      }
      try this.compare("CLOSE \(name)", asked, .success(isAlive))
      this.model.close(name)
    }
  }

  private mutating func touch(_ name: String) throws(Disagreement) {
    let ttl: Interval? = chance(oneIn: 3) ? .seconds(pick([1, 20])) : nil
    try observe("TOUCH \(name) \(String(describing: ttl))") { this throws(Disagreement) in
      let asked = this.ask { (engine, now, _) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try engine.touchScope(key, ttl: ttl, generation: nil, at: now).generation
        }
      }
      guard let scope = this.model.scopes[name] else {
        return try this.compare("TOUCH \(name)", asked, .failure(.notFound))
      }
      guard scope.ttl != nil else {
        return try this.compare("TOUCH \(name)", asked, .failure(.scope(.noLease)))
      }
      try this.compare("TOUCH \(name)", asked, .success(scope.generation))
      this.model.renew(name, ttl?.microseconds)
      try this.compareScope(name)
    }
  }

  /// Returns the owner that `OWNER scope:NAME` names; nil if there is rightly no such scope.
  mutating func owner(_ name: String) throws(Disagreement) -> Owner? {
    let asked = ask { (engine, now, _) throws(EngineError) in
      try name.withKeyThrowing { key throws(EngineError) in
        try engine.scopeOwner(key, at: now)
      }
    }
    guard let scope = model.scopes[name] else {
      try compare("OWNER scope:\(name)", asked, .failure(.scope(.noScope(Array(name.utf8)))))
      return nil
    }
    guard case .success(.scope(let owner)) = asked, owner.generation == scope.generation else {
      throw Disagreement(description: "OWNER scope:\(name): \(asked)")
    }
    return .scope(owner)
  }

  private mutating func setTimer(_ key: String) throws(Disagreement) {
    let after = pick([1, 300, 2_000, 30_000] as [Int64])
    let ownerName: String? = chance(oneIn: 5) ? nil : anyScope()
    try observe("TIMER SET \(key) \(after) owner \(ownerName ?? "-")") {
      this throws(Disagreement) in
      var set = TimerSet(after: .milliseconds(after))
      if let ownerName {
        guard let owner = try this.owner(ownerName) else { return }
        set.owner = owner
      }
      let asked = this.ask { (engine, now, client) throws(EngineError) in
        try key.withKeyThrowing { bytes throws(EngineError) in
          try engine.setTimer(bytes, set, by: client, at: now).view.generation
        }
      }
      if this.isFull(asked, adding: 1) { return }
      guard case .success(let generation) = asked else {
        throw Disagreement(description: "TIMER SET: \(asked)")
      }
      let owner = ownerName.map { ($0, this.model.scopes[$0]!.generation) }
      this.events.note(owned: generation, by: owner?.1)
      this.model.timers[key] = InteractionModel.Timer(
        generation: generation, owner: owner, due: this.model.now + after * 1_000)
    }
  }

  // MARK: Events

  private mutating func handle(_ name: String) throws(Disagreement) {
    let event = pick(Self.events)
    let captures = chance(oneIn: 3)
    let isLeaving = chance(oneIn: 3)
    let connection = anyConnection()
    let client = client(connection)
    try observe("\(isLeaving ? "UN" : "")HANDLE \(name) \(event) \(captures) by \(connection)") {
      this throws(Disagreement) in
      let isAlive = this.model.scopes[name] != nil
      if isLeaving {
        let now = this.now
        let asked = name.withKey {
          this.engine.unhandle($0, Array(event.utf8), by: client, at: now)
        }
        return try this.compare(
          "UNHANDLE \(name)", asked,
          isAlive && this.model.unhandle(name, event, by: connection))
      }
      let asked = this.ask { (engine, now, _) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try engine.handle(key, Array(event.utf8), captures: captures, by: client, at: now)
        }
      }
      try this.compare(
        "HANDLE \(name)", asked,
        isAlive
          ? .success(this.model.handle(name, event, captures: captures, by: connection))
          : .failure(.notFound))
    }
  }

  private mutating func emit(_ name: String) throws(Disagreement) {
    let event = pick(["tap", "swipe", "shake"])
    try observe("EMIT \(name) \(event)") { this throws(Disagreement) in
      let asked = this.ask { (engine, now, _) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try engine.emit(Array(event.utf8), payload: nil, for: key, at: now) { _ in true }
        }
      }.map { $0.map { String(decoding: $0, as: UTF8.self) } }
      guard this.model.scopes[name] != nil else {
        return try this.compare("EMIT \(name)", asked, .failure(.notFound))
      }
      let taker = this.model.taker(of: event, for: name)
      try this.compare("EMIT \(name)", asked, .success(taker?.scope))
      this.expectedEmissions = taker.map { [$0] } ?? []
    }
    let reported = events.emissions.map { "\($0.scope) by \($0.connection)" }
    let expected = expectedEmissions.map { "\($0.scope) by \($0.connection)" }
    events.emissions = []
    expectedEmissions = []
    try compare("who was notified", reported, expected)
  }

  // MARK: Comparing

  mutating func compareScope(_ name: String, isFinished: Bool = false) throws(Disagreement) {
    model.settle()
    let now = now
    let view = name.withKey { engine.scope($0, at: now) }
    let scope = model.scopes[name]
    try compare("the generation of \(name)", view?.generation, scope?.generation)
    guard let view, let scope else { return }
    try compare(
      "the parent of \(name)", view.parent,
      scope.isRouted ? scope.parent.map { Array($0.utf8) } : nil)
    try compare("the depth of \(name)", view.depth, model.depth(name))
    try compare(
      "the lease of \(name)", view.remainingMS, scope.leaseEnd.map { ($0 - model.now).roundedUp })
    guard isFinished else { return }
    try compare("children of \(name)", view.children, model.children(name))
    try compare("what \(name) owns", view.owned, model.ownedCount(name))
    try compare(
      "handlers at \(name)", view.handlers,
      scope.handlers.count { model.connections.contains($0.connection) })
  }

  /// Compares everything that can be queried, once nothing is due.
  mutating func compareAll() throws(Disagreement) {
    var query = ListQuery()
    query.limit = 1_000
    let names = engine.list(.scope, query, at: now).views.map {
      String(decoding: $0.key, as: UTF8.self)
    }
    try compare("the scopes", names.sorted(), model.scopes.keys.sorted())
    for name in names { try compareScope(name, isFinished: true) }
    for timer in Self.timers {
      let now = now
      let view = timer.withKey { engine.timer($0, at: now) }
      try compare("timer \(timer)", view?.generation, model.timers[timer]?.generation)
    }
    try compareGuards()
    for root in names where model.scopes[root]!.parent == nil {
      try compareTree(root)
    }
    try compareStacks()
    try compareContents()
  }

  private mutating func compareTree(_ root: String) throws(Disagreement) {
    var found: [String] = []
    var cursor: Int64 = 0
    repeat {
      let page = ask { (engine, now, _) throws(EngineError) in
        try root.withKeyThrowing { key throws(EngineError) in
          let page = try engine.scopeTree(key, cursor: cursor, limit: 3, at: now)
          return TreePage(cursor: page.cursor, keys: page.views.map(\.key))
        }
      }
      guard case .success(let part) = page else {
        throw Disagreement(description: "TREE \(root): \(page)")
      }
      for key in part.keys {
        let name = String(decoding: key, as: UTF8.self)
        if name != root, !found.contains(model.scopes[name]?.parent ?? "") {
          throw Disagreement(description: "TREE \(root): \(name) comes before its parent")
        }
        found.append(name)
      }
      cursor = part.cursor
    } while cursor != 0
    let expected = model.scopes.keys.filter { model.isBelow($0, root) }
    try compare("TREE \(root)", found.sorted(), expected.sorted())
  }

  private struct TreePage: Equatable {
    var cursor: Int64
    var keys: [[UInt8]]
  }
}

extension String {
  func withKeyThrowing<R>(
    _ body: (Span<UInt8>) throws(EngineError) -> R
  ) throws(EngineError) -> R {
    try body(utf8.span)
  }
}
