import Foundation
import Synchronization
import Testing

@testable import CountdownStore
@testable import Countdowns

/// A directory of the test's own; it goes with this.
final class TemporaryDirectory {
  let path: String

  /// Below a directory that goes by itself.
  init(at path: String) { self.path = path }

  init() {
    let template = FileManager.default.temporaryDirectory.path + "/countdown-store-XXXXXX"
    var name = Array(template.utf8CString)
    precondition(mkdtemp(&name) != nil)
    path = name.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  var state: String { path + "/state" }
  /// The newest state, or the first one while there is none.
  var database: String {
    (try? StateFiles(directory: state))?.database ?? state + "/state-1.db"
  }
}

/// The first number of a daemon that starts and ends.
func started(
  _ directory: TemporaryDirectory, at now: StoreClock.Reading = reading()
) throws -> Int64 {
  let first = try open(directory, at: now).firstNumber
  try Life(directory, at: now).close(at: now)
  return first
}

let wallStart: Int64 = 1_790_000_000_000_000

/// So many microseconds after the boot.
func reading(
  _ boot: Int64 = 1_000_000, wall: Int64? = nil, bootID: String = "boot-1"
) -> StoreClock.Reading {
  StoreClock.Reading(
    bootID: bootID, bootMicroseconds: boot, wallMicroseconds: wall ?? wallStart + boot)
}

func options(
  _ directory: String, _ durability: Durability = .process
) -> Store.Options {
  var options = Store.Options(
    directory: directory, durability: durability, product: "countdownd test")
  options.segmentSize = 65_536
  // Folding at a moment that no test expects would change what a test finds.
  options.pauseMicroseconds = 3_600_000_000
  return options
}

func open(_ directory: TemporaryDirectory, at now: StoreClock.Reading = reading()) throws -> Store {
  try Store(options(directory.state), at: now)
}

/// A record of an entity, on the store's clock.
struct TestRecord: Equatable {
  var kind = EntityKind.countdown
  var slot: UInt32
  var bytes: [UInt8]

  var key: String {
    String(decoding: EntityRecord.key(of: bytes.span).map { bytes[$0] } ?? [], as: UTF8.self)
  }
}

/// - Parameter until: on the store's clock.
func countdown(
  _ index: UInt32, _ key: String, until: Int64 = wallStart, meta: [UInt8]? = nil
) -> TestRecord {
  var state = CountdownEntity(
    machine: Countdown(
      Countdown.Plan(count: 60, every: .seconds(1))!,
      .counting(until: Instant(microseconds: until - wallStart)), sends: 1, isRefunded: false),
    generation: Generation(Int64(index) + 1), uid: 1_000, titles: nil)
  state.annotations.meta = meta
  return record(CountdownKind.self, index, key, &state)
}

func timer(_ index: UInt32, _ key: String) -> TestRecord {
  var state = TimerEntity.blank(key.utf8.span)
  return record(TimerKind.self, index, key, &state)
}

func record<K: Kind>(
  _ kind: K.Type, _ index: UInt32, _ key: String, _ state: inout K.State
) -> TestRecord {
  var writer = StateWriter(offset: wallStart)
  K.write(key.utf8.span, &state, to: &writer)
  return TestRecord(kind: K.kind, slot: index, bytes: writer.bytes)
}

/// What a batch changes.
struct TestBatch {
  var records: [TestRecord] = []
  var gone: [(kind: EntityKind, slot: UInt32)] = []
  var events: LoggedEvents?

  func write(to batch: ChangeWriter) {
    for record in records {
      batch.append(record.kind, at: record.slot, atMost: record.bytes.count) {
        $0.raw(record.bytes.span)
      }
    }
    for (kind, slot) in gone { batch.appendGone(kind, at: slot) }
    if let events { batch.append(events.events, missingThrough: events.missingThrough) }
  }
}

func batch(_ records: [TestRecord] = [], gone: [UInt32] = []) -> TestBatch {
  TestBatch(records: records, gone: gone.map { (.countdown, $0) })
}

func events(
  _ last: Int64, _ count: Int = 1, _ payload: String = "e", missingThrough: Int64 = 0
) -> TestBatch {
  TestBatch(
    events: LoggedEvents(
      EventLog.Portion(lastSequence: last, count: count, bytes: Array(payload.utf8)),
      missingThrough: missingThrough))
}

extension Store {
  /// Writes a batch to the tables.
  func write(_ batch: TestBatch) throws(StoreError) {
    let writer = ChangeWriter(offset: clock.offset)
    batch.write(to: writer)
    var meta = meta
    meta.start -= 1
    try Checkpoint(options, database, meta).write(writer.bytes)
  }
}

/// A store and what a daemon does with it: batches go to the log.
final class Life {
  let writer: StoreWriter
  private(set) var failure: StoreError?

