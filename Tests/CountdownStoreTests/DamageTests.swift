import Foundation
import Testing

@testable import CountdownStore

/// Numbers and logs of a state that was damaged.
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
    for _ in 0..<5 { first = try open(directory).firstNumber }
    #expect(first > wallStart + (1 << 33))
    _ = try Store.setAside(directory: directory.state, atUnixMicroseconds: wallStart)
    let second = try open(directory).firstNumber
    #expect(second > first + (1 << 32))
    try FileManager.default.removeItem(atPath: directory.database)
    #expect(try open(directory).firstNumber > second + (1 << 32))
  }

  @Test func numbersRiseWithoutTheirFile() throws {
    var first: Int64 = 0
    for _ in 0..<5 { first = try open(directory).firstNumber }
    try FileManager.default.removeItem(atPath: directory.state + "/numbers")
    #expect(try open(directory).firstNumber > first + (1 << 32))
  }

  @Test func numbersAreReadAgainWhateverWasThere() throws {
    _ = try open(directory)
    try Data(repeating: 0x20, count: 60).write(
      to: URL(fileURLWithPath: directory.state + "/numbers"))
    var first: Int64 = 0
    for _ in 0..<5 { first = try open(directory).firstNumber }
    try FileManager.default.removeItem(atPath: directory.database)
    #expect(try open(directory).firstNumber > first + (1 << 32))
  }

  @Test(arguments: [
    "", "4000000000000000000", "4000000000000000000 4000000000000000001\n", "x x\n", "-5 -5\n",
    "9223372036854775807 9223372036854775807\n", "4000000000000000000 4000000000000000000",
  ])
  func numbersThatMakeNoSenseCountForNothing(text: String) throws {
    let first = try open(directory).firstNumber
    try Data(text.utf8).write(to: URL(fileURLWithPath: directory.state + "/numbers"))
    let second = try open(directory).firstNumber
    #expect(second > first && second < first + (1 << 34))
  }

  // MARK: Meta

  @Test(arguments: [
    ("number_floor", Int64.max), ("number_floor", -1), ("number_floor", .max / 2 + 1),
    ("boot_us", .max), ("boot_us", .min), ("store_minus_boot_us", .max),
    ("store_minus_boot_us", .min), ("wall_us", .min), ("wall_us", .max),
  ])
  func aRowOfMetaThatMakesNoSenseIsDamage(column: String, value: Int64) throws {
    try open(directory).commit(batch([countdown(0, "a")]), at: reading())
    try change(directory, "UPDATE meta SET \(column) = \(value)")
    #expect(try Store.check(directory: directory.state).problems != [])
    for now in [reading(), reading(5, wall: wallStart, bootID: "boot-2")] {
      #expect(failure { _ = try open(directory, at: now) } == .corrupt)
    }
  }

  @Test func timesAndNumbersThatCanJustBeAreRead() throws {
    _ = try open(directory)
    try change(
      directory,
      """
      UPDATE meta SET number_floor = \(Int64.max / 2), boot_us = -100000000000000000,
        wall_us = 100000000000000000, store_minus_boot_us = -100000000000000000
      """)
    #expect(try Store.check(directory: directory.state).problems == [])
    for now in [reading(), reading(5, wall: wallStart, bootID: "boot-2")] {
      #expect(try open(directory, at: now).firstNumber > Int64.max / 2)
      try change(directory, "UPDATE meta SET number_floor = \(Int64.max / 2)")
    }
  }

  // MARK: Logs

  /// A state as `kill -9` leaves it, with its newest commits in the log.
  private func killed() throws -> TemporaryDirectory {
    let killed = TemporaryDirectory()
    var store: Store! = try open(directory)
    try store.commit(batch([countdown(0, "old")]), at: reading())
    store = nil
    store = try open(directory)
    try store.commit(batch([countdown(1, "new")]), at: reading())
    try copyState(directory, killed)
    return killed
  }

  @Test func aLogIsRead() throws {
    let store = try open(killed())
    #expect(try store.keys() == ["old", "new"])
    #expect(store.unreadableLog == nil)
  }

  @Test(arguments: [0, 5, 17, 25, 31])
  func aLogWithADamagedHeaderIsSetAside(place: UInt64) throws {
    let killed = try killed()
    let before = try #require(contents(killed.database + "-wal"))
    try write([before[Int(place)] ^ 0x10], to: killed.database + "-wal", at: place)
    let damaged = contents(killed.database + "-wal")
    let store = try open(killed)
    #expect(try store.keys() == ["old"])
    let aside = try #require(store.unreadableLog)
    #expect(aside.contains("state.db-wal.corrupt-"))
    #expect(contents(aside) == damaged)
  }

  @Test func aLogOfAnEmptyDatabaseIsSetAside() throws {
    let killed = try killed()
    let log = contents(killed.database + "-wal")
    try Data().write(to: URL(fileURLWithPath: killed.database))
    let store = try open(killed)
    #expect(try store.keys() == [])
    #expect(contents(try #require(store.unreadableLog)) == log)
  }

  @Test func whatWasKilledAtItsFirstCommitIsNoDamage() throws {
    let killed = try killed()
    try Data(repeating: 7, count: 500).write(to: URL(fileURLWithPath: killed.database + "-wal"))
    #expect(try open(killed).unreadableLog == nil)
  }

  @Test(arguments: ["", "-wal"])
  func whatWasSetAsideBeforeIsLeftAlone(suffix: String) throws {
    mkdir(directory.state, 0o700)
    var asides: [String] = []
    for n in 0..<3 {
      try Data("\(n)".utf8).write(to: URL(fileURLWithPath: directory.database + suffix))
      // All in the same second.
      asides.append(
        try Store.setAside(directory: directory.state, atUnixMicroseconds: wallStart) + suffix)
    }
    #expect(asides.map(contents) == (0..<3).map { Data("\($0)".utf8) })
  }

  @Test func halfOfACheckpointWithoutItsLogIsCorrupt() throws {
    // Rows for many pages; those in the middle are not looked at to open it.
    try open(directory).commit(batch((10..<5_000).map { countdown($0, "\($0)") }), at: reading())
    let killed = try killed()
    let size = try #require(contents(killed.database)).count
    try write(
      [UInt8](repeating: 0xA5, count: 1_024), to: killed.database, at: UInt64(size / 2048 * 1024))
    let copy = TemporaryDirectory()
    try copyState(killed, copy)
    #expect(try open(copy).unreadableLog == nil)
    try write([UInt8](repeating: 0x55, count: 100), to: killed.database + "-wal")
    #expect(failure { _ = try open(killed) } == .corrupt)
  }
}
