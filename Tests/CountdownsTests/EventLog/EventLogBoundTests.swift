import SeededRandom
import Testing

@testable import Countdowns

/// The log is bounded by bytes, and every gap is reported.
@Suite struct EventLogBoundTests {
  private static let maximumBytes = 2 << 20
  /// What the open chunk, and one event, may take besides.
  private static let room = 512 << 10

  private func desk(bytes: Int = maximumBytes) -> Desk {
    var settings = EngineSettings()
    settings.eventBytes = bytes
    return Desk(settings)
  }

  /// Reads all events after a number.
  private func read(
    _ log: EventLog, after sequence: Int64, newest: Int64
  ) -> (sequences: [Int64], lines: [String], isComplete: Bool) {
    var (sequences, lines) = ([Int64](), [String]())
    let reading = log.read(
      after: sequence, newest: newest, limit: .max, budget: .max, where: { _, _, _ in true },
      {
        sequences.append($0.sequence)
        lines.append($0.encoded().map { String(decoding: $0, as: UTF8.self) } ?? "?")
        return true
      })
    #expect(!reading.hasMore && reading.lastSequence == newest)
    return (sequences, lines, reading.isComplete)
  }

  /// Checks that the log is within its bound, lacks older events and says so, and has all later ones.
  /// - Parameter older: the number of events that are older than the newest missing one.
  private func expectBound(
    _ desk: Desk, older: Int = 0, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let (log, newest) = (desk.engine.eventLog, desk.engine.lastSequence)
    #expect(log.bytes <= Self.maximumBytes + Self.room, sourceLocation: sourceLocation)
    #expect(log.evicted > 0 && log.count > 0, sourceLocation: sourceLocation)
    #expect(!read(log, after: 0, newest: newest).isComplete, sourceLocation: sourceLocation)
    let rest = read(log, after: log.droppedThrough, newest: newest)
    #expect(rest.isComplete, sourceLocation: sourceLocation)
    #expect(rest.sequences.count == log.count - older, sourceLocation: sourceLocation)
    #expect(rest.sequences.last == newest, sourceLocation: sourceLocation)
  }

  private func showLargeTexts(_ desk: Desk, holds: Int = 64) throws {
    for index in 0..<holds {
      var request = Presentation.Request()
      request.isDurable = true
      request.status = Array(repeating: UInt8(ascii: "a") + UInt8(index % 26), count: 4_096)
      request.path = Array(repeating: UInt8(ascii: "p"), count: 4_000) + Array("\(index)".utf8)
      try desk.show("main", request)
    }
  }

  private func progress(_ desk: Desk, _ fraction: Double) throws {
    _ = try desk.with("main") {
      try desk.engine.updateHUD(
        $0, HUDTarget(), fraction: fraction, status: nil, at: desk.now)
    }
  }

  @Test func largeTextsOfAHUDTakeAtMostTheBound() throws {
    let desk = desk()
    try showLargeTexts(desk)
    for step in 1...100 { try progress(desk, Double(step) / 100) }
    expectBound(desk)
  }

  @Test func largeResultsTakeAtMostTheBound() throws {
    let desk = desk()
    for index in 0..<300 {
      try desk.begin("o")
      try desk.done("o", String(repeating: "\(index % 10)", count: 65_536))
      try desk.cancel(once: "o")
    }
    expectBound(desk)
  }

  @Test(arguments: [1, 20])
  func longEventsThatRepeatThemselvesAreShortInTheLogAndWholeForReaders(holds: Int) throws {
    let counter = DispatcherHarness()
    let reader = counter.open(.resp3)
    _ = try counter.frames(["SUBSCRIBE", "hud:main", "once:o"], by: reader)
    let first = counter.dispatcher.engine.lastSequence
    let text = String(repeating: "a", count: 900)
    for index in 0..<holds {
      try counter.say("HUD SHOW main STATUS \(text) REQUEST /\(index)\(text) DURABLE")
    }
    for step in 1...100 {
      try counter.say("HUD PROGRESS main \(Double(step) / 101)")
      if step % 10 == 0 { try counter.say("HUD STATUS main \(step)\(text)") }
      if step == 50 {
        try counter.say("ONCE BEGIN o TTL 1h")
        try counter.say("ONCE DONE o \(text)")
        try counter.say("ONCE CANCEL o")
      }
    }
    for index in 0..<holds { try counter.say("HUD POP main REQUEST /\(index)\(text)") }
    let received = try counter.take(reader).map { $0.elements[2].text }
      .filter { !$0.hasPrefix("{\"event\":\"snapshot\"") }
    var (logged, next) = ([String](), "\(first)")
    while true {
      // A page ends at its bytes.
      let page = try counter.say("EVENTS SINCE \(next)")
      logged += page["events"]!.elements.map { $0.elements[1].text }
      next = page["cursor"]!.text
      if page["more"] == .integer(0) { break }
    }
    #expect(logged == received)
    let all = received.reduce(0) { $0 + $1.utf8.count }
    let log = counter.dispatcher.engine.eventLog
    #expect(log.bytes < all / 3)
    #expect(log.portions.allSatisfy { EventLog.isValid($0.bytes) })
  }