  init(
    _ directory: TemporaryDirectory, _ durability: Durability = .process, segmentSize: Int = 65_536,
    eventLimit: Int = 100, pauseMicroseconds: Int64? = nil,
    at now: StoreClock.Reading = reading(), eventsAfter sequence: Int64 = 0
  ) throws {
    var chosen = options(directory.state, durability)
    chosen.pauseMicroseconds = pauseMicroseconds ?? chosen.pauseMicroseconds
    chosen.segmentSize = segmentSize
    chosen.eventLimit = eventLimit
    let failures = Failures()
    writer = try StoreWriter(
      Store(chosen, at: now), eventsAfter: sequence, at: now, execute: { $0() },
      failed: { failures.note($0) })
    self.failures = failures
  }

  let failures: Failures

  final class Failures: Sendable {
    private let all = Mutex<[StoreError]>([])
    func note(_ error: StoreError) { all.withLock { $0.append(error) } }
    var first: StoreError? { all.withLock { $0.first } }
  }

  /// Returns whether it was stored before this returned.
  @discardableResult
  func commit(_ batch: TestBatch, at now: StoreClock.Reading = reading()) -> Bool {
    batch.write(to: writer.batch)
    var isStored = false
    writer.commit(at: now) { isStored = true }
    return isStored
  }

  /// Commits countdowns of these keys, each at a place of its own, one batch each.
  func commit(_ keys: String...) {
    for key in keys {
      commit(batch([countdown(UInt32(key.utf8.first! - 97), key)]))
    }
  }

  /// Copies the state, and waits for the copy.
  func backUp(to path: String) {
    let isMade = DispatchSemaphore(value: 0)
    writer.backUp(to: path, at: nil) { error in
      #expect(error == nil)
      isMade.signal()
    }
    isMade.wait()
  }

  func close(at now: StoreClock.Reading = reading()) { writer.close(at: now) }
}

/// A store that could not be opened, or is given, makes way for one with nothing in it.
///
/// - Returns: the path of the corrupt one, and the new one.
@discardableResult
func replaced(
  _ directory: TemporaryDirectory, _ corrupt: Store? = nil, at now: StoreClock.Reading = reading()
) throws -> (place: String, store: Store) {
  let replacement = try Replacement(of: corrupt, options(directory.state), at: now)
  try replacement.finish()
  return (replacement.replaced, try replacement.open(at: now))
}

extension Store {
  /// All that can be read, of the rows and of the log, by kind and place.
  func all() throws(StoreError) -> [TestRecord] {
    let reader = Reader()
    try loadEntities(reader)
    return reader.sorted
  }

  func keys() throws(StoreError) -> [String] { try all().map(\.key) }

  /// The number of rows.
  func count() throws(StoreError) -> Int {
    Int(try database.number("SELECT count(*) FROM entities"))
  }

  func eventsAfter(_ sequence: Int64) throws(StoreError) -> (sequences: [Int64], complete: Bool) {
    var all: [StoredEvents] = []
    try loadEvents { all.append($0) }
    let after = all.filter { $0.lastSequence > sequence }
    return (after.map(\.lastSequence), (after.first?.afterSequence ?? 0) <= sequence)
  }
}

final class Reader: EntityReader {
  let portion = 10
  private var all: [TestRecord] = []

  var sorted: [TestRecord] {
    all.sorted { ($0.kind.rawValue, $0.slot) < ($1.kind.rawValue, $1.slot) }
  }

  func take(_ entities: StoredEntities) {
    for (index, entry) in entities.entries.enumerated() {
      all.append(
        TestRecord(kind: entry.kind, slot: entry.slot, bytes: Array(entities.record(index))))
    }
  }
}

func inspect(_ path: String) throws -> StateInspection {
  try StateInspection(path, isThorough: true, areEvents: anyEvents)
}

/// Whether events make sense is for the engine to say: here they are any bytes.
func anyEvents(_ payload: [UInt8]) -> Bool { true }

/// What kind of error `body` throws.
func failure(_ body: () throws -> Void) -> StoreError.Kind? {
  do { try body() } catch let error as StoreError { return error.kind } catch {}
  return nil
}

/// Changes a state that nobody has open.
func change(_ directory: TemporaryDirectory, _ sql: String) throws {
  try Database(directory.database, .readWrite).execute(sql)
}

/// Changes the row of `meta` in a state that nobody has open, with the right sum.
func changeMeta(_ directory: TemporaryDirectory, _ change: (inout Meta) -> Void) throws {
  let database = try Database(directory.database, .readWrite)
  var meta = try #require(try Meta.read(database))
  change(&meta)
  try meta.write(database, product: meta.product)
}

func contents(_ path: String) -> Data? { FileManager.default.contents(atPath: path) }

/// The state as `kill -9` would leave it: all that was given to the kernel, and nothing else.
func copyState(_ from: TemporaryDirectory, _ to: TemporaryDirectory) throws {
  mkdir(to.state, 0o700)
  for name in try FileManager.default.contentsOfDirectory(atPath: from.state) where name != "lock" {
    try FileManager.default.copyItem(
      atPath: from.state + "/" + name, toPath: to.state + "/" + name)
  }
}
