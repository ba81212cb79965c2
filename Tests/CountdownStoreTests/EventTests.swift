import Countdowns
import Testing

@testable import CountdownStore

@Suite struct EventTests {
  private func open(
    _ directory: TemporaryDirectory, limit: Int, bytes: Int = 1 << 20
  ) throws -> Store {
    var chosen = options(directory.state)
    chosen.eventLimit = limit
    chosen.eventBytes = bytes
    return try Store(chosen, at: reading())
  }

  @Test func eventsAreReadFromAGivenNumberOn() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 100)
    #expect(try store.eventsAfter(0) == ([], true))
    for last in [10, 20, 35] as [Int64] { try store.write(events(last, 3)) }
    #expect(try store.eventsAfter(0) == ([10, 20, 35], true))
    // In the middle of a batch: the batch.
    #expect(try store.eventsAfter(12) == ([20, 35], true))
    #expect(try store.eventsAfter(20) == ([35], true))
    #expect(try store.eventsAfter(35) == ([], true))
    #expect(try EventTable(store.database, limit: 100).lastSequence == 35)
  }

  @Test func theOldestEventsAreDeletedFirstAndThatIsReported() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 10)
    for n in 1...20 as ClosedRange<Int64> { try store.write(events(n * 10, 2)) }
    // Five batches of two; what was before 160 is gone.
    #expect(try store.eventsAfter(150) == ([160, 170, 180, 190, 200], true))
    #expect(try store.eventsAfter(149) == ([160, 170, 180, 190, 200], false))
    #expect(try store.eventsAfter(0).complete == false)
  }

  @Test func theStoredEventsAreBoundedByBytesAndThatIsReported() throws {
    let directory = TemporaryDirectory()
    let large = String(repeating: "e", count: 300)
    var store: Store! = try open(directory, limit: 100, bytes: 1_000)
    for n in 1...20 as ClosedRange<Int64> { try store.write(events(n * 10, 2, large)) }
    #expect(try store.eventsAfter(170) == ([180, 190, 200], true))
    #expect(try store.eventsAfter(169) == ([180, 190, 200], false))
    // The newest row stays whatever its size, so that what was before it is known to be missing.
    try store.write(events(210, 1, String(repeating: "e", count: 5_000)))
    #expect(try store.eventsAfter(200) == ([210], true))
    #expect(try store.eventsAfter(0) == ([210], false))
    store = nil
    store = try open(directory, limit: 100, bytes: 1_000)
    try store.write(events(220))
    #expect(try store.eventsAfter(210) == ([220], true))
    #expect(try store.eventsAfter(209) == ([220], false))
  }

  /// Each user starts countdowns in the order given, in one batch for each.
  private func write(
    _ uids: [UInt32], _ engine: Engine, _ store: Store, _ checkpoint: Checkpoint
  ) throws {
    let now = Moment(
      boot: Instant(microseconds: 1_000_000), wall: Instant(microseconds: wallStart + 1_000_000))
    let batch = ChangeWriter(offset: store.clock.offset)
    for uid in uids {
      let key = Array("\(uid) \(engine.lastSequence)".utf8)
      var start = CountdownStart(Countdown.Plan(count: 60, every: .seconds(1))!)
      _ = try engine.start(key.span, &start, by: Client(connection: 1, uid: uid), at: now)
      engine.takeChanges(into: batch)
    }
    try checkpoint.write(batch.bytes)
  }

  @Test(arguments: [(limit: 100, bytes: 1 << 20), (limit: 100_000, bytes: 12_000)])
  func aUserWithManyStoredEventsLosesOnlyItsOwn(limit: Int, bytes: Int) throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: limit, bytes: bytes)
    var settings = EngineSettings()
    settings.eventsKept = 100_000
    let now = Moment(
      boot: Instant(microseconds: 1_000_000), wall: Instant(microseconds: wallStart + 1_000_000))
    let engine = Engine(settings: settings, at: now)
    engine.noteChanges()
    func checkpoint() throws -> Checkpoint {
      try Checkpoint(store.options, store.database, store.meta)
    }
    try write([2, 1, 2], engine, store, checkpoint())
    // The first of these reads what the rows take; the others know it.
    let last = try checkpoint()
    for _ in 0..<20 { try write(Array(repeating: 1, count: 40), engine, store, last) }
    var restored = Engine(settings: settings, at: now).eventLog
    try store.loadEvents {
      let isRead = restored.restore(
        $0.payload, after: $0.afterSequence, through: $0.lastSequence)
      #expect(isRead)
    }
    #expect((100..<200).contains(restored.count))
    var users: [String] = []
    let reading = restored.read(
      after: 0, newest: engine.lastSequence, limit: 1_000, where: { _, _, _ in true },
      {
        users.append(String(decoding: $0.key.prefix(1), as: UTF8.self))
        return true
      })
    #expect(users.count { $0 == "2" } == 2 && !reading.isComplete && !reading.hasMore)
    let (dropped, newest) = (restored.droppedThrough, engine.lastSequence)
    #expect(dropped > 600 && dropped < newest)
    #expect(
      restored.read(
        after: dropped, newest: newest, limit: 1_000, where: { _, _, _ in true }, { _ in true }
      ).isComplete)
  }

  @Test func aBatchBeyondTheBoundIsKeptWhole() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 10)
    try store.write(events(1, 1))
    try store.write(events(100, 50))
    #expect(try store.eventsAfter(1) == ([100], true))
    #expect(try store.eventsAfter(0) == ([100], false))
  }

  @Test func eventsThatWereDroppedBeforeTheyWereStoredAreMissing() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 10)
    try store.write(events(5, 1))
    try store.write(events(100, 10, missingThrough: 90))
    #expect(try store.eventsAfter(90) == ([100], true))
    #expect(try store.eventsAfter(5) == ([100], false))
  }

  @Test func aBatchWithMoreEventsThanAreKeptIsKnownToBeIncomplete() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 3)
    let now = Moment(
      boot: Instant(microseconds: 1_000_000), wall: Instant(microseconds: wallStart + 1_000_000))
    var settings = EngineSettings()
    settings.eventsKept = 3
    let engine = Engine(settings: settings, at: now)
    engine.noteChanges()
    func start(_ keys: Range<UInt8>) throws -> Int64 {
      var start = CountdownStart(Countdown.Plan(count: 60, every: .seconds(1))!)
      for key in keys {
        _ = try engine.start(
          [key].span, &start, by: Client(connection: 1, uid: 0), at: now)
      }
      let batch = ChangeWriter(offset: store.clock.offset)
      engine.takeChanges(into: batch)
      try Checkpoint(store.options, store.database, store.meta).write(batch.bytes)
      return engine.lastSequence
    }
    let first = try start(0..<1)
    let second = try start(1..<3)
    #expect(try store.eventsAfter(first) == ([second], true))
    let third = try start(3..<20)
    #expect(try store.eventsAfter(second) == ([third], false))
  }

  @Test func eventsGoOnAfterARestart() throws {
    let directory = TemporaryDirectory()
    try open(directory, limit: 2).write(events(5, 3))
    let store = try open(directory, limit: 2)
    #expect(store.lastEventSequence == 5)
    try store.write(events(7, 2))
    #expect(try store.eventsAfter(0) == ([7], false))
    #expect(try store.eventsAfter(5) == ([7], true))
  }

  @Test func aSmallerBoundTakesEffect() throws {
    let directory = TemporaryDirectory()
    var store: Store! = try open(directory, limit: 100)
    for n in 1...50 as ClosedRange<Int64> { try store.write(events(n)) }
    store = nil
    let smaller = try open(directory, limit: 5)
    try smaller.write(events(51))
    #expect(try smaller.eventsAfter(46) == ([47, 48, 49, 50, 51], true))
    #expect(try smaller.eventsAfter(45).complete == false)
  }

  /// All rows, and what the log has.
  private func stored(_ directory: TemporaryDirectory, limit: Int) throws -> [StoredEvents] {
    var all: [StoredEvents] = []
    try open(directory, limit: limit).loadEvents { all.append($0) }
    return all
  }

  @Test func theBeginningOfTheLogIsStoredOnce() throws {
    let directory = TemporaryDirectory()
    try Life(directory, eventsAfter: 40).close()
    let life = try Life(directory, eventsAfter: 1_000)
    life.commit(events(1_001, 2))
    life.close()
    // Before the beginning there may have been others.
    let all = try stored(directory, limit: 100)
    #expect(all.map(\.afterSequence) == [40, 40])
    #expect(all.map(\.payload) == [[], Array("e".utf8)])
  }

  @Test func withoutALimitNothingIsLeftThatAGapWouldFollow() throws {
    let directory = TemporaryDirectory()
    let first = try Life(directory, eventsAfter: 1)
    first.commit(events(5, 3))
    first.close()
    try Life(directory, eventLimit: 0, eventsAfter: 10).close()
    let third = try Life(directory, eventsAfter: 20)
    third.commit(events(21))
    third.close()
    // What came while nothing was kept is missing.
    #expect(try stored(directory, limit: 100).last?.afterSequence == 20)
  }
}
