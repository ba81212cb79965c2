import Countdowns
import Foundation

@testable import CountdownStore

/// A directory of the test's own; it goes with this.
final class TemporaryDirectory {
  let path: String

  init() {
    let template = FileManager.default.temporaryDirectory.path + "/countdown-store-XXXXXX"
    var name = Array(template.utf8CString)
    precondition(mkdtemp(&name) != nil)
    path = name.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  var state: String { path + "/state" }
  var database: String { state + "/state.db" }
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
  Store.Options(directory: directory, durability: durability, product: "countdownd test")
}

func open(_ directory: TemporaryDirectory, at now: StoreClock.Reading = reading()) throws -> Store {
  try Store(options(directory.state), at: now)
}

/// - Parameter until: on the store's clock.
func countdown(
  _ index: UInt32, _ key: String, until: Int64 = wallStart, meta: [UInt8]? = nil
) -> StoredRow<DurableCountdown> {
  countdown(
    index, Array(key.utf8), Generation(Int64(index) + 1),
    Countdown(
      Countdown.Plan(count: 60, every: .seconds(1))!,
      .counting(until: Instant(microseconds: until - wallStart)), sends: 1, isRefunded: false),
    uid: 1_000
  ) { $0.annotations.meta = meta }
}

func countdown(
  _ index: UInt32, _ key: [UInt8], _ generation: Generation, _ machine: Countdown, uid: UInt32,
  _ change: (inout DurableCountdown) -> Void = { _ in }
) -> StoredRow<DurableCountdown> {
  var record = DurableCountdown(key: key, machine: machine, generation: generation, uid: uid)
  change(&record)
  return StoredRow(record, at: index)
}

func batch(_ countdowns: [StoredRow<DurableCountdown>] = [], gone: [UInt32] = []) -> StoreBatch {
  var batch = StoreBatch()
  batch.countdowns.current = countdowns
  batch.countdowns.gone = gone
  return batch
}

func events(_ last: Int64, _ count: Int = 1, _ payload: String = "e") -> StoreBatch {
  var batch = StoreBatch()
  batch.events = StoreBatch.Events(
    lastSequence: last, count: count, payload: Array(payload.utf8))
  return batch
}

/// A store that could not be opened, or is given, makes way for one with nothing in it.
///
/// - Returns: where the corrupt one is now, and the new one.
func replaced(
  _ directory: TemporaryDirectory, _ corrupt: Store? = nil, at now: StoreClock.Reading = reading()
) throws -> (place: String, store: Store) {
  var place = ""
  let replacement = try Replacement(of: corrupt, options(directory.state), at: now) { place = $0 }
  try replacement.decide()
  return (place, try replacement.open(at: now))
}

extension Store {
  func all<Record: StoredRecord>(_: Record.Type) throws(StoreError) -> [StoredRow<Record>] {
    var all: [StoredRow<Record>] = []
    try Table<Record>.load(database, offset: clock.offset) { all.append($0) }
    return all
  }

  func allCountdowns() throws(StoreError) -> [StoredRow<DurableCountdown>] {
    try all(DurableCountdown.self)
  }

  func counts() throws(StoreError) -> (countdowns: Int, timers: Int, huds: Int) {
    func count(_ table: String) throws(StoreError) -> Int {
      Int(try database.number("SELECT count(*) FROM \(table)"))
    }
    return (try count("countdowns"), try count("timers"), try count("huds"))
  }

  func keys() throws(StoreError) -> [String] {
    try allCountdowns().map { String(decoding: $0.record.key, as: UTF8.self) }
  }

  func eventsAfter(_ sequence: Int64) throws(StoreError) -> (sequences: [Int64], complete: Bool) {
    var all: [StoredEvents] = []
    try loadEvents { all.append($0) }
    let after = all.filter { $0.lastSequence > sequence }
    return (after.map(\.lastSequence), (after.first?.afterSequence ?? 0) <= sequence)
  }
}

/// Whether events make sense is for the engine to say: here they are any bytes.
func anyEvents(_ payload: [UInt8]) -> Bool { true }

/// What kind of error `body` throws.
func failure(_ body: () throws -> Void) -> StoreError.Kind? {
  do { try body() } catch let error as StoreError { return error.kind } catch {}
  return nil
}

/// Changes a state that nobody has open, and takes the sums of its rows away: what is changed looks as if it
/// had been written so.
func change(_ directory: TemporaryDirectory, _ sql: String) throws {
  let database = try Database(directory.database, .readWrite)
  try database.execute(sql)
  for table in try database.texts("SELECT name FROM sqlite_schema WHERE sql LIKE '%sum INTEGER%'") {
    try database.execute("UPDATE \(table) SET sum = NULL")
  }
}

func contents(_ path: String) -> Data? { FileManager.default.contents(atPath: path) }

/// The state as `kill -9` would leave it: all that was given to the kernel, and nothing else.
func copyState(_ from: TemporaryDirectory, _ to: TemporaryDirectory) throws {
  mkdir(to.state, 0o700)
  for name in ["state.db", "state.db-wal"] {
    try FileManager.default.copyItem(
      atPath: from.state + "/" + name, toPath: to.state + "/" + name)
  }
}
