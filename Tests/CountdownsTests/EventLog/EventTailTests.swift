import Testing

@testable import Countdowns

@Suite struct EventTailTests {
  /// `key name` of each.
  private func read(
    _ tail: EventTail, after sequence: Int64, newest: Int64, limit: Int = 1_000, most: Int = 1_000,
    kind: EntityKind? = nil, hasRoom: (Int) -> Bool = { _ in true }
  ) -> (events: [String], reading: EventTail.Reading) {
    var events: [String] = []
    let reading = tail.read(
      after: sequence, newest: newest, limit: limit, budget: most,
      where: { found, _, _ in kind.map { $0 == found } ?? true },
      { event in
        switch event.subject {
        case .countdown(let view):
          events.append("\(String(decoding: view.key, as: UTF8.self)) \(event.name)")
        case .timer(let view):
          events.append("\(String(decoding: view.key, as: UTF8.self)) \(event.name)")
        case .guarded(let view):
          events.append("\(String(decoding: view.key, as: UTF8.self)) \(event.name)")
        case .hud, .scope, .emission, .nav, .page, .nothing: events.append("?")
        }
        return hasRoom(events.count)
      })
    return (events, reading)
  }

  private func read(_ desk: Desk, after sequence: Int64, limit: Int = 1_000) -> [String] {
    read(
      desk.engine.eventTail, after: sequence, newest: desk.engine.lastSequence, limit: limit
    ).events
  }

  private func handOver(_ desk: Desk) throws -> EventTail.Portion {
    let portion = desk.engine.eventTail.takeUnstored()
    return try #require(portion)
  }

  private func count(_ desk: Desk) -> Int? { desk.engine.eventTail.takeUnstored()?.count }

  @Test func whatNobodyWatchedIsThere() throws {
    let desk = Desk()
    try desk.start("a", count: 2)
    desk.at(5_000)
    try desk.start("b", owner: .connection(1))
    #expect(read(desk, after: 0) == ["a started", "a ready"])
    let all = read(desk.engine.eventTail, after: 0, newest: desk.engine.lastSequence)
    #expect(all.reading.isComplete && !all.reading.hasMore)
    #expect(all.reading.lastSequence == desk.engine.lastSequence)
    #expect(read(desk, after: all.reading.lastSequence) == [])
  }

  @Test func aPageEndsWhereItsMatchingTookTooMuch() throws {
    let desk = Desk()
    for index in 0..<10 { try desk.start("\(index)") }
    var pages: [Int] = []
    var sequence: Int64 = 0
    while pages.count < 100 {
      var count = 0
      let reading = desk.engine.eventTail.read(
        after: sequence, newest: desk.engine.lastSequence, limit: 100, budget: 30,
        where: { _, _, budget in
          budget -= 9
          return true
        },
        { _ in
          count += 1
          return true
        })
      pages.append(count)
      sequence = reading.lastSequence
      guard reading.hasMore else { break }
    }
    #expect(pages == [3, 3, 3, 1])
  }

  /// What is read is what subscribers were told, field by field, but for those that no event shows.
  @Test func eventsAreAsTheyWerePublished() throws {
    let desk = Desk()
    desk.subscribe(1, pattern: "*")
    try desk.start("a", count: 3, meta: "m\u{0}é", title: "%d left")
    desk.at(1_500)
    _ = try desk.with("a") { try desk.engine.pauseCountdown($0, generation: nil, at: desk.now) }
    _ = try desk.with("a") { try desk.engine.resumeCountdown($0, generation: nil, at: desk.now) }
    desk.at(10_000)
    _ = try desk.with("a") { try desk.engine.cancelCountdown($0, generation: nil, at: desk.now) }
    var read: [Event] = []
    _ = desk.engine.eventTail.read(
      after: 0, newest: desk.engine.lastSequence, limit: 100, where: { _, _, _ in true },
      {
        read.append($0)
        return true
      })
    let published = (desk.events[1] ?? []).filter { $0.name.tellsOfChange }
    #expect(read.map(\.name) == [.started, .paused, .resumed, .ready, .cancelled])
    #expect(read.map(\.sequence) == published.map(\.sequence))
    for (kept, told) in zip(read, published) {
      #expect(kept.generation == told.generation)
      #expect(kept.dueUnixMS == told.dueUnixMS)
      #expect(kept.lateMicroseconds == told.lateMicroseconds)
      #expect(kept.reason == told.reason)
      guard case .countdown(let kept) = kept.subject, case .countdown(let told) = told.subject
      else {
        Issue.record("no countdown")
        continue
      }
      #expect(kept.state == told.state && kept.remaining == told.remaining)
      #expect(kept.remainingMS == told.remainingMS && kept.title == told.title)
      #expect(kept.deadlineUnixMS == told.deadlineUnixMS && kept.nowUnixMS == told.nowUnixMS)
    }
    guard case .countdown(let view) = read[0].subject else { return }
    #expect(view.meta == Array("m\u{0}é".utf8) && view.count == 3 && view.everyMS == 1_000)
  }

