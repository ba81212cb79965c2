import SeededRandom
import Testing

@testable import Countdowns

@Suite struct EventLogTests {
  /// Returns each event as `key name`, and the result of `EventLog.read`.
  private func read(
    _ log: EventLog, after sequence: Int64, newest: Int64, limit: Int = 1_000, maximum: Int = 1_000,
    kind: EntityKind? = nil, hasRoom: (Int) -> Bool = { _ in true }
  ) -> (events: [String], reading: EventLog.Reading) {
    var events: [String] = []
    let reading = log.read(
      after: sequence, newest: newest, limit: limit, budget: maximum,
      where: { found, _, _ in kind.map { $0 == found } ?? true },
      { event in
        let line = event.encoded().map { String(decoding: $0, as: UTF8.self) } ?? "?"
        let name = line.split(separator: "\"")[3]
        events.append("\(String(decoding: event.key, as: UTF8.self)) \(name)")
        return hasRoom(events.count)
      })
    return (events, reading)
  }

  private func read(_ desk: Desk, after sequence: Int64, limit: Int = 1_000) -> [String] {
    read(
      desk.engine.eventLog, after: sequence, newest: desk.engine.lastSequence, limit: limit
    ).events
  }

  private func handOver(_ desk: Desk) throws -> EventLog.Portion {
    let portions = desk.engine.eventLog.takeUnstored().portions
    #expect(portions.count == 1)
    return try #require(portions.first)
  }

  private func count(_ desk: Desk) -> Int? {
    desk.engine.eventLog.takeUnstored().portions.first?.count
  }

  @Test func whatCouldNotBeStoredForLongIsStoredInPortionsOfAFewBytes() throws {
    let desk = Desk()
    for index in 0..<10_000 { try desk.start("\(index)") }
    let all = read(desk, after: 0, limit: .max)
    let maximum = 150_000
    let portions = desk.engine.eventLog.takeUnstored(atMost: maximum).portions
    #expect(portions.count > 3 && portions.allSatisfy { $0.bytes.count <= maximum })
    #expect(!desk.engine.eventLog.hasUnstored)
    var (log, last) = (EventLog(limit: 100_000, after: 0), Int64(0))
    for portion in portions {
      let isRestored = log.restore(portion.bytes, after: last, through: portion.lastSequence)
      #expect(isRestored)
      last = portion.lastSequence
    }
    let restored = read(log, after: 0, newest: desk.engine.lastSequence, limit: .max)
    #expect(restored.events == all && restored.reading.isComplete)
  }

  @Test func eventsThatAreTooManyForABatchAreMissingInTheStoreOnly() throws {
    let desk = Desk()
    for index in 0..<10_000 { try desk.start("\(index)") }
    let taken = desk.engine.eventLog.takeUnstored(atMost: 100_000, inAll: 200_000)
    #expect(taken.portions.reduce(0) { $0 + $1.bytes.count } <= 200_000)
    let count = taken.portions.reduce(0) { $0 + $1.count }
    #expect((1_000..<9_000).contains(count))
    #expect(!desk.engine.eventLog.hasUnstored)
    var (log, last) = (EventLog(limit: 100_000, after: 0), taken.missingThrough)
    for portion in taken.portions {
      let isRestored = log.restore(portion.bytes, after: last, through: portion.lastSequence)
      #expect(isRestored)
      last = portion.lastSequence
    }
    let newest = desk.engine.lastSequence
    #expect(!read(log, after: 0, newest: newest).reading.isComplete)
    let restored = read(log, after: taken.missingThrough, newest: newest)
    #expect(restored.events == read(desk, after: taken.missingThrough))
    #expect(!restored.events.isEmpty && restored.reading.isComplete)
    // What was not taken can still be read.
    #expect(read(desk.engine.eventLog, after: 0, newest: newest).reading.isComplete)
  }

