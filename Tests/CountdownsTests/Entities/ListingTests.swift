import Countdowns
import SeededRandom
import Simulation
import Testing

/// LIST shows each entity that exists from the first page to the last on exactly one page.
@Suite struct ListingTests {
  /// A listing under way.
  private struct Listing {
    var query: ListQuery
    /// Matching entities that have existed since the first page: the generation of each key.
    var expected: [String: Int64]
    var seen: [String: [Int64]] = [:]

    mutating func take(_ page: (cursor: Int, views: [any EntityView])) {
      for view in page.views {
        seen[String(decoding: view.key, as: UTF8.self), default: []].append(view.generation.value)
      }
      query.cursor = page.cursor
    }
  }

  @Test(
    arguments: EntityKind.allCases,
    0..<12)
  func listIsCompleteAndWithoutDuplicatesWhileEntitiesComeAndGo(kind: EntityKind, seed: UInt64)
    throws
  {
    var generator = SeededGenerator(seed: seed)
    let desk = Desk()
    desk.connect(2)
    /// The generation of each key, and whether connection 2 owns the entity.
    var there: [String: (generation: Int64, owned: Bool)] = [:]
    let keyCount = [4, 40, 400][Int(seed % 3)]

    func end(_ key: String) throws {
      switch kind {
      case .countdown: try desk.cancel(key)
      case .hud: try desk.dismiss(key)
      case .timer: try desk.delete(key)
      case .throttle: try desk.refund(throttle: key)
      case .once: try desk.cancel(once: key)
      case .gate: try desk.cancel(gate: key)
      case .debounce: try desk.cancel(debounce: key)
      case .scope: try desk.close(key)
      case .nav: try desk.dismissed(key)
      case .page: try desk.closePage(key)
      }
      there[key] = nil
    }

    func churn(_ times: Int) throws {
      for _ in 0..<times {
        let key = "\(Int.random(in: 0..<keyCount, using: &generator))"
        let owned = Bool.random(using: &generator)
        let owner = owned ? Owner.connection(2) : .none
        if there[key] == nil {
          let generation =
            switch kind {
            case .countdown: try desk.start(key, owner: owner).view.generation
            case .hud: try desk.show(key, owner: owner).generation
            case .timer: try desk.set(key, 60_000, owner: owner).generation
            case .throttle: try desk.take(key, 1, 1, per: 60_000).view.generation
            case .once: try desk.begin(key, owner: owner).view.generation
            case .gate: try desk.check(key, "a", owner: owner).view.generation
            case .debounce: try desk.call(key, quiet: 60_000, owner: owner).generation
            case .scope: try desk.open(key, owner: owner).generation
            case .nav: try desk.pushed(key, owner: owner)
            case .page: try desk.appear(key, owner: owner).generation
            }
          there[key] = (generation.value, owned && kind != .throttle)
        } else {
          try end(key)
        }
      }
      // Now and then at most one entity is left; an empty table starts over.
      if Int.random(in: 0..<12, using: &generator) == 0 {
        for key in there.keys.sorted().dropFirst(Int.random(in: 0...1, using: &generator)) {
          try end(key)
        }
      }
    }

    for round in 0..<12 {
      try churn(keyCount * 2)
      var query = ListQuery()
      query.limit = Int.random(in: 1...5, using: &generator)
      if round % 3 == 1 { query.pattern = Array("*1*".utf8) }
      if round % 4 == 2, kind != .nav { query.owner = .connection(2) }
      let matching = there.filter { key, entity in
        (query.pattern == nil || key.contains("1")) && (query.owner == nil || entity.owned)
      }
      var listing = Listing(query: query, expected: matching.mapValues(\.generation))
      repeat {
        listing.take(desk.engine.list(kind, listing.query, at: desk.now))
        if listing.query.cursor != 0 {
          try churn(Int.random(in: 0...6, using: &generator))
          listing.expected = listing.expected.filter { there[$0.key]?.generation == $0.value }
        }
      } while listing.query.cursor != 0
      for (key, generation) in listing.expected {
        #expect(listing.seen[key]?.filter { $0 == generation }.count == 1, "\(key), seed \(seed)")
      }
      for (key, generations) in listing.seen {
        #expect(Set(generations).count == generations.count, "\(key) twice, seed \(seed)")
      }
    }
  }

