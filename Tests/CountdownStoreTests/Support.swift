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

func countdown(
  _ index: UInt32, _ key: String, until: Int64 = wallStart, meta: [UInt8]? = nil
) -> CountdownRecord {
  CountdownRecord(
    index: index, key: Array(key.utf8), generation: Int64(index) + 1, uid: 1_000,
    phase: .counting(untilMicroseconds: until), count: 60, everyMicroseconds: 1_000_000, meta: meta)
}

func batch(_ countdowns: [CountdownRecord] = [], gone: [UInt32] = []) -> StoreBatch {
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
  func allCountdowns() throws(StoreError) -> [CountdownRecord] {
    var all: [CountdownRecord] = []
    try loadCountdowns { all.append($0) }
    return all
  }

  func allGuards() throws(StoreError) -> [GuardRecord] {
    var all: [GuardRecord] = []
    try loadGuards { all.append($0) }
    return all
  }

  func keys() throws(StoreError) -> [String] {
    try allCountdowns().map { String(decoding: $0.key, as: UTF8.self) }
  }

  func eventsAfter(_ sequence: Int64) throws(StoreError) -> (sequences: [Int64], complete: Bool) {
    var all: [StoredEvents] = []
    try loadEvents { all.append($0) }
    let after = all.filter { $0.lastSequence > sequence }
    return (after.map(\.lastSequence), (after.first?.afterSequence ?? 0) <= sequence)
  }
}

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