  @Test func theOldestGoFirstAndThatIsSaid() throws {
    var settings = EngineSettings()
    settings.eventsKept = 10
    let desk = Desk(settings)
    for n in 1...25 { try desk.start("k\(n)") }
    let newest = desk.engine.lastSequence
    let all = read(desk.engine.eventTail, after: 0, newest: newest)
    #expect(!all.reading.isComplete)
    #expect(all.events.count >= 10 && all.events.count < 20)
    #expect(all.events.last == "k25 started")
    #expect(read(desk.engine.eventTail, after: newest - 10, newest: newest).reading.isComplete)
    #expect(
      !read(desk.engine.eventTail, after: newest + 1, newest: newest).reading.isComplete,
      "from the future")
  }

  @Test func pageByPageNothingIsLostOrTwice() throws {
    let desk = Desk()
    for n in 0..<3_000 { try desk.start("k\(n)") }
    var keys: [String] = []
    var position: Int64 = 0
    while true {
      let page = read(
        desk.engine.eventTail, after: position, newest: desk.engine.lastSequence, limit: 7,
        most: 5)
      keys += page.events
      position = page.reading.lastSequence
      if !page.reading.hasMore { break }
    }
    #expect(keys == (0..<3_000).map { "k\($0) started" })
    #expect(position == desk.engine.lastSequence)
    // What does not match is passed over, and still bounded.
    let none = read(
      desk.engine.eventTail, after: 0, newest: desk.engine.lastSequence, most: 5, kind: .timer)
    #expect(none.events == [] && none.reading.hasMore && none.reading.lastSequence == 5)
  }

  @Test func aPageEndsWhereThereIsNoMoreRoom() throws {
    let desk = Desk()
    for n in 1...5 { try desk.start("k\(n)") }
    let tail = desk.engine.eventTail
    let newest = desk.engine.lastSequence
    let first = read(tail, after: 0, newest: newest, hasRoom: { $0 < 3 })
    #expect(first.events == ["k1 started", "k2 started", "k3 started"])
    #expect(first.reading.isComplete && first.reading.hasMore && first.reading.lastSequence == 3)
    let second = read(tail, after: 3, newest: newest, hasRoom: { $0 < 2 })
    #expect(second.events == ["k4 started", "k5 started"])
    #expect(!second.reading.hasMore && second.reading.lastSequence == newest)
  }

  @Test func withoutATailNothingIsKnown() throws {
    var settings = EngineSettings()
    settings.eventsKept = 0
    let desk = Desk(settings)
    try desk.start("a")
    let tail = desk.engine.eventTail
    #expect(read(tail, after: 0, newest: 1).reading.isComplete == false)
    #expect(read(tail, after: 1, newest: 1).reading.isComplete)
    #expect(!tail.hasUnstored && tail.count == 0)
  }

  // MARK: With a store

  @Test func eachIsHandedOverOnce() throws {
    let desk = Desk()
    try desk.start("a")
    try desk.start("b")
    let first = try handOver(desk)
    #expect(first.count == 2 && first.lastSequence == desk.engine.lastSequence)
    #expect(count(desk) == nil)
    try desk.start("c")
    #expect(count(desk) == 1)
    #expect(read(desk, after: 0).count == 3)
  }

  @Test func whatCouldNotBeStoredIsTriedAgainWithTheNext() throws {
    let desk = Desk()
    try desk.start("a")
    let first = try handOver(desk)
    try desk.start("b")
    let second = try handOver(desk)
    desk.engine.eventTail.keepForLater(first.lastSequence)
    desk.engine.eventTail.keepForLater(second.lastSequence)
    #expect(desk.engine.eventTail.hasUnstored)
    try desk.start("c")
    let again = try handOver(desk)
    #expect(again.count == 3 && again.lastSequence == desk.engine.lastSequence)
    var restored = EventTail(limit: 10, after: 0)
    restored.restore(again.bytes, after: 0, through: again.lastSequence)
    #expect(
      read(restored, after: 0, newest: again.lastSequence).events == [
        "a started", "b started", "c started",
      ])
  }

  @Test func aLargeTurnIsTriedAgainAsAWhole() throws {
    let desk = Desk()
    try desk.start("a")
    _ = try handOver(desk)
    for n in 0..<5_000 { try desk.start("k\(n)") }
    let portion = try handOver(desk)
    #expect(portion.count == 5_000)
    for _ in 0..<2 {
      desk.engine.eventTail.keepForLater(portion.lastSequence)
      let again = try handOver(desk)
      #expect(again == portion)
      #expect(count(desk) == nil)
    }
    desk.engine.eventTail.takeBack(portion.lastSequence)
    #expect(read(desk, after: 0) == ["a started"] && desk.engine.eventTail.count == 1)
  }

  @Test func whereTheTailBeginsIsKept() throws {
    let desk = Desk()
    try desk.start("a")
    let portion = try handOver(desk)
    var tail = EventTail(limit: 10, after: 1_000)
    // The first row of a new tail is empty.
    tail.restore([], after: 40, through: 40)
    #expect(read(tail, after: 40, newest: 1_000).reading.isComplete)
    #expect(!read(tail, after: 39, newest: 1_000).reading.isComplete)
    tail.restore(portion.bytes, after: 40, through: 41)
    #expect(read(tail, after: 40, newest: 1_000).reading.isComplete)
    #expect(!read(tail, after: 39, newest: 1_000).reading.isComplete)
    #expect(tail.count == 1 && read(tail, after: 0, newest: 1_000).events == ["a started"])
  }

  @Test func whatIsTakenBackIsGone() throws {
    let desk = Desk()
    try desk.start("a")
    _ = desk.engine.eventTail.takeUnstored()
    try desk.start("b")
    let second = try handOver(desk)
    try desk.start("c")
    let third = try handOver(desk)
    try desk.start("d")
    desk.engine.eventTail.takeBack(second.lastSequence)
    #expect(read(desk, after: 0) == ["a started", "c started", "d started"])
    desk.engine.eventTail.takeBack(third.lastSequence)
    #expect(read(desk, after: 0) == ["a started", "d started"])
    #expect(desk.engine.eventTail.count == 2)
    #expect(count(desk) == 1)
  }

  @Test func isRestoredFromPortions() throws {
    let desk = Desk()
    var portions: [EventTail.Portion] = []
    for n in 0..<10 {
      try desk.start("k\(n)")
      portions.append(try handOver(desk))
    }
    var tail = EventTail(limit: 4, after: 1_000)
    var last: Int64 = 0
    for portion in portions {
      tail.restore(portion.bytes, after: last, through: portion.lastSequence)
      last = portion.lastSequence
    }
    #expect(tail.count == 4 && !tail.hasUnstored)
    #expect(
      read(tail, after: 6, newest: 1_000).events == (6..<10).map { "k\($0) started" })
    #expect(read(tail, after: 6, newest: 1_000).reading.isComplete)
    #expect(!read(tail, after: 5, newest: 1_000).reading.isComplete)
    // Of a later version: what is before it cannot be known to be all.
    let isRead = tail.restore([2] + portions[9].bytes.dropFirst(), after: 10, through: 20)
    #expect(!isRead)
    #expect(tail.count == 0)
    #expect(!read(tail, after: 19, newest: 1_000).reading.isComplete)
    #expect(read(tail, after: 20, newest: 1_000).reading.isComplete)
  }

  /// Source of the expected bytes: DWARF 5, section 7.6.
  @Test func integersAreLEB128() {
    func written(_ value: Int64, room: Int) -> [UInt8] {
      withUnsafeTemporaryAllocation(byteCount: room, alignment: 8) { memory in
        memory.initializeMemory(as: UInt8.self, repeating: 0xaa)
        var writer = EventCoding.Writer(memory)
        writer.unsigned(value)
        return Array(memory[..<writer.count])
      }
    }
    #expect(written(2, room: 16) == [2])
    #expect(written(127, room: 16) == [127])
    #expect(written(128, room: 16) == [0x80, 1])
    #expect(written(12_857, room: 16) == [57 + 0x80, 100])
    // Each number of bits, where the next byte begins, and without a byte of room to spare.
    for bits in 0...64 {
      let top: UInt64 = bits == 64 ? .max : 1 << UInt64(bits)
      for value in [top &- 1, top, top | 0x2a_aaaa_aaaa_aaaa & (top &- 1)] {
        let signed = Int64(bitPattern: value)
        let bytes = written(signed, room: 16)
        #expect(written(signed, room: bytes.count) == bytes)
        var rest = value
        for byte in bytes.dropLast() {
          #expect(byte == UInt8(rest & 0x7f) | 0x80)
          rest >>= 7
        }
        #expect(bytes.last == UInt8(rest) && (bytes.count == 1 || rest > 0))
        let read = bytes.withUnsafeBytes {
          var reader = EventCoding.Reader(bytes: $0)
          return reader.unsigned()
        }
        #expect(read == signed)
      }
    }
  }

  // MARK: Bytes

  @Test("A number that was ever written keeps its meaning; new ones come at the end")
  func codes() {
    func texts<Code: StoredCode & StaticStringRepresentable>(_: Code.Type) -> [String] {
      Code.byStoredCode().map { $0.text.description }
    }
    #expect(
      texts(Event.Name.self) == [
        "started", "ready", "paused", "resumed", "retimed", "cancelled", "refunded", "expired",
        "locked", "passed", "set", "fired", "done", "pending", "run", "dismissed", "opened",
        "closed", "will-appear", "did-appear", "updated", "will-disappear", "did-disappear",
      ])
    #expect(
      texts(Event.Reason.self) == [
        "cooldown", "window", "exhausted", "duplicate", "cancelled", "owner-gone", "replaced",
        "expired", "locked", "passed", "leading", "quiet", "max-wait", "flush",
      ])
    #expect(
      CountdownView.State.byStoredCode().map(\.rawValue) == ["counting", "paused", "ready", "idle"])
    #expect(
      EntityKind.allCases.map { "\($0.rawValue) \($0.name)" } == [
        "0 countdown", "1 hud", "2 timer", "3 scope", "4 throttle", "5 once", "6 gate",
        "7 debounce", "8 nav", "9 page",
      ])
  }

  @Test("What is written outlives the program: it is never another way without another version")
  func writtenBytes() throws {
    let desk = Desk()
    try desk.start("a", count: 2, meta: "m", title: "%ds")
    let written: [UInt8] = [
      1, 32, 0, 0, 0, 1, 0, 2, 97, 0, 0, 128, 216, 193, 162, 140, 52, 0, 0, 0, 0, 2, 208, 15, 1,
      160, 31, 3, 50, 115, 1, 2, 232, 7, 2, 109, 0,
    ]
    #expect(try handOver(desk).bytes == written)
    var tail = EventTail(limit: 10, after: 0)
    tail.restore(written, after: 0, through: 1)
    #expect(read(tail, after: 0, newest: 1).events == ["a started"])
  }

  @Test func bytesThatMakeNoSenseAreRefused() throws {
    let desk = Desk()
    try desk.start("a", meta: "m")
    let bytes = try handOver(desk).bytes
    for length in 1..<bytes.count where length > 1 {
      #expect(EventCoding.count(Array(bytes.prefix(length))) == nil, "\(length)")
    }
    var generator = SeededGenerator(seed: 7)
    for _ in 0..<20_000 {
      var bad = bytes
      bad[Int.random(in: 1..<bad.count, using: &generator)] = .random(
        in: 0...255, using: &generator)
      // Whatever comes of it, it ends.
      _ = EventCoding.forEach(bad) { record in
        _ = record.event()
        return true
      }
    }
  }

  @Test func whatDoesNotFollowOnWhatIsThereIsAGapButNothingIsThrownAway() throws {
    let desk = Desk()
    try desk.start("a")
    let first = try handOver(desk)
    try desk.start("b")
    _ = try handOver(desk)
    try desk.cancel("a")
    let second = try handOver(desk)
    var tail = EventTail(limit: 10, after: 0)
    tail.restore(first.bytes, after: 0, through: first.lastSequence)
    let last = second.lastSequence + 10
    // Numbers up to the second's were given out by somebody else.
    tail.restore([], after: second.lastSequence - 1, through: second.lastSequence - 1)
    tail.restore(second.bytes, after: second.lastSequence - 1, through: second.lastSequence)
    let all = read(tail, after: 0, newest: last)
    #expect(all.events == ["a started", "a cancelled"] && !all.reading.isComplete)
    #expect(!read(tail, after: second.lastSequence - 2, newest: last).reading.isComplete)
    let since = read(tail, after: second.lastSequence - 1, newest: last)
    #expect(since.events == ["a cancelled"] && since.reading.isComplete)
  }
}