  /// Pages end at 1 MiB; the last view may be beyond.
  @Test(arguments: [["ONCE", "LIST"], ["SCOPE", "TREE", "TOP"], ["HUD", "LIST"]])
  func aPageEndsAtItsBytesAndTheCursorContinues(_ list: [String]) throws {
    let counter = DispatcherHarness()
    let top = String(repeating: "t", count: 500)
    func run(_ words: String...) -> [UInt8] {
      counter.run(words)
      return counter.session.takeOutput()
    }
    _ = run("SCOPE", "OPEN", top)
    for number in 0..<1_500 { _ = run("SCOPE", "OPEN", "\(top)\(number)", "PARENT", top) }
    for number in 0..<40 {
      _ = run("ONCE", "BEGIN", "o\(number)", "TTL", "1h")
      _ = run("ONCE", "DONE", "o\(number)", String(repeating: "r", count: 64_000))
      let text = String(repeating: "s", count: 4_000)
      for _ in 0..<8 { _ = run("HUD", "SHOW", "s\(number)", "STATUS", text) }
    }
    var (cursor, pages) = ("0", 0)
    var keys: [String] = []
    repeat {
      let words = list.map { $0 == "TOP" ? top : $0 } + ["LIMIT", "1000", "CURSOR", cursor]
      counter.run(words)
      let bytes = counter.session.takeOutput()
      #expect(bytes.count < 1 << 20 + 1 << 17)
      let page = try #require(Reply.all(bytes).first).elements
      cursor = page[0].text
      keys += page[1].elements.map { $0["key"]!.text }
      pages += 1
    } while cursor != "0"
    let expected = list[0] == "SCOPE" ? 1_501 : 40
    #expect(pages > 1 && keys.count == expected && Set(keys).count == expected)
  }

  @Test func aTimerThatIsSetAgainBetweenTwoPagesIsOnOneOfThemEvenTheLast() throws {
    let desk = Desk()
    for key in ["a", "b", "c"] { try desk.set(key, 60_000) }
    var query = ListQuery()
    query.limit = 1
    query.cursor = desk.engine.list(.timer, query, at: desk.now).cursor
    try desk.delete("a")
    try desk.delete("b")
    try desk.set("c", 30_000)
    var keys: [[UInt8]] = []
    repeat {
      let page = desk.engine.list(.timer, query, at: desk.now)
      keys += page.views.map(\.key)
      query.cursor = page.cursor
    } while query.cursor != 0
    #expect(keys == [Array("c".utf8)])
  }

  @Test(arguments: 0..<20)
  func snapshotsOfAPatternAreCompleteAndWithoutDuplicatesWhileEntitiesComeAndGo(seed: UInt64) throws
  {
    var generator = SeededGenerator(seed: seed)
    let desk = Desk()
    var there: [String: Int64] = [:]
    func churn() throws {
      let key = "\(Int.random(in: 0..<30, using: &generator))"
      if there[key] != nil, Bool.random(using: &generator) {
        try desk.delete(key)
        there[key] = nil
      } else {
        // Often replaces an existing timer.
        there[key] = try desk.set(key, 60_000).generation.value
      }
      if Int.random(in: 0..<20, using: &generator) == 0 {
        for key in there.keys.sorted().dropFirst() {
          try desk.delete(key)
          there[key] = nil
        }
      }
    }
    for _ in 0..<20 {
      for _ in 0..<40 { try churn() }
      var expected = there
      _ = desk.takeEvents(1)
      desk.subscribe(1, pattern: "timer:*", walk: false)
      while !desk.engine.connectionsAwaitingSnapshots.isEmpty {
        desk.continueSnapshots(1, budget: Int.random(in: 1...5, using: &generator))
        try churn()
        expected = expected.filter { there[$0.key] == $0.value }
      }
      let seen = desk.takeEvents(1).filter { $0.name == .snapshot }.map(\.generation.value)
      #expect(Set(seen).count == seen.count)
      #expect(Set(expected.values).isSubset(of: seen))
      _ = desk.engine.unsubscribe(1, fromPattern: Array("timer:*".utf8))
    }
  }

  @Test func aPageLooksAtABoundedNumberOfEntitiesACursorBeyondTheEndEndsTheListing() throws {
    let desk = Desk()
    for index in 0..<100 { try desk.set("\(index)", 60_000) }
    var query = ListQuery()
    query.limit = 2
    query.pattern = Array("99".utf8)
    var pages = 0
    var found = 0
    repeat {
      let page = desk.engine.list(.timer, query, at: desk.now)
      #expect(page.cursor == 0 || page.cursor - query.cursor <= 20)
      found += page.views.count
      query.cursor = page.cursor
      pages += 1
    } while query.cursor != 0
    #expect(found == 1)
    #expect(pages == 5)
    query.cursor = .max
    #expect(desk.engine.list(.timer, query, at: desk.now).cursor == 0)
  }

  @Test func entitiesThatFallDueDuringAListingAreNotListedAndAnEmptiedTableEndsIt() throws {
    let desk = Desk()
    for index in 0..<10 { try desk.set("\(index)", 1_000) }
    var query = ListQuery()
    query.limit = 3
    query.cursor = desk.engine.list(.timer, query, at: desk.now).cursor
    #expect(query.cursor == 3)
    desk.unnoticed(at: 1_000)
    let page = desk.engine.list(.timer, query, at: desk.now)
    #expect(page.views.isEmpty)
    #expect(page.cursor == 0)
  }
}
