import CountdownStore
import Countdowns
import Dispatch
import Glibc
import NIOCore
import NIOPosix

/// Measures the store: `store-bench DIRECTORY [ROWS]`. The directory is made, and left behind.

func nanoseconds() -> Int64 {
  var now = timespec()
  clock_gettime(CLOCK_MONOTONIC, &now)
  return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
}

func reading() -> StoreClock.Reading {
  let now = nanoseconds() / 1_000
  return StoreClock.Reading(
    bootID: "bench", bootMicroseconds: now, wallMicroseconds: now + 1_790_000_000_000_000)
}

func pad(_ value: Any, _ width: Int) -> String {
  let text = "\(value)"
  return String(repeating: " ", count: max(width - text.utf8.count, 0)) + text
}

func microseconds(_ nanoseconds: Int64) -> String {
  "\(nanoseconds / 1_000).\(nanoseconds % 1_000 / 100)"
}

struct Times {
  var all: [Int64] = []
  mutating func sorted() -> String {
    all.sort()
    guard let last = all.last else { return "-" }
    let mean = all.reduce(0, +) / Int64(all.count)
    return pad(microseconds(mean), 9) + pad(microseconds(all[all.count / 2]), 9)
      + pad(microseconds(all[all.count * 99 / 100]), 9) + pad(microseconds(last), 10)
  }
  static let heading = pad("mean", 9) + pad("p50", 9) + pad("p99", 9) + pad("max", 10)
}

let key = Array("+4512345678".utf8)
typealias Row = StoredRow<DurableCountdown>

let plan = Countdown.Plan(count: 60, every: .seconds(1))!
func record(_ index: Int, _ generation: Int) -> Row {
  var key = key
  var n = index
  for place in stride(from: 10, to: 2, by: -1) {
    key[place] = UInt8(48 + n % 10)
    n /= 10
  }
  let until = Instant(microseconds: 60_000_000 + Int64(generation))
  let record = DurableCountdown(
    key: key, machine: Countdown(plan, .counting(until: until), sends: 1, isRefunded: false),
    generation: Generation(1_790_000_000_000_000 + Int64(generation)), uid: 1000)
  return Row(record, id: UInt32(index))
}

/// Counts what is loaded.
final class Counter: RecordReader {
  let portion = 4_096
  let wantsMore = true
  private(set) var rows = 0

  func take<Record: StoredRecord>(_ rows: [StoredRow<Record>]) { self.rows += rows.count }

  func fail<Record: StoredRecord>(_ error: StoreError, in table: Record.Type) { print(error) }
}

func fail(_ text: String) -> Never {
  print(text)
  exit(1)
}

guard CommandLine.arguments.count > 1 else { fail("usage: store-bench DIRECTORY [ROWS]") }
let base = CommandLine.arguments[1]
let rows = CommandLine.arguments.count > 2 ? Int(CommandLine.arguments[2])! : 1_000_000
mkdir(base, 0o700)

func open(_ name: String, _ durability: Durability, pages: Int = 4_000) throws -> Store {
  var options = Store.Options(
    directory: base + "/" + name, durability: durability, product: "store-bench")
  options.checkpointPages = pages
  return try Store(options, at: reading())
}

/// Commits batches until `limit` rows or 1.5 s.
func run(
  _ what: String, _ store: Store, batch size: Int, limit: Int, _ row: (Int) -> Row
) throws {
  var commits = Times()
  var checkpoints = Times()
  let checkpointer = try Checkpointer(store.options)
  var batch = StoreBatch()
  var done = 0
  let begin = nanoseconds()
  while done < limit, nanoseconds() - begin < 1_500_000_000 {
    batch.removeAll()
    for n in done..<min(done + size, limit) { batch.countdowns.current.append(row(n)) }
    let start = nanoseconds()
    try store.commit(batch, at: reading())
    commits.all.append(nanoseconds() - start)
    done += size
    if store.needsCheckpoint {
      let start = nanoseconds()
      _ = try checkpointer.pass()
      checkpoints.all.append(nanoseconds() - start)
    }
  }
  let seconds = Double(nanoseconds() - begin) / 1e9
  print(
    pad(what, 24), pad(size, 5), pad(Int(Double(done) / seconds), 9), commits.sorted(), " |",
    pad(checkpoints.all.count, 5), checkpoints.sorted())
}