  @Test func unwatchedEventsAreLogged() throws {
    let desk = Desk()
    try desk.start("a", count: 2)
    desk.at(5_000)
    try desk.start("b", owner: .connection(1))
    #expect(read(desk, after: 0) == ["a started", "a ready"])
    try desk.set("t", 60_000, owner: .connection(1))
    desk.disconnect(1)
    desk.at(5_000)
    // The owner's entities end in any order.
    #expect(read(desk, after: 0).prefix(2) == ["a started", "a ready"])
    #expect(Set(read(desk, after: 0).dropFirst(2)) == ["b cancelled", "t cancelled"])
    let all = read(desk.engine.eventLog, after: 0, newest: desk.engine.lastSequence)
    #expect(all.reading.isComplete && !all.reading.hasMore)
    #expect(all.reading.lastSequence == desk.engine.lastSequence)
    #expect(read(desk, after: all.reading.lastSequence) == [])
  }

  @Test func endsOfOwnedEntitiesTakeAtMostAQuarterAndTheOthersAreKnownToBeMissing() throws {
    var settings = EngineSettings()
    settings.eventsKept = 100
    let desk = Desk(settings)
    for index in 0..<50 { try desk.start("\(index)") }
    for index in 0..<200 { try desk.set("t\(index)", 60_000, owner: .connection(1)) }
    let before = desk.engine.lastSequence
    desk.disconnect(1)
    while desk.engine.entityCount > 50 { desk.advance() }
    let all = read(desk.engine.eventLog, after: 0, newest: desk.engine.lastSequence)
    #expect(all.events.count { $0.hasSuffix("started") } == 50)
    #expect(all.events.count { $0.hasSuffix("cancelled") } == 25)
    #expect(!all.reading.isComplete)
    // A store knows the gap, also if nothing follows it.
    #expect(desk.engine.hasChanges)
    let portion = try handOver(desk)
    let found = desk.engine.eventLog.takeUnstoredGap()
    let gap = try #require(found)
    #expect(!desk.engine.eventLog.hasUnstored)
    var log = EventLog(limit: 100, after: 0)
    log.restore(portion.bytes, after: 0, through: portion.lastSequence)
    log.restore(gap.bytes, after: gap.lastSequence, through: gap.lastSequence)
    #expect(log.droppedThrough == desk.engine.lastSequence && log.droppedThrough > before)
    // Other events make room again.
    desk.connect(2)
    for index in 0..<90 { try desk.start("more \(index)") }
    try desk.set("t", 60_000, owner: .connection(2))
    desk.disconnect(2)
    while desk.engine.entityCount > 140 { desk.advance() }
    #expect(read(desk, after: 0).last == "t cancelled")
  }

