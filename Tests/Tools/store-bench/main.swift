import CountdownStore
import Countdowns
import Dispatch
import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// Measures the store: `store-bench DIRECTORY [ENTITIES]`. Creates the directory and leaves it.

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

/// Counts the loaded rows.
final class Counter: EntityReader {
  let portion = 4_096
  private(set) var rows = 0

  func take(_ entities: StoredEntities) { rows += entities.count }
}

func fail(_ text: String) -> Never {
  print(text)
  exit(1)
}

guard CommandLine.arguments.count > 1 else { fail("usage: store-bench DIRECTORY [ENTITIES]") }
let base = CommandLine.arguments[1]
let entities = CommandLine.arguments.count > 2 ? Int(CommandLine.arguments[2])! : 1_000_000
mkdir(base, 0o700)

let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
let loop = group.next()

func open(_ name: String, _ durability: Durability) throws -> Store {
  try Store(
    Store.Options(
      directory: base + "/" + name, durability: durability, product: "store-bench"),
    at: reading())
}

func key(_ index: Int) -> [UInt8] {
  var key = Array("+4500000000".utf8)
  var rest = index
  for place in stride(from: 10, to: 2, by: -1) {
    key[place] = UInt8(48 + rest % 10)
    rest /= 10
  }
  return key
}

/// Commits batches on the loop: each begins once the previous one is stored.
///
/// `@unchecked Sendable`: used only on the loop.
final class Batches: @unchecked Sendable {
  private let size: Int
  private let writer: StoreWriter
  private let engine: Engine
  private let end: Int64
  private let keys: Int
  private let done: EventLoopPromise<Void>
  private(set) var times = Times()
  private(set) var next = 0

  /// - Parameter keys: the number of keys; the batches end after the last one.
  init(_ writer: StoreWriter, size: Int, keys: Int, seconds: Double, done: EventLoopPromise<Void>) {
    self.writer = writer
    self.size = size
    self.keys = keys
    self.done = done
    engine = Engine(settings: EngineSettings(), at: Self.now)
    engine.noteChanges()
    end = nanoseconds() + Int64(seconds * 1e9)
  }

  private static var now: Moment {
    let now = reading()
    return Moment(
      boot: Instant(microseconds: now.bootMicroseconds),
      wall: Instant(microseconds: now.wallMicroseconds))
  }

  func run() {
    guard nanoseconds() < end, next < keys else { return done.succeed() }
    var start = CountdownStart(Countdown.Plan(count: 3_600, every: .seconds(1))!)
    for _ in 0..<size {
      _ = try? engine.start(
        key(next).span, &start, by: Client(connection: 1, uid: 0), at: Self.now)
      next += 1
    }
    let begin = nanoseconds()
    engine.takeChanges(into: writer.batch)
    writer.commit(at: reading()) { [self] in
      loop.execute { [self] in
        times.all.append(nanoseconds() - begin)
        run()
      }
    }
  }
}

func run(_ name: String, _ durability: Durability, size: Int, keys: Int, seconds: Double) throws {
  let store = try open(name, durability)
  nonisolated(unsafe) let given = store
  let begin = nanoseconds()
  let (writer, batches, ended) = try loop.submit {
    let writer = try StoreWriter(given, eventsAfter: 0, at: reading()) {
      loop.execute($0)
    } failed: { error in
      fail("\(error)")
    }
    let done = loop.makePromise(of: Void.self)
    let batches = Batches(writer, size: size, keys: keys, seconds: seconds, done: done)
    batches.run()
    return (writer, batches, done.futureResult)
  }.wait()
  try ended.wait()
  let elapsed = Double(nanoseconds() - begin) / 1e9
  var times = batches.times
  print(
    pad("\(durability)", 8), pad(size, 6), pad(Int(Double(batches.next) / elapsed), 10),
    times.sorted(), " |",
    writer.facts.prefix(2).map { "\($0.name) \($0.value)" }.joined(separator: ", "))
  try loop.submit { writer.close(at: reading()) }.wait()
}

print("From taking the changes of a batch until they are stored and the loop continues, in µs")
print(pad("", 8), pad("batch", 6), pad("START/s", 10), Times.heading)
for durability in [Durability.process, .power] {
  for size in [1, 16, 64, 512] {
    try run("\(durability)-\(size)", durability, size: size, keys: 4_000_000, seconds: 1.5)
  }
}
try run("million", .process, size: 512, keys: entities, seconds: 3_600)
for _ in 0..<2 {
  let begin = nanoseconds()
  let store = try open("million", .process)
  let opened = nanoseconds()
  let counter = Counter()
  try store.loadEntities(counter)
  print(
    "opened in \((opened - begin) / 1_000_000) ms, read \(counter.rows) in \((nanoseconds() - opened) / 1_000_000) ms"
  )
}
