import Foundation
import SeededRandom
import Synchronization
import Testing

@testable import CountdownStore
@testable import Countdowns

/// The log of changes: what is read of it after whatever happened to it.
@Suite struct LogTests {
  private let directory = TemporaryDirectory()
  private let copy = TemporaryDirectory()

  private func segment(_ number: UInt64, of directory: TemporaryDirectory) throws -> String {
    try StateFiles(directory: directory.state).segment(number)
  }

  /// A state as `kill -9` leaves it after one batch for each of these keys.
  private func killed(after keys: String...) throws {
    let life = try Life(directory)
    for key in keys { life.commit(key) }
    try copyState(directory, copy)
    life.close()
  }

  /// The frames in a segment, up to the leftovers of its earlier use.
  private func frames(_ path: String) throws -> [LogFrame] {
    let bytes = [UInt8](try #require(contents(path)))
    var frames: [LogFrame] = []
    var place = LogSegment.headerLength
    while let frame = LogFrame(in: bytes, at: place),
      frames.last.map({ frame.number == $0.number + 1 }) ?? true
    {
      frames.append(frame)
      place = frame.end
    }
    return frames
  }

  private func change(_ path: String, _ body: (inout [UInt8]) -> Void) throws {
    var bytes = [UInt8](try #require(contents(path)))
    body(&bytes)
    try Data(bytes).write(to: URL(fileURLWithPath: path))
  }

  private func problems() throws -> [String] {
    try inspect(copy.state).problems
  }

  // MARK: Frames

  @Test func theChecksumIsCRC32C() {
    // RFC 3720, appendix B.4; and the usual check value.
    let vectors: [([UInt8], UInt32)] = [
      ([UInt8](repeating: 0, count: 32), 0x8a91_36aa),
      ([UInt8](repeating: 0xFF, count: 32), 0x62a8_ab43),
      (Array(0..<32), 0x46dd_794e), (Array("123456789".utf8), 0xe306_9283), ([], 0),
    ]
    for (bytes, sum) in vectors {
      #expect(CRC32C.checksum(bytes[...]) == sum)
      #expect(CRC32C.slowChecksum(bytes.span) == sum)
    }
  }

  @Test(arguments: [0, 1, 7, 8, 9, 1_000])
  func aFrameIsReadAsItWasWritten(length: Int) throws {
    let payload = (0..<length).map { UInt8(truncatingIfNeeded: $0) }
    var bytes: [UInt8] = []
    LogFrame.write(payload, number: 1 << 40, start: 7, seal: 3, to: &bytes)
    #expect(bytes.count % 8 == 0)
    let frame = try #require(LogFrame(in: bytes, at: 0))
    #expect(
      frame.number == 1 << 40 && frame.start == 7 && frame.seal == 3 && frame.end == bytes.count)
    #expect(Array(bytes[frame.payload]) == payload)
    for place in 0..<frame.payload.upperBound {
      var changed = bytes
      changed[place] ^= 4
      #expect(LogFrame(in: changed, at: 0) == nil)
    }
    #expect(LogFrame(in: Array(bytes.dropLast(length % 8 == 0 ? 1 : 8)), at: 0) == nil)
  }

  @Test func aBatchThatIsLongerThanAFrameIsRefused() throws {
    let store = try open(directory)
    let log = try ChangeLog(
      store.files, store.options, store.log, lineage: store.meta.lineage, start: store.meta.start)
    let last = log.lastNumber
    // Memory that nobody touches takes no room.
    let batch = [UInt8](unsafeUninitializedCapacity: 1 << 32) { $1 = $0.count }
    #expect(failure { try log.append(batch) } == .misuse)
    #expect(log.lastNumber == last)
  }

  @Test func recordsBeyondTwoGibibytesAreFound() throws {
    // Memory that nobody touches takes no room.
    let start = 1 << 31 + 4_096
    var segment = [UInt8](unsafeUninitializedCapacity: start + 4) { $1 = $0.count }
    for offset in 0..<4 { segment[start + offset] = UInt8(offset) }
    var changes = NewestChanges()
    let record = segment[start..<start + 4]
    for entry in [.current(.timer, slot: 1, record), .gone(.timer, slot: 2)] as [ChangeEntry] {
      let isNoted = changes.note(entry, inSegment: 0)
      #expect(isNoted)
    }
    changes.sort()
    #expect(changes.isNewest(.timer, 1, record, inSegment: 0))
    var found: [[UInt8]?] = []
    try changes.forEachChange { found.append($0.bytes(in: [segment]).map(Array.init)) }
    #expect(found == [[0, 1, 2, 3], nil])
  }

  // MARK: What is read

  @Test func allThatWasCommittedIsReadAfterAKill() throws {
    let life = try Life(directory)
    life.commit("a", "b", "c")
    life.commit(batch([countdown(0, "d")], gone: [1]))
    try copyState(directory, copy)
    life.close()
    #expect(try problems() == [])
    #expect(try open(copy).keys() == ["d", "c"])
  }

  @Test func segmentsAreFoldedAndUsedAgain() throws {
    let life = try Life(directory)
    let long = [UInt8](repeating: 1, count: 1_000)
    // Ten entities again and again: much more than there is room for in the log.
    for n in 0..<2_000 {
      let row = countdown(UInt32(n % 10), "key-\(n % 10)", until: Int64(n), meta: long)
      #expect(life.commit(batch([row])))
    }
    life.close()
    let files = try FileManager.default.contentsOfDirectory(atPath: directory.state)
    #expect(files.count { $0.hasSuffix(".log") } < 30)
    let store = try open(directory)
    #expect(try store.all().count == 10)
    #expect(try store.all().allSatisfy { $0.bytes.count > long.count })
    // A segment has about 60 batches, and there are fewer than 30.
    #expect(store.meta.folded > 100)
    #expect(life.failures.first == nil)
  }

  @Test func aBatchMayBeLongerThanASegment() throws {
    let life = try Life(directory)
    let rows = (0..<200).map {
      countdown(UInt32($0), "\($0)", meta: [UInt8](repeating: 9, count: 1_000))
    }
    life.commit("a")
    #expect(life.commit(batch(rows)))
    #expect(life.commit(batch([countdown(500, "last")])))
    // Segments are used again at any moment before.
    life.close()
    try copyState(directory, copy)
    #expect(try open(copy).all().count == 201)
    #expect(try problems() == [])
  }

  @Test func batchesOfManyStartsAreRead() throws {
    for key in ["a", "b", "c"] {
      let life = try Life(directory)
      life.commit(key)
      life.close()
    }
    #expect(try open(directory).keys() == ["a", "b", "c"])
  }

  // MARK: Damage

  @Test(arguments: [1, 20, 25, 60])
  func aTornLastFrameIsNoDamage(length: Int) throws {
    try killed(after: "a", "b")
    let path = try segment(1, of: copy)
    let last = try #require(frames(path).last)
    let start = last.payload.lowerBound - LogFrame.headerLength
    try change(path) { for place in (start + length)..<last.end { $0[place] = 0 } }
    #expect(try problems() == [])
    let store = try open(copy)
    #expect(try store.keys() == ["a"])
    #expect(store.damage == nil)
  }

  @Test func aChangedFrameThatOthersFollowIsALoss() throws {
    try killed(after: "a", "b", "c")
    let path = try segment(1, of: copy)
    let second = try frames(path)[2]
    try change(path) { $0[second.payload.lowerBound + 3] ^= 1 }
    #expect(try problems().count == 1)
    let store = try open(copy)
    #expect(store.damage?.kind == .corrupt)
    #expect(try store.keys() == ["a"])
  }

  @Test func whatIsLeftOfBeforeIsNotReadAgain() throws {
    try killed(after: "a", "b", "c")
    let path = try segment(1, of: copy)
    let frame = try frames(path)[2]
    // After a power failure `process` may have lost a batch, but not those after it.
    try change(path) { for place in frame.payload { $0[place] = 0 } }
    let rebooted = reading(5, wall: wallStart + 60_000_000, bootID: "boot-2")
    var findings: [Store.Finding] = []
    do {
      let store = try Store(options(copy.state), at: rebooted) { findings.append($0) }
      #expect(store.damage == nil && findings.count == 1)
      #expect(try store.keys() == ["a"])
    }
    let life = try Life(copy, at: rebooted)
    life.commit("d")
    life.close(at: rebooted)
    #expect(try open(copy, at: rebooted).keys() == ["a", "d"])
    #expect(try problems() == [])
  }

  private let rebooted = reading(5, wall: wallStart + 60_000_000, bootID: "boot-2")

  /// A state whose tables do not know the newest starts, as the log was not folded meanwhile.
  @Test func aStartAfterALossHasANewNumber() throws {
    try Life(directory).close()
    let lost = try Life(directory)
    lost.commit("a", "b")
    lost.close()
    let survives = try Life(directory)
    survives.commit("c", "d", "e", "f")
    try copyState(directory, copy)
    survives.close()
    let path = try segment(1, of: copy)
    let all = try frames(path)
    let hole = try #require(all.first { $0.start == 2 })
    let rest = all.filter { $0.start == 3 }
    try change(path) {
      for place in (hole.payload.lowerBound - LogFrame.headerLength)..<rest[0].payload.lowerBound {
        $0[place] = 0
      }
    }
    let life = try Life(copy, at: rebooted)
    life.commit("d")
    life.close(at: rebooted)
    let starts = try frames(path).map(\.start)
    #expect(starts.contains(4) && !starts.contains(3))
    // Frames of the start that was lost follow, and are neither read nor missed.
    let left = [UInt8](try #require(contents(path)))
    #expect(LogFrame(in: left, at: rest[3].payload.lowerBound - LogFrame.headerLength) != nil)
    #expect(try problems() == [])
    #expect(try open(copy, at: rebooted).keys() == ["d"])
  }

  @Test func aStartAfterTheLossOfAllFramesHasANewLog() throws {
    let life = try Life(directory)
    life.commit("a", "b", "c")
    try copyState(directory, copy)
    life.close()
    let path = try segment(1, of: copy)
    let first = try frames(path)[0]
    try change(path) { for place in 32..<first.end { $0[place] = 0 } }
    let again = try Life(copy, at: rebooted)
    again.commit("d")
    let killed = TemporaryDirectory()
    try copyState(copy, killed)
    again.close(at: rebooted)
    #expect(try inspect(killed.state).problems == [])
    #expect(try open(killed, at: rebooted).keys() == ["d"])
  }

  /// Bytes of a record that look like frames of this log, wherever they are.
  private func planted(_ number: UInt64, _ payload: [UInt8] = []) -> [UInt8] {
    var all: [UInt8] = []
    for start in 1...3 as ClosedRange<UInt32> {
      var frame: [UInt8] = []
      LogFrame.write(payload, number: number, start: start, to: &frame)
      for shift in 0..<8 { all += [UInt8](repeating: 0, count: shift) + frame }
    }
    return all
  }

  @Test func bytesOfARecordThatLookLikeALaterFrameAreNoLoss() throws {
    let number: UInt64 = 1 << 20
    let store = try open(directory)
    let tables = try Checkpoint(store.options, store.database, store.meta)
    let log = try ChangeLog(
      store.files, store.options, store.log, lineage: store.meta.lineage, start: store.meta.start)
    let writer = ChangeWriter(offset: store.clock.offset)
    batch([countdown(0, "a", meta: planted(number))]).write(to: writer)
    func fillSegment() throws { while log.fullSegments == 0 { try log.append(writer.bytes) } }
    try fillSegment()
    let full = log.oldestFull(1)
    try tables.fold(full.segments, through: full.last)
    try log.recycle(1)
    try fillSegment()
    // The segment that is used again has few new frames, and the bytes of many records.
    let path = log.currentSegment.path
    let (bytes, end) = (
      [UInt8](try #require(contents(path))), try #require(try frames(path).last?.end)
    )
    #expect(
      stride(from: end, to: bytes.count, by: 8).contains {
        LogFrame(in: bytes, at: $0)?.number == number
      })
    try copyState(directory, copy)
    #expect(try problems() == [])
    for now in [reading(), rebooted] {
      var findings: [Store.Finding] = []
      let store = try Store(options(copy.state), at: now) { findings.append($0) }
      #expect(store.damage == nil && findings == [])
      #expect(try store.keys() == ["a"])
    }
  }

  @Test func bytesOfARecordThatLookLikeTheNextFrameAreNotRead() throws {
    try killed(after: "a", "b")
    let path = try segment(1, of: copy)
    let last = try #require(try frames(path).last)
    let forged = ChangeWriter(offset: 0)
    batch(gone: [0, 1]).write(to: forged)
    var bytes: [UInt8] = []
    LogFrame.write(forged.bytes, number: last.number + 1, start: last.start, to: &bytes)
    try change(path) { $0.replaceSubrange(last.end..<last.end + bytes.count, with: bytes) }
    #expect(try problems() == [])
    #expect(try open(copy).keys() == ["a", "b"])
    let life = try Life(copy)
    life.backUp(to: copy.path + "/made")
    life.close()
    #expect(life.failures.first == nil)
    #expect(try inspect(copy.path + "/made").engine.count(.countdown) == 2)
  }

  @Test func aLogWithoutASealIsRead() throws {
    try killed(after: "a", "b")
    let path = try segment(1, of: copy)
    try change(path) { bytes in
      for frame in try! frames(path) {
        var plain: [UInt8] = []
        LogFrame.write(
          Array(bytes[frame.payload]), number: frame.number, start: frame.start, to: &plain)
        bytes.replaceSubrange(frame.payload.lowerBound - 24..<frame.end, with: plain)
      }
    }
    let life = try Life(copy)
    life.commit("c")
    life.close()
    #expect(try open(copy).keys() == ["a", "b", "c"])
    #expect(Set(try frames(path).map(\.seal)).count == 2)
    #expect(try problems() == [])
  }

  @Test func aMissingLogIsALoss() throws {
    let life = try Life(directory)
    for n in 0..<300 {
      life.commit(
        batch([countdown(0, "a", until: Int64(n), meta: .init(repeating: 0, count: 900))]))
    }
    life.close()
    let numbers = try StateFiles(directory: directory.state).segments()
    #expect(try open(directory).meta.folded > 0)
    for segment in numbers { unlink(segment.path) }
    #expect(try open(directory).damage?.kind == .corrupt)
  }

  @Test func aSegmentThatWasCutShortIsALoss() throws {
    try killed(after: "a", "b")
    let path = try segment(1, of: copy)
    let end = try frames(path)[1].end
    truncate(path, off_t(end))
    #expect(try problems().count == 1)
    #expect(try open(copy).keys() == ["a"])
  }

  @Test func aMissingSegmentIsALoss() throws {
    let life = try Life(directory)
    let long = [UInt8](repeating: 0, count: 30_000)
    for n in 0..<9 { life.commit(batch([countdown(UInt32(n), "\(n)", meta: long)])) }
    life.close()
    try copyState(directory, copy)
    let segments = try StateFiles(directory: copy.state).segments()
    // Those that were used before have frames of then.
    func newest(_ segment: FoundSegment) -> UInt64 {
      (try? frames(segment.path))?.last?.number ?? 0
    }
    let last = try #require(segments.max { newest($0) < newest($1) })
    unlink(last.path)
    #expect(try open(copy).damage?.kind == .corrupt)
  }

  @Test func theLogOfAnotherStateIsSetAside() throws {
    try killed(after: "a")
    // A backup is a state of its own.
    let backup = TemporaryDirectory()
    let life = try Life(backup)
    life.commit(batch([countdown(3, "backup")]))
    life.backUp(to: backup.path + "/made")
    life.close()
    unlink(copy.database)
    try FileManager.default.copyItem(atPath: backup.path + "/made", toPath: copy.database)
    #expect(try problems() == [])
    var findings: [Store.Finding] = []
    let store = try Store(options(copy.state), at: reading()) { findings.append($0) }
    #expect(store.damage == nil)
    #expect(try store.keys() == ["backup"])
    guard case .otherLog(let place)? = findings.first else {
      Issue.record("\(findings)")
      return
    }
    #expect(place.contains("state-1-changes-0000000001.log.other-") && contents(place) != nil)
  }
}

/// Batches are stored in order, and each is confirmed only once it is stored.
@Suite struct WriterTests {
  private let directory = TemporaryDirectory()

  /// With `power`, for a loop that runs on a queue.
  private func writer(
    in directory: TemporaryDirectory, _ queue: DispatchQueue
  ) throws -> StoreWriter {
    try StoreWriter(
      Store(options(directory.state, .power), at: reading()), eventsAfter: 0, at: reading(),
      execute: { queue.async(execute: $0) },
      failed: { Issue.record($0) })
  }

  private func fact(_ name: String, of life: Life) -> Int {
    life.writer.facts.first { $0.name == name }.flatMap { Int($0.value) } ?? -1
  }

  private func fill(_ segments: Int, of life: Life) {
    for n in 0..<segments * 16 {
      life.commit(
        batch([countdown(UInt32(n), "\(n)", meta: [UInt8](repeating: 1, count: 4_000))]))
    }
  }

  @Test(.timeLimit(.minutes(5))) func foldingBeginsAfterAPause() throws {
    let life = try Life(directory, pauseMicroseconds: 1)
    fill(2, of: life)
    while fact("folds", of: life) == 0 { usleep(1_000) }
    life.close()
  }

  @Test(.timeLimit(.minutes(5))) func foldingBeginsWithoutAPauseWhenTheLogIsLong() throws {
    let short = try Life(directory)
    fill(4, of: short)
    #expect(fact("log_segments", of: short) > 3)
    // Waits until what has begun is done.
    short.close()
    #expect(fact("folds", of: short) == 0)

    let another = TemporaryDirectory()
    let life = try Life(another)
    fill(9, of: life)
    while fact("folds", of: life) == 0 { usleep(1_000) }
    life.close()
  }

  @Test func withPowerBatchesAreAnsweredInOrderOnceTheyAreOnTheDisk() throws {
    let queue = DispatchQueue(label: "loop")
    let answers = Mutex<[Int]>([])
    let done = DispatchSemaphore(value: 0)
    let writer = try writer(in: directory, queue)
    queue.sync {
      for n in 0..<50 {
        batch([countdown(UInt32(n), "\(n)")]).write(to: writer.batch)
        writer.commit(at: reading()) {
          answers.withLock { $0.append(n) }
          if n == 49 { done.signal() }
        }
        #expect(writer.isBusy)
      }
    }
    done.wait()
    #expect(answers.withLock(\.self) == Array(0..<50))
    queue.sync { writer.close(at: reading()) }
    #expect(try open(directory).count() == 0)
    #expect(try open(directory).all().count == 50)
  }

  @Test func withPowerTheLoopItselfAppendsWhileTheDiskIsFast() throws {
    // Nothing waits for a disk there.
    let directory = TemporaryDirectory(at: "/dev/shm/countdownd-\(UUID().uuidString)")
    try #require(mkdir(directory.path, 0o700) == 0)
    let queue = DispatchQueue(label: "loop")
    let answers = Mutex<[Int]>([])
    let writer = try writer(in: directory, queue)
    var count = 0
    func commit() -> Bool {
      queue.sync {
        let n = count
        count += 1
        batch([countdown(UInt32(n), "\(n)")]).write(to: writer.batch)
        let answer = { answers.withLock { $0.append(n) } }
        switch writer.commitAtOnce(at: reading()) {
        case .stored: answer()
        case .waits: writer.commitLater(answer)
        case .failed: Issue.record("it could not be stored")
        }
        return answers.withLock { $0.last == n }
      }
    }
    func gathers() -> Bool { queue.sync { writer.gathersForMicroseconds > 0 } }
    func isDone() -> Bool { queue.sync { !writer.isBusy } }
    #expect(!commit())
    #expect(!gathers())
    while !isDone() { usleep(100) }
    while count < 10_000, !commit() { while !isDone() { usleep(100) } }
    #expect(count > 8)
    #expect(gathers())
    #expect(answers.withLock(\.self) == Array(0..<count))
    queue.sync { writer.close(at: reading()) }
    #expect(try open(directory).all().count == count)
  }

  @Test func theLoopDoesNotWaitForASlowDisk() {
    var shortcut = Shortcut()
    func append(_ times: Int, _ microseconds: Int64) -> Bool {
      for _ in 0..<times { shortcut.note(appending: microseconds) }
      return shortcut.isOpen
    }
    #expect(!shortcut.isOpen)
    #expect(!append(8, 200))
    #expect(append(16, 200))
    #expect(append(1, 2_000))
    #expect(!append(1, 20_000))
    #expect(append(32, 200))
    #expect(!append(32, 1_100))
  }

  @Test func whatTheLogHasChangedIsFoundInAnyOrder() {
    let kinds: [EntityKind] = [.countdown, .timer, .throttle]
    var changes = NewestChanges()
    for place in stride(from: UInt32(90), to: 0, by: -3) {
      for kind in kinds {
        for segment in 0..<2 {
          let isNoted = changes.note(.gone(kind, slot: place), inSegment: segment)
          #expect(isNoted)
        }
      }
    }
    changes.sort()
    var generator = SeededGenerator(seed: 1)
    let entities = kinds.flatMap { kind in (0..<100 as Range<UInt32>).map { (kind, $0) } }
    for entities in [
      entities, entities.reversed(), entities.shuffled(using: &generator), entities + entities,
    ] {
      var search = NewestChanges.Search(changes)
      for (kind, place) in entities {
        let isThere = place % 3 == 0 && place > 0 && place <= 90
        let isFound = search.contains(kind, place)
        #expect(isFound == isThere, "\(kind) \(place)")
      }
    }
    var nothing = NewestChanges.Search(NewestChanges())
    let isFound = nothing.contains(.countdown, 0)
    #expect(!isFound)
  }

  @Test func aSyncThatFailsAfterARenameKeepsNoOldPath() throws {
    let store = try open(directory)
    let log = try ChangeLog(
      store.files, store.options, store.log, lineage: store.meta.lineage, start: store.meta.start)
    func fill(_ segments: Int) throws {
      while log.fullSegments < segments {
        try log.append([UInt8](repeating: 0, count: 10_000))
      }
    }
    try fill(1)
    // One descriptor is left: that of the renamed segment. The directory cannot be opened.
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let next = dup(0)
    close(next)
    var low = limit
    low.rlim_cur = rlim_t(next + 1)
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &low)
    let failed = failure { try log.recycle(1) }
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    #expect(failed == .inaccessible)
    log.reserve()
    #expect(log.problem == nil)
    try fill(2)
    for segment in log.oldestFull(2).segments { #expect(try !segment.read().isEmpty) }
    try log.recycle(2)
    #expect(log.fullSegments == 0)
  }

  private func fillTables(_ rows: Int) throws {
    let meta = [UInt8](repeating: 1, count: 1_000)
    try open(directory).write(batch((0..<UInt32(rows)).map { countdown($0, "\($0)", meta: meta) }))
    try Life(directory).close()
  }

  @Test func foldingGoesOnBesideACopy() throws {
    let rows = 2_000
    let backup = TemporaryDirectory()
    try fillTables(rows)
    let store = try open(directory)
    let log = try ChangeLog(
      store.files, store.options, store.log, lineage: store.meta.lineage, start: store.meta.start)
    let checkpoint = try Checkpoint(store.options, store.database, store.meta)
    let copy = try checkpoint.beginCopy(to: backup.path + "/made")
    var steps = 0
    while try !copy.goOn(for: 0) {
      // The page of the first row is copied already, that of the last one is not.
      steps += 1
      let changes = ChangeWriter(offset: wallStart)
      batch([countdown(0, "changed-\(steps)"), countdown(UInt32(rows + steps), "new-\(steps)")])
        .write(to: changes)
      try log.append(changes.bytes)
      try checkpoint.fold(log.all.segments, through: log.all.last)
    }
    #expect(steps > 3)
    try checkpoint.finish(copy)
    let made = try inspect(backup.path + "/made")
    #expect(made.problems == [])
    #expect(made.engine.count(.countdown) == rows + steps)
    #expect(made.engine.get(CountdownKind.self, "changed-\(steps)".utf8.span, at: made.now) != nil)
  }

  @Test func aCopyThatIsNotCompleteIsRemoved() throws {
    let backup = TemporaryDirectory()
    try fillTables(2_000)
    let store = try open(directory)
    let checkpoint = try Checkpoint(store.options, store.database, store.meta)
    var copy: StateCopy? = try checkpoint.beginCopy(to: backup.path + "/made")
    #expect(try copy?.goOn(for: 0) == false)
    #expect(try FileManager.default.contentsOfDirectory(atPath: backup.path) != [])
    copy = nil
    #expect(try FileManager.default.contentsOfDirectory(atPath: backup.path) == [])
  }

  @Test func theEndInterruptsACopy() throws {
    let backup = TemporaryDirectory()
    try fillTables(100)
    let life = try Life(directory)
    let isAnswered = DispatchSemaphore(value: 0)
    let isEnding = DispatchSemaphore(value: 0)
    // In this test, answers are called on the thread that copies.
    life.writer.backUp(to: backup.path + "/first", at: nil) { error in
      #expect(error == nil)
      isAnswered.signal()
      isEnding.wait()
    }
    life.writer.backUp(to: backup.path + "/second", at: nil) { _ in
      Issue.record("there is nobody to answer")
    }
    isAnswered.wait()
    life.writer.upkeep.endSoon()
    isEnding.signal()
    life.close()
    #expect(try FileManager.default.contentsOfDirectory(atPath: backup.path) == ["first"])
  }

  @Test func filesThatWereMovedAreNoticed() throws {
    let life = try Life(directory)
    func problem(at now: Int64) -> StoreError.Kind? {
      life.writer.problem(atBootMicroseconds: now)?.kind
    }
    var now: Int64 = 0
    #expect(problem(at: now) == nil)
    for path in [directory.database, try StateFiles(directory: directory.state).segment(1)] {
      rename(path, path + ".away")
      now += 1_000
      #expect(problem(at: now) == .missing)
      rename(path + ".away", path)
      #expect(problem(at: now + 999) == .missing)
      now += 1_000
      #expect(problem(at: now) == nil)
    }
    for number in [2, 7] {
      let newer = directory.state + "/state-\(number).db"
      #expect(FileManager.default.createFile(atPath: newer, contents: nil))
      now += 1_000
      #expect(problem(at: now) == .superseded)
      unlink(newer)
      now += 1_000
      #expect(problem(at: now) == nil)
    }
    life.close()
  }

  @Test func aFullDiskIsNoticedBeforeABatchIsBegun() throws {
    guard SmallDisk.isPossible else { return }
    let disk = try SmallDisk(kibibytes: 260)
    let small = TemporaryDirectory(at: disk.path)
    // Two segments fit, and not a third.
    let life = try Life(small)
    let long = [UInt8](repeating: 0, count: 20_000)
    var stored = 0
    while life.writer.problem(atBootMicroseconds: Int64(stored) * 2_000) == nil, stored < 1_000 {
      let isStored = life.commit(batch([countdown(UInt32(stored), "\(stored)", meta: long)]))
      #expect(isStored)
      stored += 1
      usleep(5_000)
    }
    #expect(stored > 2 && stored < 1_000)
    #expect(life.failures.first == nil)
    // What is under way still fits.
    #expect(life.commit(batch([countdown(2_000, "last")])))
    life.close()
    let store = try Store(options(small.state), at: reading())
    #expect(try store.all().count == stored + 1)
  }
}