  /// An older host of a fleet reads what a workbench has logged, and knows no differences.
  @Test func aLogWithoutUsersHasWholeEvents() throws {
    var settings = EngineSettings()
    settings.eventsHaveUsers = false
    let (counter, plain) = (DispatcherHarness(engine: settings), DispatcherHarness())
    let text = String(repeating: "a", count: 900)
    for harness in [counter, plain] {
      try harness.say("HUD SHOW main STATUS \(text) DURABLE")
      for step in 1...9 { try harness.say("HUD PROGRESS main 0.\(step)") }
    }
    #expect(counter.dispatcher.engine.eventLog.bytes > 9 * text.count)
    #expect(plain.dispatcher.engine.eventLog.bytes < 4 * text.count)
  }

  @Test func aDamagedDifferenceIsNoEventAndNoTrap() throws {
    let counter = DispatcherHarness()
    let text = String(repeating: "a", count: 900)
    try counter.say("HUD SHOW main STATUS \(text) DURABLE")
    for step in 1...3 { try counter.say("HUD PROGRESS main 0.\(step)") }
    var log = counter.dispatcher.engine.eventLog
    let bytes = try #require(log.takeUnstored().portions.last?.bytes)
    var generator = SeededGenerator(seed: 1)
    for index in bytes.indices {
      var damaged = bytes
      damaged[index] = UInt8.random(in: 0...255, using: &generator)
      _ = EventCoding.forEach(damaged) { event in
        _ = event.encoded()
        return true
      }
    }
  }

  @Test func eventsThatAreHandedOverOneByOneTakeAtMostTheBound() throws {
    let desk = desk()
    var all: [Int64] = []
    for index in 0..<20_000 {
      try desk.start("\(index)", title: String(repeating: "t", count: 60))
      all += desk.engine.eventLog.takeUnstored().portions.map(\.lastSequence)
    }
    #expect(all.count == 20_000, "a store receives each of them")
    expectBound(desk)
  }

  @Test func anEventLargerThanTheBoundIsMissingAndThatIsReported() throws {
    let desk = desk(bytes: 32_768)
    try desk.start("a")
    try desk.begin("o")
    let before = desk.engine.lastSequence
    try desk.done("o", String(repeating: "x", count: 65_536))
    let (log, newest) = (desk.engine.eventLog, desk.engine.lastSequence)
    #expect(log.count == 0 && log.bytes == 0)
    #expect(!read(log, after: before, newest: newest).isComplete)
    #expect(read(log, after: newest, newest: newest).isComplete)
    try desk.start("b")
    let later = read(desk.engine.eventLog, after: newest, newest: desk.engine.lastSequence)
    #expect(later.isComplete && later.sequences == [desk.engine.lastSequence])
  }

  @Test func restoredEventsTakeAtMostTheBound() throws {
    let desk = desk(bytes: 64 << 20)
    for index in 0..<100 {
      try desk.begin("o\(index)")
      try desk.done("o\(index)", String(repeating: "x", count: 65_536))
    }
    var log = EventLog(limit: 100_000, bytes: Self.maximumBytes, after: 0)
    var last: Int64 = 0
    for portion in desk.engine.eventLog.takeUnstored().portions {
      log.restore(portion.bytes, after: last, through: portion.lastSequence)
      last = portion.lastSequence
      #expect(log.bytes <= Self.maximumBytes + Self.room)
    }
    let newest = desk.engine.lastSequence
    #expect(!read(log, after: 0, newest: newest).isComplete)
    let rest = read(log, after: log.droppedThrough, newest: newest)
    #expect(rest.isComplete && rest.sequences.count == log.count && log.count > 0)
    let same = read(desk.engine.eventLog, after: log.droppedThrough, newest: newest)
    #expect(rest.lines == same.lines)
  }

  // MARK: Shares

  /// Starts ten countdowns of a user. Returns their lines.
  private func startTen(_ desk: Desk, uid: UInt32) throws -> [String] {
    for index in 0..<10 { try desk.start("\(uid) \(index)", uid: uid) }
    return read(desk.engine.eventLog, after: 0, newest: desk.engine.lastSequence).lines.suffix(10)
  }

  @Test func anEventTakesTheShareOfTheUserWhoMadeTheEntity() throws {
    let desk = Desk()
    try desk.start("a", count: 3, uid: 2_000)
    try desk.pause("a")
    try desk.resume("a")
    desk.late(at: 60_000)
    let portions = desk.engine.eventLog.takeUnstored().portions
    #expect(portions.map(\.user) == [2_000] && portions[0].count > 3)
  }

  @Test func aUserWithLargeEventsLosesOnlyItsOwn() throws {
    let desk = desk()
    let others = try startTen(desk, uid: 2_000)
    for index in 0..<300 {
      try desk.begin("o")
      try desk.done("o", String(repeating: "\(index % 10)", count: 65_536))
      try desk.cancel(once: "o")
    }
    expectBound(desk, older: 10)
    let all = read(desk.engine.eventLog, after: 0, newest: desk.engine.lastSequence)
    #expect(Array(all.lines.prefix(10)) == others)
  }

