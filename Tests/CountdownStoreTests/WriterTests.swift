import Dispatch
import Foundation
import Testing

@testable import CountdownStore

/// A writer and its loop, here a queue. `@unchecked Sendable`: everything is used on the loop.
private final class Desk: @unchecked Sendable {
  let directory = TemporaryDirectory()
  private let loop = DispatchQueue(label: "loop")
  private(set) var writer: StoreWriter!
  private var answers: [String] = []

  init(_ durability: Durability, _ adjust: (inout Store.Options) -> Void = { _ in }) throws {
    var chosen = options(directory.state, durability)
    adjust(&chosen)
    writer = try StoreWriter(Store(chosen, at: reading())) { [loop] in loop.async(execute: $0) }
  }

  func onLoop<Result>(_ body: () throws -> Result) rethrows -> Result {
    try loop.sync(execute: body)
  }

  func submit(_ batch: StoreBatch, as name: String, then: @escaping () -> Void = {}) {
    writer.submit(batch, at: reading()) { [self] given, error in
      precondition(given.count == batch.count)
      then()
      answers.append(error.map { "\(name) \($0.kind)" } ?? name)
    }
  }

  /// How many have their answer. On the loop.
  var answered: Int { answers.count }

  /// Once nothing waits any more.
  func allAnswers() -> [String] {
    while onLoop({ writer.isBusy }) { usleep(500) }
    return onLoop { answers }
  }

  func wait(until isSo: (StoreWriter) -> Bool) { while !onLoop({ isSo(writer) }) { usleep(500) } }
}

@Suite struct WriterTests {
  @Test func processIsAnsweredAtOnce() throws {
    let desk = try Desk(.process)
    desk.onLoop {
      desk.submit(batch([countdown(0, "a")]), as: "1")
      #expect(!desk.writer.isBusy)
      desk.writer.close(at: reading())
    }
    #expect(desk.allAnswers() == ["1"])
    #expect(try open(desk.directory).keys() == ["a"])
  }

  @Test(arguments: [Durability.process, .power])
  func answersComeInOrder(durability: Durability) throws {
    let desk = try Desk(durability)
    for n in 0..<200 {
      desk.onLoop { desk.submit(batch([countdown(UInt32(n), "\(n)")]), as: "\(n)") }
    }
    #expect(desk.allAnswers() == (0..<200).map { "\($0)" })
    desk.onLoop { desk.writer.close(at: reading()) }
    #expect(try open(desk.directory).keys() == (0..<200).map { "\($0)" })
  }

