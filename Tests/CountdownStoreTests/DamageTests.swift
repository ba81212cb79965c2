import Foundation
import Testing

@testable import CountdownStore
@testable import Countdowns

/// Numbers and logs of a damaged state.
@Suite struct DamageTests {
  private let directory = TemporaryDirectory()

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
    for number in 1...2 { unlink(directory.state + "/state-\(number).db") }
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

  @Test(
    arguments: [
      { $0.clocks.numberFloor = .max }, { $0.clocks.numberFloor = -1 },
      { $0.clocks.numberFloor = Numbers.possible.upperBound + 1 },
      { $0.clocks.saved.reading.bootMicroseconds = .max },
      { $0.clocks.saved.reading.bootMicroseconds = .min },
      { $0.clocks.saved.reading.wallMicroseconds = .min },
      { $0.clocks.saved.offset = .max }, { $0.clocks.saved.offset = .min }, { $0.lineage = 0 },
      { $0.folded = -1 },
    ] as [@Sendable (inout Meta) -> Void])
  func anInvalidMetaRowIsDamage(_ change: @Sendable (inout Meta) -> Void) throws {
    try open(directory).write(batch([countdown(0, "a")]))
    try changeMeta(directory, change)
    #expect(try inspect(directory.state).problems != [])
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
    let first = try #require(try StateFiles(directory: directory.state).segments().first)
    #expect((first.number > 1) == isFolded)
    try changeMeta(directory) { $0.clocks.saved.reading.bootMicroseconds = .max }
    let store = try open(directory)
    #expect(store.damage?.kind == .corrupt)
    #expect(try store.all().map(\.slot) == Array(0..<13))
  }

  @Test func extremeTimesAndNumbersAreRead() throws {
    _ = try open(directory)
    try changeMeta(directory) {
      $0.clocks.numberFloor = Numbers.possible.upperBound
      $0.clocks.saved.reading.bootMicroseconds = Instant.possible.lowerBound
      $0.clocks.saved.reading.wallMicroseconds = Instant.possible.upperBound
      $0.clocks.saved.offset = Instant.possible.lowerBound
    }
    #expect(try inspect(directory.state).problems == [])
    for now in [reading(), reading(5, wall: wallStart, bootID: "boot-2")] {
      #expect(try open(directory, at: now).firstNumber > Numbers.possible.upperBound)
    }
  }

  @Test func aSchemaVersionThatCannotBeIsDamage() throws {
    for version in [0, -1, .min, 1, 4] {
      try open(directory).write(batch([countdown(0, "a")]))
      try change(directory, "PRAGMA user_version = \(version)")
      #expect(failure { _ = try open(directory) } == .corrupt)
      try change(directory, "PRAGMA user_version = \(Schema.version)")
    }
  }

  @Test func aHeaderThatForbidsWritingIsDamage() throws {
    try open(directory).write(batch([countdown(0, "a")]))
    // The version that a writer must know. SQLite opens such a file for reading alone.
    try write([6], to: directory.database, at: 18)
    #expect(try inspect(directory.state).problems.count == 1)
    let store = try open(directory)
    #expect(store.damage?.kind == .corrupt)
    #expect(try store.keys() == ["a"])
  }

  // MARK: Rows