print("µs per commit | µs per checkpoint")
print(
  pad("", 24), pad("batch", 5), pad("rows/s", 9), Times.heading, " |", pad("n", 5), Times.heading)

for durability in [Durability.process, .power] {
  for size in [1, 16, 64, 512] {
    let store = try open("new-\(durability)-\(size)", durability)
    try run("new, \(durability)", store, batch: size, limit: 1_000_000) { record($0, $0) }
  }
}

do {
  let store = try open("million", .process)
  var batch = StoreBatch()
  let checkpointer = try Checkpointer(store.options)
  let begin = nanoseconds()
  for start in stride(from: 0, to: rows, by: 512) {
    batch.removeAll()
    for n in start..<min(start + 512, rows) { batch.countdowns.current.append(record(n, n)) }
    try store.commit(batch, at: reading())
    if store.needsCheckpoint { _ = try checkpointer.pass() }
  }
  print("filled \(rows) in \(microseconds(nanoseconds() - begin)) µs")
}
for durability in [Durability.process, .power] {
  for (pages, size) in [
    (4_000, 1), (4_000, 16), (4_000, 64), (4_000, 512), (1_000, 64), (16_000, 64),
  ] {
    var random = UInt64(size)
    let store = try open("million", durability, pages: pages)
    try run("update, \(durability), \(pages)", store, batch: size, limit: 1_000_000) { n in
      random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return record(Int(random >> 33) % rows, n)
    }
  }
}
for _ in 0..<2 {
  let begin = nanoseconds()
  let store = try open("million", .process)
  let opened = nanoseconds()
  let counter = Counter()
  store.loadRecords(counter)
  print(
    "opened in \(microseconds(opened - begin)) µs, loaded \(counter.rows) in \(microseconds(nanoseconds() - opened)) µs"
  )
}

// The way there and back: an event loop that goes on only when its turn is safe.
let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
let loop = group.next()

/// Turns one after the other.
///
/// `@unchecked Sendable`: used on the loop.
final class Turns: @unchecked Sendable {
  var times = Times()
  var left: Int
  let size: Int
  let writer: StoreWriter
  let row: (Int) -> Row
  let done: EventLoopPromise<Void>
  var next = 0
  init(_ writer: StoreWriter, size: Int, turns: Int, row: @escaping (Int) -> Row) {
    self.size = size
    self.writer = writer
    self.row = row
    left = turns
    done = loop.makePromise()
  }
  func turn() {
    guard left > 0 else { return done.succeed() }
    left -= 1
    var batch = StoreBatch()
    for _ in 0..<size {
      batch.countdowns.current.append(row(next))
      next += 1
    }
    let start = nanoseconds()
    writer.submit(batch, at: reading()) { [self] _, error in
      precondition(error == nil)
      loop.execute { [self] in
        times.all.append(nanoseconds() - start)
        turn()
      }
    }
  }
}
print("turns of a NIO event loop, µs until the turn is safe and the loop goes on")
for durability in [Durability.process, .power] {
  for size in [1, 16, 64, 512] {
    for million in [false, true] {
      let name = million ? "million" : "loop-\(durability)-\(size)"
      let writer = try StoreWriter(open(name, durability)) { body in loop.execute(body) }
      var random = UInt64(size)
      let turns = Turns(
        writer, size: size, turns: min(50_000, 500_000 / size) / (durability == .power ? 5 : 1)
      ) { n in
        guard million else { return record(n, n) }
        random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return record(Int(random >> 33) % rows, n)
      }
      let begin = nanoseconds()
      loop.execute { turns.turn() }
      try turns.done.futureResult.wait()
      let seconds = Double(nanoseconds() - begin) / 1e9
      print(
        pad("\(durability), \(million ? "update" : "new")", 24), pad(size, 5),
        pad(Int(Double(turns.next) / seconds), 9), turns.times.sorted(), " |",
        pad(writer.checkpoints, 5))
      try loop.submit { writer.close(at: reading()) }.wait()
    }
  }
}
