import Foundation
import Testing

@testable import CountdownStore

/// Numbers and logs of a damaged state.
@Suite struct DamageTests {
  private let directory = TemporaryDirectory()

  private var log: String { directory.database + "-wal" }

  private func write(_ bytes: [UInt8], to path: String, at offset: UInt64 = 0) throws {
    let file = try #require(FileHandle(forWritingAtPath: path))
    try file.seek(toOffset: offset)
    try file.write(contentsOf: bytes)
    try file.close()
  }

  // MARK: Numbers

  @Test func numbersRiseWithoutTheDatabase() throws {
    // Many starts take them far ahead of the clock.
    var first: Int64 = 0
    for _ in 0..<5 { first = try started(directory) }
    #expect(first > wallStart + (1 << 33))
    try replaced(directory)
    let second = try started(directory)
    #expect(second > first + (1 << 32))
    try FileManager.default.removeItem(atPath: directory.database)
    #expect(try started(directory) > second + (1 << 32))
  }

  @Test func numbersRiseWithoutTheirFile() throws {
    var first: Int64 = 0
    for _ in 0..<5 { first = try started(directory) }
    try FileManager.default.removeItem(atPath: directory.state + "/numbers")
    #expect(try started(directory) > first + (1 << 32))
  }

  @Test func numbersAreReadAgainWhateverWasThere() throws {
    _ = try started(directory)
    try Data(repeating: 0x20, count: 60).write(
      to: URL(fileURLWithPath: directory.state + "/numbers"))
    var first: Int64 = 0
    for _ in 0..<5 { first = try started(directory) }
    try FileManager.default.removeItem(atPath: directory.database)
    #expect(try started(directory) > first + (1 << 32))
  }

  @Test(arguments: [
    "", "4000000000000000000", "4000000000000000000 4000000000000000001\n", "x x\n", "-5 -5\n",
    "9223372036854775807 9223372036854775807\n", "4000000000000000000 4000000000000000000",
  ])
  func invalidNumbersAreIgnored(text: String) throws {
    let first = try started(directory)
    try Data(text.utf8).write(to: URL(fileURLWithPath: directory.state + "/numbers"))
    let second = try started(directory)
    #expect(second > first && second < first + (1 << 34))
  }

  // MARK: Meta

  @Test(arguments: [
    ("number_floor", Int64.max), ("number_floor", -1), ("number_floor", .max / 2 + 1),
    ("boot_us", .max), ("boot_us", .min), ("store_minus_boot_us", .max),
    ("store_minus_boot_us", .min), ("wall_us", .min), ("wall_us", .max),
  ])
  func anInvalidMetaRowIsDamage(column: String, value: Int64) throws {
    try open(directory).write(batch([countdown(0, "a")]))
    try change(directory, "UPDATE meta SET \(column) = \(value)")
    #expect(try Store.check(directory: directory.state, anyEvents).problems != [])
    for now in [reading(), reading(5, wall: wallStart, bootID: "boot-2")] {
      // What else is there can be read, to be kept elsewhere.
      let store = try open(directory, at: now)
      #expect(store.damage?.kind == .corrupt)
      #expect(try store.keys() == ["a"])
    }
  }

  /// Without `meta` it is unknown which batches are in the tables.
  @Test(arguments: [false, true])
  func anInvalidMetaRowLosesNothingOfTheLog(isFolded: Bool) throws {
    let life = try Life(directory)
    // Two batches fill a segment.
    let long = [UInt8](repeating: 0, count: 30_000)
    for n in 0..<12 { life.commit(batch([countdown(UInt32(n), "\(n)", meta: long)])) }
    if isFolded { life.backUp(to: directory.path + "/backup") }
    life.commit(batch([countdown(12, "12")]))
    life.close()
    let first = try #require(StateFiles(directory: directory.state).segments().first)
    #expect((first.number > 1) == isFolded)
    try change(directory, "UPDATE meta SET boot_us = \(Int64.max)")
    let store = try open(directory)
    #expect(store.damage?.kind == .corrupt)
    #expect(try store.allCountdowns().map(\.place) == Array(0..<13))
  }

  @Test func extremeTimesAndNumbersAreRead() throws {
    _ = try open(directory)
    try change(
      directory,
      """
      UPDATE meta SET number_floor = \(Int64.max / 2), boot_us = -100000000000000000,
        wall_us = 100000000000000000, store_minus_boot_us = -100000000000000000
      """)
    #expect(try Store.check(directory: directory.state, anyEvents).problems == [])
    for now in [reading(), reading(5, wall: wallStart, bootID: "boot-2")] {
      #expect(try open(directory, at: now).firstNumber > Int64.max / 2)
      try change(directory, "UPDATE meta SET number_floor = \(Int64.max / 2)")
    }
  }