  @Test func aUserWithManyEventsLosesOnlyItsOwn() throws {
    var settings = EngineSettings()
    settings.eventsKept = 2_000
    let desk = Desk(settings)
    let others = try startTen(desk, uid: 2_000)
    for index in 0..<20_000 { try desk.start("\(index)") }
    let log = desk.engine.eventLog
    #expect((2_000..<2_000 + 1_024).contains(log.count) && log.evicted == 0)
    let all = read(log, after: 0, newest: desk.engine.lastSequence)
    #expect(Array(all.lines.prefix(10)) == others && !all.isComplete)
  }

  @Test func usersWithAsManyEventsEachRetainTheirShare() throws {
    let desk = desk()
    for index in 0..<4_000 {
      for uid in [1_000, 2_000, 3_000] as [UInt32] {
        try desk.start("\(uid) \(index)", title: String(repeating: "t", count: 400), uid: uid)
      }
    }
    let all = read(desk.engine.eventLog, after: 0, newest: desk.engine.lastSequence)
    let counts = ["1000", "2000", "3000"].map { uid in
      all.lines.count { $0.contains("\"key\":\"\(uid) ") }
    }
    #expect(counts.allSatisfy { $0 > all.lines.count / 4 }, "\(counts)")
    #expect(all.sequences == all.sequences.sorted())
  }

  /// With and without shares, the log has the same lines; a page that is complete lacks none; and
  /// what a store keeps of it is restored as it was, with each gap.
  @Test(arguments: 0..<30)
  func noEventIsMissingWithoutNotice(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    var settings = EngineSettings()
    settings.eventBytes = [40_000, 64 << 20].randomElement(using: &random)!
    settings.eventsKept = [50, 100_000].randomElement(using: &random)!
    let desk = Desk(settings)
    settings = EngineSettings()
    settings.eventsHaveUsers = false
    let whole = Desk(settings)
    var rows: [(portion: EventLog.Portion, after: Int64)] = []
    var last: Int64 = 0
    func store() {
      let taken = desk.engine.eventLog.takeUnstored()
      let gap = desk.engine.eventLog.takeUnstoredGap()
      for portion in taken.portions + (gap.map { [$0] } ?? []) {
        let missing = portion.count == 0 ? portion.lastSequence : taken.missingThrough
        rows.append((portion, min(max(last, missing), portion.lastSequence)))
        last = portion.lastSequence
      }
    }
    for step in 0..<400 {
      let uid = UInt32.random(in: 1...4, using: &random)
      let title = String(
        repeating: "t", count: Int.random(in: 0..<10, using: &random) == 0 ? 4_000 : 5)
      for desk in [desk, whole] { try desk.start("\(step)", title: title, uid: uid) }
      if Int.random(in: 0..<20, using: &random) == 0 { store() }
    }
    store()
    let newest = desk.engine.lastSequence
    let all = read(whole.engine.eventLog, after: 0, newest: newest)
    #expect(all.lines.count == 400 && all.isComplete)

    func check(_ log: EventLog, sourceLocation: SourceLocation = #_sourceLocation) {
      for _ in 0..<20 {
        let cursor = Int64.random(in: 0...newest, using: &random)
        let page = read(log, after: cursor, newest: newest)
        let wanted = zip(all.sequences, all.lines).filter { $0.0 > cursor }.map(\.1)
        if page.isComplete {
          #expect(page.lines == wanted, sourceLocation: sourceLocation)
        } else {
          let found = Set(page.sequences)
          let some = zip(all.sequences, all.lines).filter { found.contains($0.0) }.map(\.1)
          #expect(page.lines == some, sourceLocation: sourceLocation)
        }
      }
    }
    check(desk.engine.eventLog)
    var restored = EventLog(limit: 100_000, after: newest)
    for (portion, after) in rows {
      let isRead = restored.restore(portion.bytes, after: after, through: portion.lastSequence)
      #expect(isRead)
    }
    check(restored)
    // A store may drop any row but the newest.
    rows = rows.enumerated().filter { index, _ in
      index == rows.count - 1 || Int.random(in: 0..<10, using: &random) > 0
    }.map(\.element)
    var less = EventLog(limit: 100_000, after: newest)
    for (portion, after) in rows {
      let isRead = less.restore(portion.bytes, after: after, through: portion.lastSequence)
      #expect(isRead)
    }
    check(less)
  }

  @Test func pagesOfSeveralUsersHaveEachEventOnceInOrder() throws {
    let desk = Desk()
    for index in 0..<500 { try desk.start("\(index)", uid: UInt32(index % 7)) }
    var (found, position, hasMore) = ([Int64](), Int64(0), true)
    while hasMore {
      let reading = desk.engine.eventLog.read(
        after: position, newest: desk.engine.lastSequence, limit: 9, budget: 4,
        where: { _, _, _ in true },
        {
          found.append($0.sequence)
          return true
        })
      (position, hasMore) = (reading.lastSequence, reading.hasMore)
    }
    #expect(found == Array(1...500))
  }
}
