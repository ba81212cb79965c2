import Countdowns
import Simulation
import Testing

/// Trees as deep and as wide as the limits allow: each step stays small, and nothing recurses.
@Suite struct ScopeScaleTests {
  private func desk(depth: Int = 10_000, children: Int = 100_000) -> Desk {
    var settings = EngineSettings()
    settings.limits.scopeDepth = depth
    settings.limits.scopeChildren = children
    return Desk(settings)
  }

  private func open(_ desk: Desk, _ number: Int, below parent: Int?) throws {
    var opening = ScopeOpening()
    opening.parent = parent.map(name)
    let key = name(number)
    _ = try desk.engine.openScope(key.span, opening, by: desk.client(1), at: desk.now)
  }

  private func name(_ number: Int) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }

  /// Closes the whole tree in steps that each remove at most `budget` entities.
  private func close(_ desk: Desk, budget: Int) throws {
    _ = try desk.engine.closeScope(name(0).span, generation: nil, at: desk.now)
    var before = desk.engine.entityCount
    var isFinished = false
    while !isFinished {
      isFinished = desk.step(budget)
      let after = desk.engine.entityCount
      #expect(before - after <= budget)
      before = after
    }
    desk.expectEmpty()
  }

  @Test func aTree10000DeepEachScopeWithATimerClosesInBoundedStepsDepthIsLimited() throws {
    let desk = desk()
    try open(desk, 0, below: nil)
    for number in 1..<10_000 {
      try open(desk, number, below: number - 1)
      let owner = try desk.engine.scopeOwner(name(number).span, at: desk.now)
      try desk.set("\(number)", 60_000, owner: owner)
    }
    #expect(throws: EngineError.limit(name: "max-scope-depth", value: 10_000)) {
      try open(desk, 10_000, below: 9_999)
    }
    #expect(desk.engine.entityCount == 19_999)
    // The event passes all scopes, from the top down and back up.
    let taken = try desk.engine.emit([1], payload: nil, for: name(9_999).span, at: desk.now) { _ in
      true
    }
    #expect(taken == nil)
    try close(desk, budget: 500)
  }

  @Test func aTree100000WideClosesInBoundedStepsWidthIsLimited() throws {
    let desk = desk()
    try open(desk, 0, below: nil)
    let count = 100_000
    for number in 1...count { try open(desk, number, below: 0) }
    #expect(throws: EngineError.limit(name: "max-scope-children", value: 100_000)) {
      try open(desk, count + 1, below: 0)
    }
    try close(desk, budget: 500)
  }

  @Test func whenManyLeasesExpireAtOneMomentNoStepLooksAtAllOfThem() throws {
    let desk = desk()
    for number in 0..<20_000 { try desk.open("\(number)", ttl: 1_000) }
    desk.unnoticed(at: 1_000)
    var before = desk.engine.entityCount
    while !desk.step(100) {
      #expect(before - desk.engine.entityCount <= 100)
      before = desk.engine.entityCount
    }
    desk.expectEmpty()
  }

  @Test func aDeepTreeOfAClosedConnectionIsClosedFromTheBottom() throws {
    let desk = desk()
    desk.connect(2)
    try desk.open("0", owner: .connection(2), by: 2)
    for number in 1..<5_000 {
      try desk.open("\(number)", below: "\(number - 1)", owner: .connection(2), by: 2)
    }
    desk.disconnect(2)
    #expect(desk.scope("4999") == nil)
    desk.advance()
    desk.expectEmpty()
  }

  @Test func treePagesThroughATreeAndReportsWhenItCannotContinue() throws {
    let desk = desk()
    try desk.open("top")
    for index in 0..<3 {
      try desk.open("a\(index)", below: "top")
      for inner in 0..<3 { try desk.open("a\(index)b\(inner)", below: "a\(index)") }
    }
    func page(_ cursor: Int64) throws -> (cursor: Int64, names: [String]) {
      let page = try desk.with("top") {
        try desk.engine.scopeTree($0, cursor: cursor, limit: 5, at: desk.now)
      }
      return (page.cursor, page.views.map { String(decoding: $0.key, as: UTF8.self) })
    }
    var (cursor, names) = try page(0)
    #expect(names == ["top", "a0", "a0b0", "a0b1", "a0b2"])
    let second = cursor
    (cursor, names) = try page(cursor)
    #expect(names == ["a1", "a1b0", "a1b1", "a1b2", "a2"])
    (cursor, names) = try page(cursor)
    #expect(names == ["a2b0", "a2b1", "a2b2"])
    #expect(cursor == 0)
    try desk.close("a1")
    #expect(throws: EngineError.scope(.cursorIsGone)) { try page(second) }
    #expect(try page(0).names == ["top", "a0", "a0b0", "a0b1", "a0b2"])
  }
}