  @Test func aClosedStoreIsOneFile() throws {
    let desk = try Desk(.process)
    desk.onLoop {
      desk.submit(batch([countdown(0, "a")]), as: "1")
      desk.writer.close(at: reading())
    }
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: desk.directory.state).sorted() == [
        "committed", "lock", "numbers", "state.db",
      ])
  }

  @Test(arguments: [Durability.process, .power])
  func anAnswerMaySubmit(durability: Durability) throws {
    let desk = try Desk(durability)
    desk.onLoop {
      desk.submit(batch([countdown(0, "a")]), as: "1") {
        desk.submit(batch([countdown(1, "b")]), as: "2") {
          desk.submit(batch(gone: [0]), as: "3")
        }
      }
    }
    #expect(desk.allAnswers() == ["1", "2", "3"])
    desk.onLoop { desk.writer.close(at: reading()) }
    #expect(try open(desk.directory).keys() == ["b"])
  }

  @Test func powerCommitsBatchesThatArriveMeanwhileTogether() throws {
    let desk = try Desk(.power)
    desk.onLoop {
      desk.submit(batch([countdown(0, "a")]), as: "1")
      // The first is under way; these two wait for it, and the second undoes the first.
      desk.submit(batch([countdown(1, "b")]), as: "2")
      desk.submit(batch(gone: [1]), as: "3")
      #expect(desk.writer.isBusy)
    }
    #expect(desk.allAnswers() == ["1", "2", "3"])
    desk.onLoop { desk.writer.close(at: reading()) }
    #expect(try open(desk.directory).keys() == ["a"])
  }

  @Test func waitingBatchesAreCommittedOnClose() throws {
    let desk = try Desk(.power)
    desk.onLoop {
      for n in 0..<50 { desk.submit(batch([countdown(UInt32(n), "\(n)")]), as: "\(n)") }
      desk.writer.close(at: reading())
    }
    #expect(try open(desk.directory).counts().countdowns == 50)
  }

  /// The thread that commits may still be letting go of the store, and with it of the directory.
  private func onceItIsLetGo(_ open: () throws -> Store) throws -> Store {
    for _ in 0..<1_000 {
      do {
        return try open()
      } catch let error as StoreError where error.kind == .inUse(pid: getpid()) {
        usleep(10_000)
      }
    }
    return try open()
  }

  @Test(
    .enabled(if: SmallDisk.isPossible, "needs root, to mount a small file system"),
    arguments: [Durability.process, .power])
  func aFailureGivesTheBatchBack(durability: Durability) throws {
    let disk = try SmallDisk(kibibytes: 400)
    let desk = try Desk(durability) { $0.directory = disk.path + "/state" }
    let big = batch((0..<20_000).map { countdown($0, "key-\($0)") })
    desk.onLoop { desk.submit(big, as: "big") }
    #expect(desk.allAnswers() == ["big full"])
    desk.onLoop { desk.submit(batch([countdown(0, "small")]), as: "small") }
    #expect(desk.allAnswers() == ["big full", "small"])
    desk.onLoop { desk.writer.close(at: reading()) }
    let reopened = try onceItIsLetGo { try Store(options(disk.path + "/state"), at: reading()) }
    #expect(try reopened.keys() == ["small"])
  }

  @Test(arguments: [Durability.process, .power])
  func theLogRestartsWhileCommitsGoOn(durability: Durability) throws {
    let desk = try Desk(durability) { $0.checkpointPages = 50 }
    var rows: UInt32 = 0
    var longest = 0
    var beginnings = 0
    while beginnings < 3 {
      desk.onLoop {
        desk.submit(batch((rows..<rows + 20).map { countdown($0, "\($0)") }), as: "")
      }
      rows += 20
      desk.wait { !$0.isBusy }
      let pages = desk.onLoop { desk.writer.logPages }
      if pages < longest { beginnings += 1 }
      longest = pages
    }
    #expect(desk.onLoop { desk.writer.checkpoints } >= 3)
    #expect(desk.onLoop { desk.writer.checkpointError } == nil)
    desk.onLoop { desk.writer.close(at: reading()) }
    #expect(try open(desk.directory).counts().countdowns == Int(rows))
    #expect(try Store.check(directory: desk.directory.state, anyEvents).problems == [])
  }

  @Test(arguments: [Durability.process, .power])
  func theLogRestartsThoughCommitsNeverPause(durability: Durability) throws {
    let desk = try Desk(durability) { $0.checkpointPages = 50 }
    var (longest, beginnings) = (0, 0)
    for turn in 0..<20_000 as Range<UInt32> where beginnings < 3 {
      // The next ones wait by the time that one is done.
      desk.wait { _ in desk.answered > Int(turn) - 20 }
      let rows = (0..<20).map { countdown(turn % 500 * 20 + $0, "k") }
      desk.onLoop { desk.submit(batch(rows), as: "") }
      let pages = desk.onLoop { desk.writer.logPages }
      if pages < longest { beginnings += 1 }
      longest = pages
    }
    #expect(beginnings == 3)
    desk.onLoop { desk.writer.close(at: reading()) }
  }

  @Test func theLogShrinksAgainAfterABurst() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    let checkpointer = try Checkpointer(options(directory.state))
    let meta = [UInt8](repeating: 1, count: 4_096)
    for turn in 0..<4 as Range<UInt32> {
      let rows = (turn * 5_000..<(turn + 1) * 5_000).map { countdown($0, "k", meta: meta) }
      try store.commit(batch(rows), at: reading())
    }
    func size() throws -> Int {
      try FileManager.default.attributesOfItem(atPath: directory.database + "-wal")[.size] as! Int
    }
    #expect(try size() > 64 << 20)
    // Nothing is moved by itself, however long it is.
    #expect(store.logPages > 64 << 10)
    #expect(try checkpointer.pass() == store.logPages)
    try store.commit(batch([countdown(0, "k")]), at: reading())
    #expect(try size() == 64 << 20)
  }

  @Test(
    .enabled(if: SmallDisk.isPossible, "needs root, to mount a small file system"),
    arguments: [4_000: StoreError.Kind.full, 6_000: nil])
  func aCopyLeavesRoomForCommits(kibibytes: Int, kind: StoreError.Kind?) throws {
    let disk = try SmallDisk(kibibytes: kibibytes)
    let store = try Store(options(disk.path + "/state"), at: reading())
    try store.commit(batch((0..<1_000).map { countdown($0, "k") }), at: reading())
    let checkpointer = try Checkpointer(options(disk.path + "/state"))
    let copy = disk.path + "/copy.db"
    let found = failure { () throws(StoreError) in try checkpointer.backUp(to: copy) }
    #expect(found == kind)
    #expect(FileManager.default.fileExists(atPath: copy) == (kind == nil))
  }

  @Test(.enabled(if: SmallDisk.isPossible, "needs root, to mount a small file system"))
  func aFailingCheckpointIsReportedUntilOneWorks() throws {
    let disk = try SmallDisk(kibibytes: 1_024)
    let desk = try Desk(.process) {
      $0.directory = disk.path + "/state"
      $0.checkpointPages = 50
    }
    // The log has room for the next pages, and the database will have none.
    let meta = [UInt8](repeating: 1, count: 900)
    desk.onLoop { desk.submit(batch((0..<80).map { countdown($0, "k", meta: meta) }), as: "") }
    desk.wait { $0.checkpoints == 1 }
    let filler = try #require(fopen(disk.path + "/filler", "w"))
    while fwrite(meta, 1, 900, filler) == 900, fflush(filler) == 0 {}
    fclose(filler)
    desk.onLoop { desk.submit(batch((100..<160).map { countdown($0, "k", meta: meta) }), as: "") }
    desk.wait { $0.checkpointError != nil }
    #expect(desk.onLoop { desk.writer.checkpointError }?.kind == .full)
    #expect(desk.onLoop { desk.writer.checkpoints } == 1)
    // There is no room for a copy, either; SQLite speaks of the copy.
    let error = backUp(desk, to: disk.path + "/state/copy.db")
    #expect(error?.kind == .full && error?.path.hasPrefix(disk.path + "/state/copy.db") == true)
    unlink(disk.path + "/filler")
    // It is tried again once the log is as much longer.
    for _ in 0..<100 {
      desk.onLoop { desk.submit(batch([countdown(100, "k", meta: meta)]), as: "") }
    }
    desk.wait { $0.checkpoints >= 2 }
    #expect(desk.onLoop { desk.writer.checkpointError } == nil)
    desk.onLoop { desk.writer.close(at: reading()) }
  }

  // MARK: Backup

  private func backUp(_ desk: Desk, to path: String, meanwhile: () -> Void = {}) -> StoreError? {
    let done = DispatchSemaphore(value: 0)
    nonisolated(unsafe) var result: StoreError?
    desk.onLoop {
      desk.writer.backUp(to: path, at: nil) { error in
        result = error
        done.signal()
      }
    }
    meanwhile()
    done.wait()
    return result
  }

  @Test(arguments: [Durability.process, .power])
  func aBackupIsAStateOfItsMoment(durability: Durability) throws {
    let desk = try Desk(durability)
    desk.onLoop {
      desk.submit(batch((0..<20_000).map { countdown($0, "\($0)") }), as: "")
    }
    _ = desk.allAnswers()
    let restored = TemporaryDirectory()
    mkdir(restored.state, 0o700)
    // Each turn changes both rows alike: a state in between would show.
    var n: Int64 = 0
    let error = backUp(desk, to: restored.database) {
      for _ in 0..<300 {
        n += 1
        desk.onLoop {
          desk.submit(
            batch([countdown(0, "x", until: n), countdown(19_999, "y", until: n)]), as: "")
        }
      }
    }
    #expect(error == nil)
    let attributes = try FileManager.default.attributesOfItem(atPath: restored.database)
    #expect(attributes[.posixPermissions] as? Int == 0o600)
    #expect(!FileManager.default.fileExists(atPath: restored.database + ".partial"))
    #expect(try Store.check(directory: restored.state, anyEvents).problems == [])
    let copy = try open(restored).allCountdowns()
    #expect(copy.count == 20_000)
    if copy[0].record.key == Array("x".utf8) {
      #expect(copy[0].record.machine.phase == copy[19_999].record.machine.phase)
    } else {
      #expect(copy[19_999].record.key == Array("19999".utf8))
    }
    // Commits went on, and a new backup takes the place of the old one.
    _ = desk.allAnswers()
    desk.onLoop { desk.submit(batch(gone: Array(0..<10_000)), as: "") }
    _ = desk.allAnswers()
    let second = desk.directory.path + "/copy.db"
    // What one that was killed has left is in nobody's way.
    _ = FileManager.default.createFile(atPath: second + ".partial", contents: nil)
    #expect(backUp(desk, to: second) == nil)
    #expect(backUp(desk, to: second) == nil)
    #expect(try Database(second, .readOnly).number("SELECT count(*) FROM countdown") == 10_000)
  }

  @Test func aBackupThatFailsLeavesNothing() throws {
    let desk = try Desk(.process)
    let place = desk.directory.path + "/no/such/place.db"
    #expect(backUp(desk, to: place)?.kind == .inaccessible)
    // A directory is in its way.
    let taken = desk.directory.path + "/taken"
    mkdir(taken, 0o700)
    #expect(backUp(desk, to: taken) != nil)
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: desk.directory.path).sorted() == [
        "state", "taken",
      ])
    // The store goes on.
    desk.onLoop { desk.submit(batch([countdown(0, "a")]), as: "1") }
    #expect(desk.allAnswers() == ["1"])
  }
}
