import CSQLite
import Foundation
import Testing

@testable import CountdownStore

@Suite struct FailureTests {
  @Test func aRowTooLongForSQLiteIsRefusedAndTheNextIsStored() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    sqlite3_limit(store.database.handle, SQLITE_LIMIT_LENGTH, 10_000)
    let long = [countdown(0, "long", meta: Array(repeating: 1, count: 10_001))]
    #expect(throws: StoreError.self) { try store.commit(batch(long), at: reading()) }
    try store.commit(batch([countdown(0, "short")]), at: reading())
    #expect(try store.keys() == ["short"])
  }

  @Test func aFullFileChangesNothingAndTheSameBatchWorksLater() throws {
    let directory = TemporaryDirectory()
    var store: Store! = try open(directory)
    try store.commit(batch([countdown(0, "before")]), at: reading())
    try store.commit(events(5), at: reading())
    let pages = try store.database.number("PRAGMA page_count")
    try store.database.execute("PRAGMA max_page_count = \(pages + 4)")

    var big = batch((0..<1_000).map { countdown($0, "after \($0)") }, gone: [2_000])
    big.events = StoreBatch.Events(lastSequence: 6, count: 1, payload: [1])
    for _ in 0..<3 {
      #expect(failure { try store.commit(big, at: reading()) } == .full)
      #expect(try store.keys() == ["before"])
      #expect(store.lastEventSequence == 5)
      // What has room goes on.
      try store.commit(batch([countdown(0, "before")]), at: reading())
    }
    try store.database.execute("PRAGMA max_page_count = 1000000")
    try store.commit(big, at: reading())
    #expect(try store.counts().countdowns == 1_000)
    #expect(try store.eventsAfter(5) == ([6], true))
    store = nil
    #expect(try open(directory).counts().countdowns == 1_000)
  }

  @Test(arguments: ["state.db", "state.db-wal"])
  func aFileThatWasMovedAwayIsNotWrittenTo(_ name: String) throws {
    let directory = TemporaryDirectory()
    var store: Store! = try open(directory)
    let second: Int64 = 1_000_000
    try store.commit(batch([countdown(0, "a")]), at: reading(second))
    let (file, aside) = (directory.state + "/" + name, directory.state + "/aside")
    func commit(_ index: UInt32, _ key: String, seconds: Int64) throws(StoreError) {
      try store.commit(batch([countdown(index, key)]), at: reading(seconds * second))
    }
    // Gone, and then another in its place.
    #expect(rename(file, aside) == 0)
    #expect(failure { () throws(StoreError) in try commit(1, "b", seconds: 3) } == .moved)
    #expect(FileManager.default.createFile(atPath: file, contents: Data(count: 4_096)))
    #expect(failure { () throws(StoreError) in try commit(1, "b", seconds: 3) } == .moved)
    #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == Data(count: 4_096))
    // Back again.
    #expect(rename(aside, file) == 0)
    try commit(1, "b", seconds: 3)
    store = nil
    #expect(try open(directory).keys() == ["a", "b"])
  }

  @Test(.enabled(if: SmallDisk.isPossible, "needs root, to mount a small file system"))
  func aFullDiskChangesNothingAndRecovers() throws {
    let disk = try SmallDisk(kibibytes: 512)
    var store: Store! = try Store(options(disk.path + "/state"), at: reading())
    let filler = disk.path + "/filler"
    #expect(FileManager.default.createFile(atPath: filler, contents: Data(count: 200 << 10)))
    var committed: UInt32 = 0
    var last: StoreError?
    while committed < 100_000 {
      let next = batch((committed..<committed + 50).map { countdown($0, "key-\($0)") })
      do throws(StoreError) {
        try store.commit(next, at: reading())
        committed += 50
      } catch {
        last = error
        break
      }
    }
    #expect(last?.kind == .full)
    #expect(last?.mayPass == true)
    #expect(try store.counts().countdowns == Int(committed))
    // Space is back: the very batch that failed.
    try FileManager.default.removeItem(atPath: filler)
    try store.commit(
      batch((committed..<committed + 50).map { countdown($0, "key-\($0)") }), at: reading())
    store = nil
    #expect(
      try Store(options(disk.path + "/state"), at: reading()).counts().countdowns
        == Int(committed) + 50)
  }

  @Test(.enabled(if: SmallDisk.isPossible, "needs root, to mount a small file system"))
  func aReadOnlyFileSystemIsReported() throws {
    let disk = try SmallDisk(kibibytes: 1_024)
    _ = try Store(options(disk.path + "/state"), at: reading())
    try disk.makeReadOnly()
    #expect(failure { _ = try Store(options(disk.path + "/state"), at: reading()) } == .readOnly)
    #expect(failure { _ = try Store(options(disk.path + "/new"), at: reading()) } == .readOnly)
  }

  @Test func anUnusableDirectoryIsReported() throws {
    let directory = TemporaryDirectory()
    #expect(
      failure { _ = try Store(options(directory.path + "/no/such"), at: reading()) }
        == .inaccessible)
    _ = FileManager.default.createFile(atPath: directory.state, contents: nil)
    #expect(failure { _ = try open(directory) } == .inaccessible)
  }

  @Test func aSecondDaemonIsTurnedAway() throws {
    let directory = TemporaryDirectory()
    var store: Store! = try open(directory)
    try store.commit(batch([countdown(0, "a")]), at: reading())
    #expect(failure { _ = try open(directory) } == .inUse(pid: getpid()))
    #expect(
      failure { _ = try Store.check(directory: directory.state, anyEvents) }
        == .inUse(pid: getpid()))
    #expect(
      failure { _ = try replaced(directory) } == .inUse(pid: getpid()))
    // The one that is there never noticed.
    try store.commit(batch([countdown(1, "b")]), at: reading())
    store = nil
    #expect(try open(directory).keys() == ["a", "b"])
  }

  @Test func theLockContainsOnlyItsProcessID() throws {
    let directory = TemporaryDirectory()
    mkdir(directory.state, 0o700)
    try Data("12345678901234567890".utf8).write(
      to: URL(fileURLWithPath: directory.state + "/lock"))
    let store = try open(directory)
    #expect(contents(directory.state + "/lock") == Data("\(getpid())\n".utf8))
    withExtendedLifetime(store) {}
  }

  @Test func aChildThatInheritsTheLockDoesNotHoldIt() throws {
    let directory = TemporaryDirectory()
    var store: Store? = try open(directory)
    // As a child has it from fork to exec.
    let lock = try #require(
      (0..<1_024).first { descriptor in
        let path = "/proc/self/fd/\(descriptor)"
        return (try? FileManager.default.destinationOfSymbolicLink(atPath: path))
          == directory.state + "/lock"
      })
    let inherited = dup(Int32(lock))
    defer { close(inherited) }
    _ = store
    store = nil
    _ = try open(directory)
  }

  @Test func anotherProcessIsTurnedAwayAndNamed() throws {
    let directory = TemporaryDirectory()
    let other = try Python(
      """
      import fcntl, os, sys
      os.mkdir(sys.argv[1])
      lock = open(sys.argv[1] + "/lock", "w")
      fcntl.flock(lock, fcntl.LOCK_EX)
      print(os.getpid(), file=lock, flush=True)
      """, directory.state)
    #expect(failure { _ = try open(directory) } == .inUse(pid: other.pid))
    other.end()
    _ = try open(directory)
  }

  @Test func aShellThatHasTheFileOpenIsReported() throws {
    let directory = TemporaryDirectory()
    _ = try open(directory)
    let shell = try Python(
      """
      import sqlite3, sys
      file = sqlite3.connect(sys.argv[1] + "/state.db")
      file.execute("SELECT * FROM countdown").fetchall()
      """, directory.state)
    #expect(failure { _ = try open(directory) } == .locked)
    shell.end()
    let store = try open(directory)
    let late = try Python(
      """
      import sqlite3, sys
      file = sqlite3.connect(sys.argv[1] + "/state.db", timeout=0)
      try: file.execute("SELECT * FROM countdown").fetchall()
      except sqlite3.OperationalError as error: assert "locked" in str(error), error
      else: raise SystemExit("could read it")
      """, directory.state)
    late.end()
    try store.commit(batch([countdown(0, "a")]), at: reading())
  }

  // MARK: Corruption

  @Test func aFileThatIsNoDatabaseIsCorrupt() throws {
    let directory = TemporaryDirectory()
    mkdir(directory.state, 0o700)
    let garbage = Data((0..<5_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    try garbage.write(to: URL(fileURLWithPath: directory.database))
    #expect(failure { _ = try open(directory) } == .corrupt)
    #expect(contents(directory.database) == garbage)
  }

  @Test func aDamagedPageIsFoundAndTheFileSetAside() throws {
    let directory = TemporaryDirectory()
    try open(directory).commit(batch((0..<5_000).map { countdown($0, "\($0)") }), at: reading())
    let file = try FileHandle(forUpdating: URL(fileURLWithPath: directory.database))
    try file.seek(toOffset: 1_024 * 60)
    try file.write(contentsOf: Data(repeating: 0xa5, count: 1_024 * 20))
    try file.close()

    let report = try Store.check(directory: directory.state, anyEvents)
    #expect(!report.problems.isEmpty)
    var store: Store! = try open(directory)
    #expect(failure { try StructureCheck(of: store).run() } == .corrupt)
    #expect(failure { _ = try store.allCountdowns() } == .corrupt)
    store = nil

    let damaged = contents(directory.database)
    _ = FileManager.default.createFile(
      atPath: directory.database + "-wal", contents: Data("log".utf8))
    let now = reading(wall: 1_790_000_000_000_000)
    let (aside, _) = try replaced(directory, at: now)
    #expect(aside == directory.database + ".corrupt-20260921T141320Z")
    #expect(contents(aside) == damaged)
    #expect(contents(aside + "-wal") == Data("log".utf8))
    // A second one in the same second gets a name of its own.
    #expect(try open(directory).keys() == [])
    let (second, _) = try replaced(directory, at: now)
    #expect(second == aside + "-2")
    #expect(contents(aside) == damaged)
  }

  @Test(arguments: [
    "UPDATE countdowns SET phase = 7", "UPDATE countdowns SET deadline_store_us = NULL",
    "UPDATE countdowns SET uid = -1", "UPDATE countdowns SET id = 5000000000",
    "UPDATE countdowns SET left_us = 1", "DROP TABLE timers",
  ])
  func checkFindsInvalidRows(sql: String) throws {
    let directory = TemporaryDirectory()
    var store: Store! = try open(directory)
    try store.commit(batch([countdown(0, "a")]), at: reading())
    try store.database.execute("PRAGMA ignore_check_constraints = ON")
    try store.database.execute(sql + "; UPDATE countdowns SET sum = NULL")
    store = nil
    #expect(
      failure { _ = try open(directory).allCountdowns() } == .corrupt)
    #expect(try Store.check(directory: directory.state, anyEvents).problems.count == 1)
  }

  @Test func checkReportsASoundState() throws {
    let directory = TemporaryDirectory()
    try open(directory).commit(batch([countdown(0, "a"), countdown(1, "b")]), at: reading())
    let report = try Store.check(directory: directory.state, anyEvents)
    #expect(report.problems == [])
    #expect(report.counts[.countdown] == 2)
    #expect(report.schemaVersion == Schema.current.version)
    #expect(report.product == "countdownd test")
    #expect(failure { _ = try Store.check(directory: directory.path, anyEvents) } == .inaccessible)
  }

  @Test func onlyItsUserMayReadTheState() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    try store.commit(batch([countdown(0, "a")]), at: reading())
    for name in ["state.db", "state.db-wal", "lock"] {
      let attributes = try FileManager.default.attributesOfItem(
        atPath: directory.state + "/" + name)
      #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
    }
    #expect(!FileManager.default.fileExists(atPath: directory.database + "-shm"))
  }

  @Test func errorsSayWhatToDo() {
    let error = StoreError(.inUse(pid: 42), "/s/lock", "it is locked")
    #expect(
      error.description
        == "another countdownd uses this state directory (pid 42): /s/lock (it is locked). "
        + "Stop the other one, or give this one a --state-directory of its own.")
  }
}