  @Test(arguments: [
    "entities SET bytes = CAST(bytes || x'00' AS BLOB)", "entities SET bytes = x''",
    "entities SET bytes = substr(bytes, 1, 30)", "entities SET bytes = zeroblob(60)",
    "entities SET id = 6", "entities SET id = id + (1 << 32)", "entities SET id = -1",
    "entities SET id = 3 << 32", "entities SET sum = sum + 1", "entities SET sum = -sum",
    "events SET bytes = x'66'", "events SET ordinal = 2",
    "meta SET bytes = CAST(bytes || x'00' AS BLOB)",
    "meta SET sum = 1",
  ])
  func aChangedRowIsDamage(change: String) throws {
    do {
      let store = try open(directory)
      try store.write(batch([countdown(5, "a", meta: [0, 0x6D])]))
      try store.write(events(store.firstNumber))
    }
    #expect(try inspect(directory.state).problems == [])
    #expect(try open(directory).damage == nil)
    try Database(directory.database, .readWrite).execute("UPDATE \(change)")
    #expect(try inspect(directory.state).problems.count == 1)
    let store = try open(directory)
    #expect(
      store.damage?.kind == .corrupt || failure { _ = try store.all() } == .corrupt
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

  @Test func corruptStatesStayAsTheyAre() throws {
    mkdir(directory.state, 0o700)
    var corrupt: [String] = []
    for n in 0..<3 {
      try Data("\(n)".utf8).write(to: URL(fileURLWithPath: directory.database))
      corrupt.append(try replaced(directory).place)
    }
    #expect(corrupt == (1...3).map { directory.state + "/state-\($0).db" })
    #expect(corrupt.map(contents) == (0..<3).map { Data("\($0)".utf8) })
    #expect(directory.database == directory.state + "/state-4.db")
  }

  @Test func onlyNumberedNamesAreStates() throws {
    mkdir(directory.state, 0o700)
    for name in [
      "state.db", "state-.db", "state-0.db", "state-02.db", "state--3.db", "state-+4.db",
      "state-x.db", "state-5.db.old", "state-1000000000.db", "state-99999999999999999999.db",
    ] {
      try Data("x".utf8).write(to: URL(fileURLWithPath: directory.state + "/" + name))
    }
    #expect(directory.database == directory.state + "/state-1.db")
    try Data("x".utf8).write(to: URL(fileURLWithPath: directory.state + "/state-10.db"))
    try Data("x".utf8).write(to: URL(fileURLWithPath: directory.state + "/state-9.db"))
    #expect(directory.database == directory.state + "/state-10.db")
  }

  // MARK: Looking

  @Test func checkingChangesNothing() throws {
    let killed = try killed()
    let before = try files(killed)
    let report = try inspect(killed.state)
    #expect(report.engine.count(.countdown) == 2 && report.problems == [])
    #expect(try files(killed) == before)
    // Nor where there is no log, nor a lock: one of another user would keep the daemon out.
    var store: Store! = try open(killed)
    store = nil
    #expect(store == nil)
    try FileManager.default.removeItem(atPath: killed.state + "/lock")
    let rest = try files(killed)
    #expect(
      rest.keys.sorted() == [
        "numbers", "state-1-changes-0000000001.log", "state-1-changes-0000000002.log",
        "state-1.db", "state-1.db-journal",
      ])
    #expect(try inspect(killed.state).engine.count(.countdown) == 2)
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
    let report = try inspect(directory.state)
    #expect(report.product == "" && report.problems == [])
    #expect(try opened(directory).1 == [])
    _ = try started(directory)
    // But it is said where there was a state before.
    try Data().write(to: URL(fileURLWithPath: directory.database))
    #expect(try inspect(directory.state).problems.count == 1)
    #expect(try opened(directory).1.first == .emptied(path: directory.database))
  }

  // MARK: A missing state

  /// The files of a directory whose newest state is the second one.
  private func restored(_ keys: String...) throws {
    let life = try Life(directory)
    life.commit("a")
    life.backUp(to: directory.path + "/backup")
    life.close()
    _ = try StateRestore.restore(directory.path + "/backup", to: directory.state)
    let next = try Life(directory)
    for key in keys { next.commit(key) }
    next.close()
  }

  @Test(arguments: [true, false])
  func aMissingNewestStateIsNotReplacedByTheOneBefore(hasLog: Bool) throws {
    try restored("b")
    let missing = directory.database
    #expect(missing.hasSuffix("state-2.db"))
    let log = try StateFiles(directory: directory.state).segments()
    unlink(missing)
    if !hasLog { for segment in log { unlink(segment.path) } }
    let before = try files(directory)
    let refusal = #expect(throws: StoreError.self) { _ = try open(directory) }
    #expect(refusal?.kind == .missing && refusal?.path == missing)
    #expect(try inspect(directory.state).problems.count == 1)
    #expect(try files(directory).filter { $0.key != "lock" } == before.filter { $0.key != "lock" })
    let accepted = try StateRestore.acceptLoss(in: directory.state, atUnixMicroseconds: 0)
    #expect(accepted?.missing == missing && accepted?.state == directory.database)
    #expect(try open(directory).keys() == ["a"])
    #expect(try DamageRecord(directory: directory.state).findings.count == 1)
    let aside = try files(directory).keys.filter { $0.contains(".log.lost-") }
    #expect(aside.count == (hasLog ? log.count : 0))
    // It is no longer missing, also after a start.
    _ = try started(directory)
    #expect(try inspect(directory.state).problems == [])
    #expect(try StateRestore.acceptLoss(in: directory.state, atUnixMicroseconds: 0) == nil)
  }