  @Test func aPageEndsWhenMatchingTakesTooLong() throws {
    let desk = Desk()
    for index in 0..<10 { try desk.start("\(index)") }
    var pages: [Int] = []
    var sequence: Int64 = 0
    while pages.count < 100 {
      var count = 0
      let reading = desk.engine.eventLog.read(
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

  private func lines(_ desk: Desk) -> [String] {
    var lines: [String] = []
    _ = desk.engine.eventLog.read(
      after: 0, newest: desk.engine.lastSequence, limit: 100, where: { _, _, _ in true },
      {
        lines.append($0.encoded().map { String(decoding: $0, as: UTF8.self) } ?? "?")
        return true
      })
    return lines
  }

  @Test func theLogHasTheLinesThatSubscribersReceived() throws {
    let desk = Desk()
    desk.subscribe(1, pattern: "*")
    try desk.start("a", count: 3, meta: "m\u{0}é\"", title: "%d left")
    desk.at(1_500)
    _ = try desk.with("a") { try desk.engine.pauseCountdown($0, generation: nil, at: desk.now) }
    _ = try desk.with("a") { try desk.engine.resumeCountdown($0, generation: nil, at: desk.now) }
    desk.at(10_000)
    _ = try desk.with("a") { try desk.engine.cancelCountdown($0, generation: nil, at: desk.now) }
    try desk.begin("o")
    try desk.done("o", "r\u{7f}")
    try desk.check("g", "buy", payload: "p")
    try desk.open(gate: "g", ttl: 1_000)
    try desk.call("d", payload: "x", edges: .both, longest: 5_000)
    try desk.call("d", payload: "y")
    try desk.call("own", owner: .connection(1))
    desk.at(80_000)
    let published = (desk.events[1] ?? []).filter {
      $0.name.changesState && $0.subject.isDurable
    }
    #expect(lines(desk) == published.map { $0.head.line($0.subject, $0.key) })
    #expect(published.count == 15)
  }

  @Test(arguments: 0..<20)
  func startsThatAreCopiedInTheLogReadAsThoseThatAreWritten(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    let desks = [Desk(), Desk()]
    // With any subscription, the engine encodes each event and copies none.
    desks[1].subscribe(1, "countdown:nobody's")
    var time: Int64 = 0
    for _ in 0..<60 {
      let name = "\(Int.random(in: 0..<20, using: &generator))"
      let count = UInt32.random(in: 1...2, using: &generator)
      let sends = Int.random(in: 0..<4, using: &generator)
      if Bool.random(using: &generator) { time += Int64.random(in: 0..<1_500, using: &generator) }
      for desk in desks {
        desk.at(time)
        for index in 0...sends { try desk.start("\(name) \(index)", count: count) }
      }
    }
    #expect(lines(desks[0]).count > 60)
    #expect(lines(desks[0]) == lines(desks[1]))
  }

  @Test func nonUTF8TextAndWordsWithoutACodeAreLogged() throws {
    struct View: EntityView {
      let key: [UInt8] = [0xFF, 0x22]
      let kind = EntityKind.timer
      let generation = Generation(-5)
      let nowUnixMS: Int64 = 0
      let isDurable = true
      static var blank: View { View() }
      func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {}
      func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
        writer.field("a_field_of_tests", Int64.min)
        writer.field("state", "a word of tests" as StaticString)
        writer.field("fraction", 0.25)
        writer.field("payload", bytes: [0xFF])
        writer.field("pages", list: [[0x61], [0xFE]])
        writer.field("paused", true)
        writer.field("leading", false)
        writer.field("end", nil as String?)
      }
    }
    let desk = Desk()
    desk.engine.publish(.timer, View().key, Event.Head(.ready, View().generation), isLogged: true) {
      View()
    }
    var head = Event.Head(.ready, View().generation)
    head.sequence = desk.engine.lastSequence
    #expect(lines(desk) == [head.line(View(), View().key)])
  }

  @Test func theOldestEventsAreDroppedFirstAndThatIsReported() throws {
    var settings = EngineSettings()
    settings.eventsKept = 10
    let desk = Desk(settings)
    for n in 1...25 { try desk.start("k\(n)") }
    let newest = desk.engine.lastSequence
    let all = read(desk.engine.eventLog, after: 0, newest: newest)
    #expect(!all.reading.isComplete)
    #expect(all.events.count >= 10 && all.events.count < 20)
    #expect(all.events.last == "k25 started")
    #expect(read(desk.engine.eventLog, after: newest - 10, newest: newest).reading.isComplete)
    #expect(
      !read(desk.engine.eventLog, after: newest + 1, newest: newest).reading.isComplete,
      "from the future")
  }

  @Test func pagesHaveEachEventOnce() throws {
    let desk = Desk()
    for n in 0..<3_000 { try desk.start("k\(n)") }
    var keys: [String] = []
    var position: Int64 = 0
    while true {
      let page = read(
        desk.engine.eventLog, after: position, newest: desk.engine.lastSequence, limit: 7,
        maximum: 5)
      keys += page.events
      position = page.reading.lastSequence
      if !page.reading.hasMore { break }
    }
    #expect(keys == (0..<3_000).map { "k\($0) started" })
    #expect(position == desk.engine.lastSequence)
    // Events that do not match are skipped, but count towards the budget.
    let none = read(
      desk.engine.eventLog, after: 0, newest: desk.engine.lastSequence, maximum: 5, kind: .timer)
    #expect(none.events == [] && none.reading.hasMore && none.reading.lastSequence == 5)
  }

  @Test func aPageEndsWhereThereIsNoMoreRoom() throws {
    let desk = Desk()
    for n in 1...5 { try desk.start("k\(n)") }
    let log = desk.engine.eventLog
    let newest = desk.engine.lastSequence
    let first = read(log, after: 0, newest: newest, hasRoom: { $0 < 3 })
    #expect(first.events == ["k1 started", "k2 started", "k3 started"])
    #expect(first.reading.isComplete && first.reading.hasMore && first.reading.lastSequence == 3)
    let second = read(log, after: 3, newest: newest, hasRoom: { $0 < 2 })
    #expect(second.events == ["k4 started", "k5 started"])
    #expect(!second.reading.hasMore && second.reading.lastSequence == newest)
  }

  @Test func withoutALogNoAnswerIsComplete() throws {
    var settings = EngineSettings()
    settings.eventsKept = 0
    let desk = Desk(settings)
    try desk.start("a")
    let log = desk.engine.eventLog
    #expect(read(log, after: 0, newest: 1).reading.isComplete == false)
    #expect(read(log, after: 1, newest: 1).reading.isComplete)
    #expect(!log.hasUnstored && log.count == 0)
  }

  // MARK: With a store

  @Test func eachEventIsStoredOnce() throws {
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

  @Test func aLargeBatchIsHandedOverAsAWholeAndOnce() throws {
    let desk = Desk()
    try desk.start("a")
    _ = try handOver(desk)
    for n in 0..<5_000 { try desk.start("k\(n)") }
    #expect(try handOver(desk).count == 5_000)
    #expect(count(desk) == nil)
  }

  @Test func theBeginningOfTheLogIsRestored() throws {
    let desk = Desk()
    try desk.start("a")
    let portion = try handOver(desk)
    var log = EventLog(limit: 10, after: 1_000)
    // The first row of a new event log is empty.
    log.restore([], after: 40, through: 40)
    #expect(read(log, after: 40, newest: 1_000).reading.isComplete)
    #expect(!read(log, after: 39, newest: 1_000).reading.isComplete)
    log.restore(portion.bytes, after: 40, through: 41)
    #expect(read(log, after: 40, newest: 1_000).reading.isComplete)
    #expect(!read(log, after: 39, newest: 1_000).reading.isComplete)
    #expect(log.count == 1 && read(log, after: 0, newest: 1_000).events == ["a started"])
  }

  @Test func theLogIsRestoredFromPortions() throws {
    let desk = Desk()
    var portions: [EventLog.Portion] = []
    for n in 0..<10 {
      try desk.start("k\(n)")
      portions.append(try handOver(desk))
    }
    var log = EventLog(limit: 4, after: 1_000)
    var last: Int64 = 0
    for portion in portions {
      log.restore(portion.bytes, after: last, through: portion.lastSequence)
      last = portion.lastSequence
    }
    #expect(log.count == 4 && !log.hasUnstored)
    #expect(
      read(log, after: 6, newest: 1_000).events == (6..<10).map { "k\($0) started" })
    #expect(read(log, after: 6, newest: 1_000).reading.isComplete)
    #expect(!read(log, after: 5, newest: 1_000).reading.isComplete)
    // A portion of a later version is unreadable: all events up to its end count as missing.
    let isRead = log.restore([4] + portions[9].bytes.dropFirst(), after: 10, through: 20)
    #expect(!isRead)
    #expect(log.count == 0)
    #expect(!read(log, after: 19, newest: 1_000).reading.isComplete)
    #expect(read(log, after: 20, newest: 1_000).reading.isComplete)
  }

  // MARK: Stored bytes

  @Test func theCodesOfWordsAndKindsNeverChange() {
    let words = (1...76).map { Words.word(of: $0)?.description ?? "-" }
    #expect(words.first == "due_unix_ms" && words[42] == "leading" && words.last == "flush")
    var sum: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in words.joined(separator: " ").utf8 { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01b3 }
    #expect(sum == 14_931_367_183_311_225_835)
    #expect(
      EntityKind.allCases.map { "\($0.rawValue) \($0.name)" } == [
        "0 countdown", "1 hud", "2 timer", "3 scope", "4 throttle", "5 once", "6 gate",
        "7 debounce", "8 nav", "9 page",
      ])
  }

