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
