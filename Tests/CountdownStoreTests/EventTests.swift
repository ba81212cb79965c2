import Countdowns
import Testing

@testable import CountdownStore

@Suite struct EventTests {
  private func open(_ directory: TemporaryDirectory, limit: Int) throws -> Store {
    var chosen = options(directory.state)
    chosen.eventLimit = limit
    return try Store(chosen, at: reading())
  }

  @Test func eventsAreReadFromAGivenNumberOn() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 100)
    #expect(try store.eventsAfter(0) == ([], true))
    for last in [10, 20, 35] as [Int64] { try store.commit(events(last, 3), at: reading()) }
    #expect(try store.eventsAfter(0) == ([10, 20, 35], true))
    // In the middle of a batch: the batch.
    #expect(try store.eventsAfter(12) == ([20, 35], true))
    #expect(try store.eventsAfter(20) == ([35], true))
    #expect(try store.eventsAfter(35) == ([], true))
    #expect(store.lastEventSequence == 35)
  }

  @Test func theOldestEventsAreDeletedFirstAndThatIsReported() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 10)
    for n in 1...20 as ClosedRange<Int64> { try store.commit(events(n * 10, 2), at: reading()) }
    // Five batches of two; what was before 160 is gone.
    #expect(try store.eventsAfter(150) == ([160, 170, 180, 190, 200], true))
    #expect(try store.eventsAfter(149) == ([160, 170, 180, 190, 200], false))
    #expect(try store.eventsAfter(0).complete == false)
  }

  @Test func theOldestEventsAreDeletedSeveralAtATime() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 640)
    var kept: [Int64] = []
    for n in 1...800 as ClosedRange<Int64> {
      try store.commit(events(n), at: reading())
      if n > 700 { kept.append(try store.database.number("SELECT count(*) FROM events")) }
    }
    #expect(kept.min() == 640)
    #expect(kept.max() == 649)
  }

  @Test func aBatchBeyondTheBoundIsKeptWhole() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 10)
    try store.commit(events(1, 1), at: reading())
    try store.commit(events(100, 50), at: reading())
    #expect(try store.eventsAfter(1) == ([100], true))
    #expect(try store.eventsAfter(0) == ([100], false))
  }

  @Test func eventsThatWereDroppedBeforeTheyWereStoredAreMissing() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 10)
    try store.commit(events(5, 1), at: reading())
    var batch = events(100, 10)
    batch.events?.missingThrough = 90
    try store.commit(batch, at: reading())
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
    try store.beginEvents(after: engine.lastSequence)
    func start(_ keys: Range<UInt8>) throws -> Int64 {
      let start = CountdownStart(Countdown.Plan(count: 60, every: .seconds(1))!)
      for key in keys {
        _ = try engine.startCountdown(
          [key].span, start, by: Client(connection: 1, uid: 0), at: now)
      }
      try store.commit(StoreBatch(takenFrom: engine), at: reading())
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
    try open(directory, limit: 2).commit(events(5, 3), at: reading())
    let store = try open(directory, limit: 2)
    #expect(store.lastEventSequence == 5)
    try store.commit(events(7, 2), at: reading())
    #expect(try store.eventsAfter(0) == ([7], false))
    #expect(try store.eventsAfter(5) == ([7], true))
  }

  @Test func aSmallerBoundTakesEffect() throws {
    let directory = TemporaryDirectory()
    var store: Store! = try open(directory, limit: 100)
    for n in 1...50 as ClosedRange<Int64> { try store.commit(events(n), at: reading()) }
    store = nil
    let smaller = try open(directory, limit: 5)
    try smaller.commit(events(51), at: reading())
    #expect(try smaller.eventsAfter(46) == ([47, 48, 49, 50, 51], true))
    #expect(try smaller.eventsAfter(45).complete == false)
  }

  @Test func theBeginningOfTheLogIsStoredOnce() throws {
    let directory = TemporaryDirectory()
    do {
      let store = try open(directory, limit: 100)
      try store.beginEvents(after: 40)
      #expect(try store.eventsAfter(40) == ([], true))
    }
    let store = try open(directory, limit: 100)
    try store.beginEvents(after: 1_000)
    try store.commit(events(1_001, 2), at: reading())
    #expect(try store.eventsAfter(40) == ([1_001], true))
    // Before the beginning there may have been others.
    var all: [StoredEvents] = []
    try store.loadEvents { all.append($0) }
    #expect(all.map(\.afterSequence) == [40, 40])
    #expect(all.map(\.payload) == [[], Array("e".utf8)])
  }

  @Test func aFailedCommitLeavesNoEvents() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory, limit: 4)
    try store.beginEvents(after: 40)
    let pages = try store.database.number("PRAGMA page_count")
    func expectFailure(_ batches: [StoreBatch]) {
      #expect(failure { try store.commit(batches, at: reading()) } == .full)
    }
    try store.database.execute("PRAGMA max_page_count = \(pages + 4)")
    let large = String(repeating: "x", count: 20_000)
    for _ in 0..<3 {
      expectFailure([events(50, 3, large)])
      // Several that stand or fall together: nothing of the first, either.
      expectFailure([events(50, 3), events(60, 1, large)])
      #expect(store.lastEventSequence == 40)
    }
    try store.commit(events(70, 3), at: reading())
    expectFailure([events(75, 3), events(80, 1, large)])
    #expect(store.lastEventSequence == 70)
    try store.commit(events(90), at: reading())
    var all: [StoredEvents] = []
    try store.loadEvents { all.append($0) }
    #expect(all.map(\.afterSequence) == [40, 70])
    #expect(all.map(\.lastSequence) == [70, 90])
  }

  @Test func withoutALimitNothingIsLeftThatAGapWouldFollow() throws {
    let directory = TemporaryDirectory()
    do {
      let store = try open(directory, limit: 100)
      try store.beginEvents(after: 1)
      try store.commit(events(5, 3), at: reading())
    }
    do {
      let store = try open(directory, limit: 0)
      try store.beginEvents(after: 10)
      #expect(try store.eventsAfter(0).sequences == [] && store.lastEventSequence == 0)
    }
    let store = try open(directory, limit: 100)
    try store.beginEvents(after: 20)
    try store.commit(events(21), at: reading())
    var all: [StoredEvents] = []
    try store.loadEvents { all.append($0) }
    #expect(all.map(\.afterSequence) == [20, 20])
  }
}