  @Test func theStoredBytesOfAnEventNeverChangeWithinAVersion() throws {
    let desk = Desk()
    try desk.start("a", count: 2, meta: "m", title: "%ds")
    let header: [UInt8] = [3, 0xE8, 3, 0, 0, 1, 0, 0, 0]
    let event: [UInt8] = [
      56, 0, 0, 0, 16, 2, 0, 16, 2, 97, 44, 0, 4, 6, 65, 5, 19, 4, 6, 35, 160, 15, 7, 99, 160,
      231, 160, 136, 65, 3, 8, 99, 0, 216, 160, 136, 65, 3, 9, 21, 4, 50, 115, 11, 19, 4, 12, 35,
      208, 7, 13, 19, 2, 14, 6, 67, 15, 21, 2, 109,
    ]
    #expect(try handOver(desk).bytes == header + event)
    // Version 2, of earlier releases and of fleets, has no user.
    for written in [header + event, [2] + event] {
      var log = EventLog(limit: 10, after: 0)
      log.restore(written, after: 0, through: 1)
      #expect(read(log, after: 0, newest: 1).events == ["a started"])
    }
    #expect(EventCoding.count([3, 0xE8, 3, 0, 0, 2, 0, 0, 0] + event) == nil, "another number")
    #expect(EventCoding.count(Array(header.prefix(8))) == nil)
  }

