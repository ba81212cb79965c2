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

  @Test func powerCommitsTogetherWhatComesMeanwhile() throws {
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

  @Test func whatWaitsIsCommittedWhenItCloses() throws {
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
  func theLogBeginsAnewWhileCommitsGoOn(durability: Durability) throws {
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
    #expect(try Store.check(directory: desk.directory.state).problems == [])
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
    #expect(try Store.check(directory: restored.state).problems == [])
    let copy = try open(restored).allCountdowns()
    #expect(copy.count == 20_000)
    if copy[0].key == Array("x".utf8) {
      #expect(copy[0].phase == copy[19_999].phase)
    } else {
      #expect(copy[19_999].key == Array("19999".utf8))
    }
    // Commits went on, and a new backup takes the place of the old one.
    _ = desk.allAnswers()
    desk.onLoop { desk.submit(batch(gone: Array(0..<10_000)), as: "") }
    _ = desk.allAnswers()
    let second = desk.directory.path + "/copy.db"
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