  @Test func aSchemaVersionThatCannotBeIsDamage() throws {
    for version in [0, -1, .min, 1, 2] {
      try open(directory).write(batch([countdown(0, "a")]))
      try change(directory, "PRAGMA user_version = \(version)")
      #expect(failure { _ = try open(directory) } == .corrupt)
      try change(directory, "PRAGMA user_version = \(Schema.current.version)")
    }
  }

  @Test func aHeaderThatForbidsWritingIsDamage() throws {
    try open(directory).write(batch([countdown(0, "a")]))
    // The version that a writer must know. SQLite opens such a file for reading alone.
    try write([6], to: directory.database, at: 18)
    #expect(try Store.check(directory: directory.state, anyEvents).problems.count == 1)
    let store = try open(directory)
    #expect(store.damage?.kind == .corrupt)
    #expect(try store.keys() == ["a"])
  }

  // MARK: Rows

  @Test(arguments: [
    "countdowns SET key = x'62'", "countdowns SET generation = generation + 1",
    "countdowns SET deadline_store_us = deadline_store_us - 1024", "countdowns SET sends = 3",
    "countdowns SET meta = x'006d00'", "countdowns SET meta = x''", "countdowns SET meta = NULL",
    "countdowns SET title = meta, meta = NULL", "countdowns SET id = 6", "countdowns SET sum = 0",
    "events SET payload = x'66'", "events SET ordinal = 2", "meta SET number_floor = 1",
    "meta SET store_minus_boot_us = store_minus_boot_us + 1000000", "meta SET product = 'other'",
  ])
  func aChangedRowIsDamage(change: String) throws {
    do {
      let store = try open(directory)
      try store.write(batch([countdown(5, "a", meta: [0, 0x6D])]))
      try store.write(events(store.firstNumber))
    }
    #expect(try Store.check(directory: directory.state, anyEvents).problems == [])
    #expect(try open(directory).damage == nil)
    try Database(directory.database, .readWrite).execute("UPDATE \(change)")
    #expect(try Store.check(directory: directory.state, anyEvents).problems.count == 1)
    let store = try open(directory)
    #expect(
      store.damage?.kind == .corrupt || failure { _ = try store.allCountdowns() } == .corrupt
        || failure { try store.loadEvents { _ in } } == .corrupt)
  }

  /// A state as `kill -9` leaves it: something in the tables, and something in the log.
  private func killed() throws -> TemporaryDirectory {
    let killed = TemporaryDirectory()
    try open(directory).write(batch([countdown(0, "old")]))
    let life = try Life(directory)
    life.commit(batch([countdown(1, "new")]))
    try copyState(directory, killed)
    life.close()
    return killed
  }

  /// With what was said about it.
  private func opened(_ directory: TemporaryDirectory) throws -> (Store, [Store.Finding]) {
    var findings: [Store.Finding] = []
    let store = try Store(options(directory.state), at: reading()) { findings.append($0) }
    return (store, findings)
  }

  @Test func filesSetAsideEarlierAreLeftAlone() throws {
    mkdir(directory.state, 0o700)
    var asides: [String] = []
    for n in 0..<3 {
      try Data("\(n)".utf8).write(to: URL(fileURLWithPath: directory.database))
      // All in the same second.
      let now = reading(wall: wallStart)
      let replacement = try Replacement(of: nil, options(directory.state), at: now) {
        asides.append($0)
      }
      try replacement.decide()
      _ = try replacement.open(at: now)
    }
    #expect(asides.map(contents) == (0..<3).map { Data("\($0)".utf8) })
  }

  // MARK: Looking

  @Test func checkingChangesNothing() throws {
    let killed = try killed()
    let before = try files(killed)
    let report = try Store.check(directory: killed.state, anyEvents)
    #expect(report.counts[.countdown] == 2 && report.problems == [])
    #expect(try files(killed) == before)
    // Nor where there is no log, nor a lock: one of another user would keep the daemon out.
    var store: Store! = try open(killed)
    store = nil
    #expect(store == nil)
    try FileManager.default.removeItem(atPath: killed.state + "/lock")
    let rest = try files(killed)
    #expect(
      rest.keys.sorted() == [
        "changes-0000000001.log", "changes-0000000002.log", "numbers", "state.db",
        "state.db-journal",
      ])
    #expect(try Store.check(directory: killed.state, anyEvents).counts[.countdown] == 2)
    #expect(try files(killed) == rest)
  }

  private func files(_ directory: TemporaryDirectory) throws -> [String: Data?] {
    let names = try FileManager.default.contentsOfDirectory(atPath: directory.state)
    return Dictionary(
      uniqueKeysWithValues: names.map { ($0, contents(directory.state + "/" + $0)) })
  }

  @Test func anEmptyFileIsNoDamage() throws {
    mkdir(directory.state, 0o700)
    _ = FileManager.default.createFile(atPath: directory.database, contents: nil)
    let report = try Store.check(directory: directory.state, anyEvents)
    #expect(report.schemaVersion == 0 && report.problems == [])
    #expect(try opened(directory).1 == [])
    _ = try started(directory)
    // But it is said where there was a state before.
    try Data().write(to: URL(fileURLWithPath: directory.database))
    #expect(try Store.check(directory: directory.state, anyEvents).problems.count == 1)
    #expect(try opened(directory).1.first == .emptied(path: directory.database))
  }

  @Test func stateThatEveryUserMayWriteToIsReported() throws {
    mkdir(directory.state, 0o700)
    #expect(try opened(directory).1 == [])
    chmod(directory.database, 0o602)
    #expect(try opened(directory).1 == [.writableByAll(path: directory.database)])
    chmod(directory.state, 0o1777)
    #expect(
      try opened(directory).1
        == [directory.state, directory.database].map {
          .writableByAll(path: $0)
        })
  }

  // MARK: Replacing

  @Test func aReplacementContainsAllItsRows() throws {
    let killed = try killed()
    let corrupt = try open(killed)
    let now = reading()
    var place = ""
    let replacement = try Replacement(of: corrupt, options(killed.state), at: now) { place = $0 }
    try replacement.fill { writer in
      batch([countdown(1, "new")]).write(to: writer)
      for events in [events(5, 0, "", missingThrough: 5), events(7, 2), events(9)] {
        events.write(to: writer)
      }
    }
    try replacement.decide()
    let store = try replacement.open(at: now)
    #expect(try store.keys() == ["new"])
    // What follows without a gap becomes one row.
    #expect(try store.eventsAfter(5) == ([9], true))
    #expect(try store.eventsAfter(4) == ([5, 9], false))
    #expect(FileManager.default.fileExists(atPath: place))
    #expect(!FileManager.default.fileExists(atPath: directory.state + "/.state.db.new"))
  }

  @Test func anUncommittedReplacementIsRemoved() throws {
    let killed = try killed()
    let corrupt = try open(killed)
    do {
      let replacement = try Replacement(of: corrupt, options(killed.state), at: reading()) { _ in }
      try replacement.fill { batch([countdown(0, "x")]).write(to: $0) }
    }
    #expect(try files(killed).keys.allSatisfy { !$0.contains("new") && !$0.contains("corrupt") })
    // What it was to replace goes on.
    #expect(try corrupt.keys() == ["old", "new"])
  }

  @Test func theNextStartCompletesACommittedReplacement() throws {
    let killed = try killed()
    var corrupt: Store! = try open(killed)
    var place = ""
    var replacement: Replacement! = try Replacement(
      of: corrupt, options(killed.state), at: reading()
    ) { place = $0 }
    try replacement.fill { batch([countdown(1, "new")]).write(to: $0) }
    try replacement.decide()
    corrupt = nil
    replacement = nil
    #expect(corrupt == nil && replacement == nil)
    let report = try Store.check(directory: killed.state, anyEvents)
    #expect(report.counts[.countdown] == 1 && report.problems.count == 1)
    let (store, findings) = try opened(killed)
    #expect(findings == [.unfinishedReplacement(place: place)])
    #expect(try store.keys() == ["new"])
    #expect(contents(place) != nil && contents(place + "-changes-0000000001.log") != nil)
  }

  // MARK: Numbers of events

  @Test(arguments: [
    "last_seq = 20000000000000000", "last_seq = -1", "ordinal = 9223372036854775807",
    "after_seq = 100", "ordinal = -1",
  ])
  func eventsWithInvalidNumbersAreDamage(change: String) throws {
    var store: Store! = try open(directory)
    for number in 1...3 { try store.write(events(Int64(number) * 10)) }
    try store.database.execute("UPDATE events SET \(change), sum = NULL WHERE last_seq = 20")
    store = nil
    store = try open(directory)
    #expect(store.firstNumber < 1 << 53)
    var read: [Int64] = []
    #expect(failure { try store.loadEvents { read.append($0.lastSequence) } } == .corrupt)
    #expect(read == [10, 30])
  }

  @Test func numbersGoOnAboveStoredEvents() throws {
    var store: Store! = try open(directory)
    let far = store.firstNumber + (1 << 40)
    try store.write(events(far))
    store = nil
    #expect(try open(directory).firstNumber > far)
  }
}