  @Test func invalidBytesAreRefused() throws {
    let desk = Desk()
    try desk.start("a", meta: "m")
    let bytes = try handOver(desk).bytes
    for length in 1..<bytes.count {
      #expect(EventCoding.count(Array(bytes.prefix(length))) == nil, "\(length)")
    }
    var generator = SeededGenerator(seed: 7)
    for _ in 0..<20_000 {
      var bad = bytes
      bad[Int.random(in: 1..<bad.count, using: &generator)] = .random(
        in: 0...255, using: &generator)
      // Decoding ends, whatever the result.
      _ = EventCoding.forEach(bad) { record in
        _ = record.encoded()
        return true
      }
    }
  }

  @Test func aGapInTheLogIsReportedAndNothingDropped() throws {
    let desk = Desk()
    try desk.start("a")
    let first = try handOver(desk)
    try desk.start("b")
    _ = try handOver(desk)
    try desk.cancel("a")
    let second = try handOver(desk)
    var log = EventLog(limit: 10, after: 0)
    log.restore(first.bytes, after: 0, through: first.lastSequence)
    let last = second.lastSequence + 10
    // The events between the first portion and the second are unknown.
    log.restore([], after: second.lastSequence - 1, through: second.lastSequence - 1)
    log.restore(second.bytes, after: second.lastSequence - 1, through: second.lastSequence)
    let all = read(log, after: 0, newest: last)
    #expect(all.events == ["a started", "a cancelled"] && !all.reading.isComplete)
    #expect(!read(log, after: second.lastSequence - 2, newest: last).reading.isComplete)
    let since = read(log, after: second.lastSequence - 1, newest: last)
    #expect(since.events == ["a cancelled"] && since.reading.isComplete)
  }

  @Test func portionsThatADamagedFileRepeatsOrReordersAreDroppedAndReportedAsAGap() throws {
    let desk = Desk()
    var portions: [EventLog.Portion] = []
    for key in ["a", "b", "c"] {
      try desk.start(key)
      portions.append(try handOver(desk))
    }
    var log = EventLog(limit: 10, after: 0)
    var reads: [Bool] = []
    for place in [0, 1, 0, 1, 2] {
      let portion = portions[place]
      reads.append(
        log.restore(
          portion.bytes, after: portion.lastSequence - 1, through: portion.lastSequence))
    }
    #expect(reads == [true, true, false, false, true])
    let sequences = log.portions.map(\.lastSequence)
    #expect(sequences == sequences.sorted() && Set(sequences).count == sequences.count)
    let all = read(log, after: 0, newest: desk.engine.lastSequence)
    #expect(all.events == ["a started", "b started", "c started"] && !all.reading.isComplete)
  }
}

extension Event.Head {
  /// Returns the line of JSON that subscribers receive.
  fileprivate func line(_ view: some EntityView, _ key: [UInt8]) -> String {
    var line = JSONLine()
    line.begin()
    write(view, key: key.span, to: &line)
    line.end()
    return String(decoding: line.bytes)
  }
}