  @Test func aBackupReplacesAMissingState() throws {
    try restored("b")
    unlink(directory.database)
    for segment in try StateFiles(directory: directory.state).segments() { unlink(segment.path) }
    #expect(
      try StateRestore.restore(directory.path + "/backup", to: directory.state)
        .hasSuffix("state-3.db"))
    #expect(try open(directory).keys() == ["a"])
  }

  @Test func aStateThatNoDaemonHasUsedIsNotMissed() throws {
    let life = try Life(directory)
    life.backUp(to: directory.path + "/backup")
    life.close()
    unlink(try StateRestore.restore(directory.path + "/backup", to: directory.state))
    #expect(try opened(directory).1 == [])
  }

  @Test func aDirectoryWhoseStatesAreAllMissingStartsWithoutThem() throws {
    try restored("b")
    let newest = directory.database
    for number in 1...2 { unlink(directory.state + "/state-\(number).db") }
    #expect(try opened(directory).1.first == .missing(path: newest))
    #expect(try open(directory).keys() == [])
    _ = try started(directory)
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
    let before = try files(killed)
    let replacement = try Replacement(of: corrupt, options(killed.state), at: now)
    try replacement.fill { writer in
      batch([countdown(1, "new")]).write(to: writer)
      for events in [events(5, 0, "", missingThrough: 5), events(7, 2), events(9)] {
        events.write(to: writer)
      }
    }
    try replacement.finish()
    let store = try replacement.open(at: now)
    #expect(try store.keys() == ["new"])
    // What follows without a gap becomes one row.
    #expect(try store.eventsAfter(5) == ([9], true))
    #expect(try store.eventsAfter(4) == ([5, 9], false))
    let after = try files(killed)
    for (name, bytes) in before where name != "numbers" { #expect(after[name] == bytes, "\(name)") }
    #expect(Set(after.keys).subtracting(before.keys) == ["state-2.db"])
  }

  @Test func anUnfinishedReplacementIsRemoved() throws {
    let killed = try killed()
    let corrupt = try open(killed)
    do {
      let replacement = try Replacement(of: corrupt, options(killed.state), at: reading())
      try replacement.fill { batch([countdown(0, "x")]).write(to: $0) }
    }
    #expect(try files(killed).keys.allSatisfy { !$0.contains("new") && !$0.contains("-2") })
    // What it was to replace goes on.
    #expect(try corrupt.keys() == ["old", "new"])
  }

  @Test func theNextStartContinuesWithAFinishedReplacement() throws {
    let killed = try killed()
    do {
      let corrupt = try open(killed)
      let replacement = try Replacement(of: corrupt, options(killed.state), at: reading())
      try replacement.fill { batch([countdown(1, "new")]).write(to: $0) }
      try replacement.finish()
    }
    do {
      let report = try inspect(killed.state)
      #expect(report.engine.count(.countdown) == 1 && report.problems == [])
    }
    do {
      let (store, findings) = try opened(killed)
      #expect(try findings == [] && store.keys() == ["new"])
    }
    // The corrupt one can still be read with its log.
    #expect(try inspect(killed.state + "/state-1.db").engine.count(.countdown) == 2)
  }

  // MARK: Numbers of events

  @Test(arguments: [
    "last_seq = 3000000000000000000", "last_seq = -1", "ordinal = 9223372036854775807",
    "after_seq = 100", "ordinal = -1",
  ])
  func eventsWithInvalidNumbersAreDamage(change: String) throws {
    var store: Store! = try open(directory)
    for number in 1...3 { try store.write(events(Int64(number) * 10)) }
    try store.database.execute("UPDATE events SET \(change) WHERE last_seq = 20")
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

  // MARK: Records

  /// The rows of other entities are loaded.
  @Test func aDamagedRowIsNamedByKindAndPlace() throws {
    try open(directory).write(batch([countdown(0, "a"), countdown(3, "b"), timer(7, "t")]))
    try change(directory, "UPDATE entities SET sum = sum + 1 WHERE kind = 2 OR place = 3")
    let reader = Reader()
    do {
      try open(directory).loadEntities(reader)
      Issue.record("it is damaged")
    } catch let error as StoreError {
      #expect(error.kind == .corrupt)
      #expect(error.detail.contains("countdown 3 and 1 more make"))
    }
    #expect(reader.sorted.map(\.key) == ["a"])
    #expect(try inspect(directory.state).engine.count(.countdown) == 1)
  }

  @Test(arguments: [false, true])
  func anotherVersionOfARecordIsNoDamage(isInLog: Bool) throws {
    var newer = countdown(1, "b")
    newer.bytes[0] = EntityRecord.version + 1
    if isInLog {
      let life = try Life(directory)
      life.commit(batch([countdown(0, "a"), newer]))
      life.close()
    } else {
      try open(directory).write(batch([countdown(0, "a"), newer]))
    }
    let before = contents(directory.database)
    let kind = StoreError.Kind.newerSchema(
      found: Int(EntityRecord.version) + 1, known: Int(EntityRecord.version))
    do {
      _ = try open(directory).all()
      Issue.record("it was read")
    } catch let error as StoreError {
      #expect(error.kind == kind)
      #expect(error.description.contains("countdownd test wrote it last; nothing was changed"))
    }
    #expect(failure { _ = try inspect(directory.state) } == kind)
    #expect(contents(directory.database) == before)
  }

  @Test func newerTablesAreRefusedAndLeftAlone() throws {
    try open(directory).write(batch([countdown(0, "a")]))
    try change(directory, "PRAGMA user_version = \(Schema.version + 1)")
    let before = contents(directory.database)
    let kind = StoreError.Kind.newerSchema(found: Schema.version + 1, known: Schema.version)
    #expect(failure { _ = try open(directory) } == kind)
    #expect(failure { _ = try inspect(directory.state) } == kind)
    #expect(contents(directory.database) == before)
  }

  @Test(arguments: ["CREATE TABLE t (x)", "PRAGMA application_id = 5", "PRAGMA user_version = 3"])
  func aFileOfAnotherProgramIsLeftAlone(sql: String) throws {
    mkdir(directory.state, 0o700)
    _ = FileManager.default.createFile(atPath: directory.database, contents: nil)
    try Database(directory.database, .readWrite).execute(sql)
    let before = contents(directory.database)
    #expect(failure { _ = try open(directory) } == .foreign)
    #expect(contents(directory.database) == before)
  }
}
