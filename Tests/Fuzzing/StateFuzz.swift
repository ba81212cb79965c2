import CountdownServer
import CountdownStore
import Countdowns
import Dispatch
import Glibc
import SeededRandom

/// Damaged stored state: bytes of the files, or fields of the rows. What can be read is restored
/// and used, without a trap. The input is the seed, or text that says how the state of a release is
/// damaged.
package final class StateFuzz: FuzzTarget {
  package static let name = "state"

  private static let bootID = "fuzz"
  private static let inserts: [UInt8] = [0, 1, 0x7F, 0x80, 0xFF]

  private let directory: String
  private var files: [String: [UInt8]] = [:]
  private var rows = Rows()
  private let grammar = RequestGrammar([
    .entities(.countdown), .entities(.timer), .entities(.hud), .entities(.throttle),
    .entities(.once), .entities(.gate), .entities(.debounce),
  ])

  /// The records and events of a store.
  private struct Rows {
    var records: [(kind: EntityKind, slot: UInt32, bytes: [UInt8])] = []
    var events: [(after: Int64, last: Int64, payload: [UInt8])] = []
  }

  package init() throws {
    directory = try Files.makeTemporaryDirectory()
    try makeState()
  }

  deinit {
    Files.removeFiles(in: directory)
    rmdir(directory)
  }

  private var settings: EngineSettings {
    var settings = EngineSettings()
    settings.policies = RequestFuzz.policies
    settings.throttles = RequestFuzz.throttles
    settings.maximumLevel = .alert
    return settings
  }

  private func open(_ now: Moment) throws -> Store {
    var options = Store.Options(directory: directory, durability: .process, product: "fuzz")
    options.segmentSize = 65_536
    return try Store(options, at: reading(now))
  }

  private func reading(_ now: Moment) -> StoreClock.Reading {
    StoreClock.Reading(
      bootID: Self.bootID, bootMicroseconds: now.boot.microseconds,
      wallMicroseconds: now.wall.microseconds)
  }

  private func go(on now: Moment) throws -> StoreWriter {
    nonisolated(unsafe) let store = try open(now)
    return try StoreWriter(
      store, eventsAfter: 1, at: reading(now), execute: { $0() },
      failed: { _ in abort() })
  }

  /// Commands that create durable entities of all kinds.
  static let lasting = [
    "COUNTDOWN START c# POLICY p TITLE %ds META m TOKEN t", "COUNTDOWN ATTEMPT c#",
    "COUNTDOWN START d# COUNT 60 EVERY 1m READYTITLE again", "COUNTDOWN PAUSE d#",
    "COUNTDOWN START e# POLICY q", "COUNTDOWN CANCEL e#",
    "TIMER SET t# 1h EVERY 30s PAYLOAD x LATE skip", "TIMER SET w# 1h CLOCK wall",
    "TIMER SET v# 1h EVERY 1h CLOCK wall",
    "HUD SHOW h# STATUS s MAX 1h DURABLE", "HUD SHOW h# LEVEL alert KIND progress DURABLE",
    "HUD PROGRESS h# 0.5", "HUD DISMISS h# DELAY 1h LEVEL alert", "HUD PAUSE h# LEVEL normal",
    "COUNTDOWN START m# POLICY l LIMIT ip:#", "COUNTDOWN ATTEMPT m#", "COUNTDOWN ATTEMPT m# ANY",
    "COUNTDOWN START g# POLICY g", "COUNTDOWN ATTEMPT g# LIMIT ip:g#",
    "THROTTLE TAKE ip:# all: TOKEN t",
    "THROTTLE TAKE l# BURST 5 RATE 1/1h TOKEN t", "ONCE BEGIN o# TTL 1h", "ONCE DONE o# r",
    "ONCE BEGIN p# TTL 1h TOKEN t", "ONCE BEGIN q# TTL 1h LEASE 30s FINGERPRINT x",
    "GATE CHECK g# pay PAYLOAD x REQUIRED on", "GATE OPEN i# TTL 1h", "GATE OPEN j#",
    "DEBOUNCE CALL b# 1h PAYLOAD x LEADING MAXWAIT 2h", "DEBOUNCE CALL b# 1h PAYLOAD y",
    "DEBOUNCE CALL s# 1s EDGES both SPACING 1h", "DEBOUNCE CALL s# 1s PAYLOAD z SPACING 1h",
    "DEBOUNCE CALL u# 1s EDGES leading",
  ]

  /// Makes a state as `kill -9` leaves it: partly in the database, partly in the log.
  private func makeState() throws {
    var random = SeededGenerator(seed: 1)
    let talk = Conversation(seed: 1, settings, movesTime: false)
    talk.dispatcher.engine.noteChanges()
    let writer = try go(on: talk.now)
    for round in 0..<20 {
      talk.pass(700)
      for _ in 0..<30 { talk.receive(encode(grammar.command(&random))) }
      for line in Self.lasting {
        talk.receive(Array(line.replacing("#", with: "\(round)").utf8) + Array("\r\n".utf8))
      }
      talk.dispatcher.engine.takeChanges(into: writer.batch)
      writer.commit(at: reading(talk.now)) {}
      if round == 12 {
        // A backup folds all of the log.
        let isFolded = DispatchSemaphore(value: 0)
        writer.backUp(to: directory + "/copy", at: nil) { _ in isFolded.signal() }
        isFolded.wait()
      }
    }
    writer.close(at: reading(talk.now))
    let store = try open(talk.now)
    rows = try read(store)
    // Segments of the log are named after the batches in them.
    for name in Files.names(in: directory) where name.hasSuffix(".db") || name.hasSuffix(".log") {
      files[name] = try Files.read("\(directory)/\(name)")
    }
    let kinds: [EntityKind] = [.countdown, .timer, .hud, .throttle, .once, .gate, .debounce]
    let counts =
      kinds.map { kind in rows.records.count { $0.kind == kind } }
      + [
        rows.events.count, files["state-1.db"]?.count ?? 0,
        files.count - 1,
      ]
    guard !counts.contains(0) else {
      throw FuzzFailure("the state to be damaged has not something of everything: \(counts)")
    }
  }

  /// Returns all readable rows and events.
  private func read(_ store: Store) throws -> Rows {
    var rows = Rows()
    let records = Records()
    try? store.loadEntities(records)
    rows.records = records.all
    try? store.loadEvents {
      rows.events.append(($0.afterSequence, $0.lastSequence, $0.payload))
    }
    return rows
  }

  /// The readable records of a store.
  private final class Records: EntityReader {
    let portion = 100
    private(set) var all: [(kind: EntityKind, slot: UInt32, bytes: [UInt8])] = []

    func take(_ entities: StoredEntities) {
      for (index, entry) in entities.entries.enumerated() {
        all.append((entry.kind, entry.slot, Array(entities.record(index))))
      }
    }
  }

  // MARK: Damage

  package func input(seed: UInt64) -> [UInt8] { Array("\(seed)".utf8) }

  package func check(_ input: [UInt8]) throws {
    guard let number = try? seed(of: input) else {
      _ = try outcome(of: input)
      return
    }
    var random = SeededGenerator(seed: number)
    if random.isOne(in: 2) { try damageFiles(&random) } else { damageRows(&random) }
  }

  /// Damages the state of the first release, reads it, and uses what can be read. Says what that
  /// was.
  ///
  /// - Parameter input: lines such as `cut FILE LENGTH`, `set FILE PLACE HEX`, `remove FILE`,
  ///   `record KIND PLACE HEX` for the first record of the kind and `events PLACE HEX` for the
  ///   longest batch of events; others begin with `#`.
  package func outcome(of input: [UInt8]) throws -> String {
    let golden = "\(project)/Tests/FuzzingTests/Golden/0.1.0"
    var files: [String: [UInt8]] = [:]
    for name in Files.names(in: golden) where name != "views" {
      files[name] = try Files.read("\(golden)/\(name)")
    }
    let lines = String(decoding: input, as: UTF8.self).split(separator: "\n").filter {
      !$0.hasPrefix("#")
    }.map { $0.split(separator: " ").map(String.init) }
    for line in lines { try Self.change(&files, line) }
    Files.removeFiles(in: directory)
    for (name, bytes) in files { try Files.write(bytes, to: "\(directory)/\(name)") }
    let store: Store
    do {
      _ = try StateInspection(directory, isThorough: true)
      store = try open(FuzzHost().now)
    } catch {
      return "refused"
    }
    var rows = try read(store)
    for line in lines { try Self.change(&rows, line) }
    var random = SeededGenerator(seed: hash(input))
    let refused = live(rows, offset: store.clock.offset, first: store.firstNumber, &random)
    return "\(rows.records.count) records, \(refused.records) refused; "
      + "\(rows.events.count) batches of events, \(refused.batches) refused"
  }

  private static func change(_ files: inout [String: [UInt8]], _ line: [String]) throws {
    guard ["cut", "set", "remove"].contains(line[0]) else { return }
    guard line.count > 1, var bytes = files[line[1]] else { throw FuzzFailure("no file: \(line)") }
    switch line[0] {
    case "cut": bytes.removeLast(bytes.count - (Int(line[2]) ?? bytes.count))
    case "set": try set(&bytes, line.suffix(2))
    default:
      files[line[1]] = nil
      return
    }
    files[line[1]] = bytes
  }

  private static func change(_ rows: inout Rows, _ line: [String]) throws {
    switch line[0] {
    case "record":
      guard let first = rows.records.firstIndex(where: { "\($0.kind.name)" == line[1] }) else {
        throw FuzzFailure("no record: \(line)")
      }
      try set(&rows.records[first].bytes, line.suffix(2))
    case "events":
      let lengths = rows.events.map(\.payload.count)
      guard let longest = lengths.firstIndex(of: lengths.max() ?? 0) else {
        throw FuzzFailure("no events: \(line)")
      }
      try set(&rows.events[longest].payload, line.suffix(2))
    case "cut", "set", "remove": return
    default: throw FuzzFailure("no damage: \(line)")
    }
  }

  /// Sets bytes at a place to those of a hexadecimal text.
  private static func set(_ bytes: inout [UInt8], _ words: ArraySlice<String>) throws {
    let digits = Array(words.last ?? "")
    let new = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
      UInt8(String(digits[$0...$0 + 1]), radix: 16)
    }
    guard let place = Int(words.first ?? ""), !new.isEmpty, place + new.count <= bytes.count else {
      throw FuzzFailure("no damage: \(words)")
    }
    bytes.replaceSubrange(place..<place + new.count, with: new)
  }

  private func damageFiles(_ random: inout SeededGenerator) throws {
    Files.removeFiles(in: directory)
    for name in files.keys.sorted() {
      var bytes = files[name] ?? []
      if random.isOne(in: 2) { damage(file: &bytes, &random) }
      try Files.write(bytes, to: "\(directory)/\(name)")
    }
    _ = try? StateInspection(directory, isThorough: random.isOne(in: 2))
    guard let store = try? open(FuzzHost().now) else { return }
    live(try read(store), offset: store.clock.offset, first: store.firstNumber, &random)
  }

  private func damage(file bytes: inout [UInt8], _ random: inout SeededGenerator) {
    let page = 1_024
    for _ in 0..<random.one(of: [1, 1, 2, 10, 100]) {
      guard !bytes.isEmpty else { return }
      let place = random.number(below: bytes.count)
      switch random.number(below: 8) {
      case 0..<4: bytes[place] ^= 1 << UInt8(random.number(below: 8))
      case 4: bytes[place] = random.one(of: Self.inserts)
      case 5:
        for index in place..<min(bytes.count, place + random.number(below: page)) {
          bytes[index] = 0
        }
      case 6 where bytes.count >= 2 * page:
        let pages = bytes.count / page
        let (one, other) = (random.number(below: pages) * page, random.number(below: pages) * page)
        for index in 0..<page { bytes.swapAt(one + index, other + index) }
      default: if random.isOne(in: 10) { bytes.removeLast(bytes.count - place) }
      }
    }
  }

  private func damageRows(_ random: inout SeededGenerator) {
    var rows = rows
    for _ in 0..<random.one(of: [1, 3, 10]) {
      if random.isOne(in: 5) {
        change(&rows.events, &random) {
          $0.damage(&$1.payload, atMost: 3, inserting: Self.inserts)
        }
      } else {
        change(&rows.records, &random, Self.damage)
      }
    }
    live(rows, offset: random.one(of: [0, 1, -1, 1_789_000_000_000_000]), first: 1 << 52, &random)
  }

  /// Changes bytes of a record, or one of its numbers.
  private static func damage(
    _ random: inout SeededGenerator,
    _ record: inout (kind: EntityKind, slot: UInt32, bytes: [UInt8])
  ) {
    guard random.isOne(in: 2), record.bytes.count > 8 else {
      return random.damage(&record.bytes, atMost: 2, inserting: inserts)
    }
    let number = UInt64(bitPattern: random.edge())
    let place = random.number(below: record.bytes.count - 7)
    for byte in 0..<8 {
      record.bytes[place + byte] = UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * byte))
    }
  }

  private func change<Row>(
    _ rows: inout [Row], _ random: inout SeededGenerator,
    _ body: (inout SeededGenerator, inout Row) -> Void
  ) {
    let place = random.number(below: rows.count)
    body(&random, &rows[place])
  }

  // MARK: Using the state

  /// Restores the valid rows, as the daemon does, and executes commands on them. Returns how many
  /// records and batches of events were refused.
  @discardableResult
  private func live(
    _ rows: Rows, offset: Int64, first: Int64, _ random: inout SeededGenerator
  ) -> (records: Int, batches: Int) {
    var settings = settings
    settings.firstGeneration = first
    let talk = Conversation(seed: 1, settings, movesTime: false)
    let dispatcher = talk.dispatcher
    dispatcher.engine.noteChanges()
    let now = talk.now
    var entities = StoredEntities()
    for (kind, place, bytes) in rows.records { entities.append(kind, place, bytes.span) }
    let refused = dispatcher.engine.restore(entities, offset: offset, at: now)
    let batches = rows.events.count {
      !dispatcher.engine.eventLog.restore($0.payload, after: $0.after, through: $0.last)
    }
    talk.receive(Array("EVENTS SINCE 0\r\n".utf8))
    for milliseconds in [0, 1, 60_000, 3_650 * 86_400_000] as [Int64] {
      for family in ["COUNTDOWN", "TIMER", "HUD", "THROTTLE", "ONCE", "GATE", "DEBOUNCE"] {
        talk.receive(Array("\(family) LIST\r\n".utf8))
      }
      for _ in 0..<5 { talk.receive(encode(grammar.command(&random))) }
      talk.pass(milliseconds)
      dispatcher.engine.takeChanges(into: ChangeWriter(offset: 0))
    }
    return (refused.count, batches)
  }
}
