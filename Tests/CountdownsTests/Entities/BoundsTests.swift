import SeededRandom
import Testing

@testable import Countdowns

/// Whatever a command accepts, a record accepts: each argument at its bounds, at both ends of time.
@Suite struct BoundsTests {
  /// Where the clocks begin, in microseconds.
  struct Clocks: Sendable, CustomTestStringConvertible {
    let boot: Int64
    let wall: Int64
    let stored: Int64
    var testDescription: String { "boot \(boot), wall \(wall), stored \(stored)" }
  }

  private static let clocks: [Clocks] = [0, Instant.end.microseconds].flatMap { boot in
    [0, Instant.end.microseconds].flatMap { wall in
      [0, Instant.end.microseconds].map { Clocks(boot: boot, wall: wall, stored: $0) }
    }
  }

  private static func settings() throws -> EngineSettings {
    var (long, short) = (SendPolicy.Rules(), SendPolicy.Rules())
    long.every = .longest
    long.count = 1
    long.validity = .longest
    long.attempts = SendPolicy.maximumAttempts
    long.lockout = [.longest]
    long.limits = ["all"]
    short.every = .milliseconds(1)
    short.count = 1
    short.windows = [.init(limit: SendPolicy.maximumInWindow, length: .days(1))]
    short.validity = .milliseconds(1)
    short.attempts = 1
    var (all, fast) = (LimitRules.Rules(), LimitRules.Rules())
    all.windows = [.init(limit: LimitRules.maximumInWindow, length: .days(1))]
    all.isGlobal = true
    fast.rate = Throttle.Rate(burst: 1_000, count: 1, period: .days(1))
    var settings = EngineSettings()
    settings.policies = [
      "long": try SendPolicy(name: "long", long), "short": try SendPolicy(name: "short", short),
    ]
    settings.throttles = ["all": try LimitRules(all), "fast": try LimitRules(fast)]
    return settings
  }

  /// The commands that change an entity. What ends a scope or stack would leave little to look at.
  private static let commands = CommandTable.all.rows.filter {
    $0.group.kind != nil && $0.flags.contains(.write)
  }

  /// What random commands rarely do.
  private static let rare = [
    "COUNTDOWN START a POLICY long", "COUNTDOWN START b POLICY short", "COUNTDOWN PASS a",
    "THROTTLE TAKE all: fast:a COST 1000", "THROTTLE TAKE b BURST 1 RATE 1/3650d",
    "THROTTLE TAKE a BURST 1000000000 RATE 1000000000/1ms COST 1000000000",
    "TIMER SET b 3650d", "SCOPE OPEN b TTL 3650d",
  ]

  /// What random commands do only with luck; `#` is the newest generation.
  private static let first = [
    "ONCE BEGIN c TTL 3650d LEASE 3650d", "ONCE EXTEND c GENERATION #",
    "NAV PUSH c home", "NAV PUSH c page", "NAV SWIPE c X 1 DX 1", "NAV PROGRESS c 0.5",
  ]

  private static let longKey = String(repeating: "k", count: EntityRecord.longestKey)

  @Test(arguments: clocks)
  func aRecordAcceptsWhateverACommandAccepts(_ clocks: Clocks) throws {
    let settings = try Self.settings()
    let desk = DispatcherHarness(engine: settings)
    let engine = desk.dispatcher.engine
    engine.noteChanges()
    desk.host.now = Moment(
      boot: Instant(microseconds: clocks.boot), wall: Instant(microseconds: clocks.wall))
    let offset = clocks.stored - clocks.boot
    var random = SeededGenerator(seed: 1)
    var (accepted, left) = (Set<String>(), Interval.days(3_650 * 10))
    var records: [EntityRef: [UInt8]] = [:]
    for step in 0..<4_000 {
      let line =
        step < Self.first.count
        ? Self.first[step].replacing("#", with: "\(engine.lastGeneration)")
        : random.isOne(in: 10) ? random.one(of: Self.rare) : nil
      let words =
        line?.split(separator: " ").map(String.init)
        ?? words(of: random.one(of: Self.commands), engine, &random)
      desk.run(words)
      let isError = desk.session.takeOutput().first == UInt8(ascii: "-")
      let name = words[..<2].joined(separator: " ")
      if !isError { accepted.insert(name) }
      for spec in Self.commands where spec.fullName == name {
        check(spec.group.kind!.behavior, engine, offset, words.joined(separator: " "))
      }
      if random.isOne(in: 200), left > .zero {
        let pause = random.one(of: [.milliseconds(1), .days(1), .longest] as [Interval])
        left = left - pause
        desk.pass(pause.microseconds / 1_000)
        _ = desk.session.takeOutput()
      }
      if random.isOne(in: 50) { take(engine, offset, into: &records) }
    }
    #expect(accepted.isSuperset(of: Self.commands.map(\.fullName)))
    take(engine, offset, into: &records)
    var stored = StoredEntities()
    for (entity, record) in records.sorted(by: { $0.key.payload < $1.key.payload }) {
      stored.append(entity.kind, entity.index, record.span)
    }
    let new = Engine(settings: settings, at: desk.host.now)
    let refused = new.restore(stored, offset: offset, at: desk.host.now)
    #expect(stored.count > 0 && refused.isEmpty)
  }

  /// Writes the entities of a kind, and reads them back.
  private func check<K: Kind>(
    _ kind: K.Type, _ engine: Engine, _ offset: Int64, _ after: String
  ) {
    let store = K.store(of: engine)
    for index in 0..<UInt32(store.indexEnd) {
      guard var state = store.state(index) else { continue }
      let key = store.key(index)
      var writer = StateWriter(offset: offset)
      K.write(key.span, &state, to: &writer)
      var reader = StateReader(
        writer.bytes[(EntityRecord.headerLength + key.count)...], offset: offset)
      reader.format = writer.format
      var read = K.State.blank(key.span)
      read.state(&reader)
      #expect(!reader.hasFailed && reader.bytesLeft == 0, "after \(after): \(state)")
      var again = StateWriter(offset: offset)
      K.write(key.span, &read, to: &again)
      #expect(again.bytes == writer.bytes, "after \(after): \(state)")
    }
  }

  /// Takes the changes, as a store does.
  private func take(_ engine: Engine, _ offset: Int64, into records: inout [EntityRef: [UInt8]]) {
    let batch = ChangeWriter(offset: offset)
    engine.takeChanges(into: batch)
    let isWhole = ChangeEntry.forEach(of: batch.bytes[...]) { entry in
      switch entry {
      case .current(let kind, let place, let bytes):
        records[EntityRef(kind, place)] = Array(bytes)
      case .gone(let kind, let place): records[EntityRef(kind, place)] = nil
      case .events(let events, _): #expect(EventLog.isValid(events.bytes) || events.count == 0)
      case .clocks: break
      }
    }
    #expect(isWhole)
  }

  // MARK: Commands

  private func words(
    of spec: CommandSpec, _ engine: Engine, _ random: inout SeededGenerator
  ) -> [String] {
    var words = spec.fullName.split(separator: " ").map(String.init)
    // With all options, with about one, or with none.
    let options = spec.parameters.count(where: \.isOptional)
    let share = random.one(of: [1, options, options * 10])
    for parameter in spec.parameters where !parameter.isOptional || random.isOne(in: share) {
      if let token = parameter.token { words.append(token) }
      if parameter.token == nil || parameter.valueCount > 0 {
        words += value(of: parameter, spec, engine, &random).split(separator: " ").map(String.init)
      }
    }
    return words
  }

  private func value(
    of parameter: Parameter, _ spec: CommandSpec, _ engine: Engine,
    _ random: inout SeededGenerator
  ) -> String {
    switch parameter.token ?? parameter.name {
    case "POLICY": return random.one(of: ["long", "short"])
    case "limit", "LIMIT": return random.one(of: ["all:", "fast:a"])
    case "RATE": return random.one(of: ["1/1ms", "1/3650d", "1000000/1ms", "1000000/3650d"])
    default: break
    }
    func text(_ maximum: Int?) -> String {
      random.isOne(in: 2) ? "x" : String(repeating: "y", count: maximum ?? 4_096)
    }
    func value(_ type: ValueType) -> String {
      switch type {
      case .key: random.one(of: ["a", "a", "a", "b", Self.longKey])
      case .text(let maximum), .bytes(let maximum): text(maximum)
      case .token: text(TextLimits.token)
      case .integer(let range): "\(random.one(of: [range.lowerBound, range.upperBound]))"
      case .number(let range): "\(random.one(of: [range.lowerBound, range.upperBound]))"
      case .boolean, .flag: ""
      case .toggle: random.one(of: ["on", "off"])
      case .duration(let least): random.one(of: ["\(least)", "3650d"])
      case .microseconds, .moment: "\(Int64.max)"
      case .generation: "\(engine.lastGeneration)"
      case .choice(let choices): random.one(of: choices)
      case .durationOr(let word): random.one(of: [word, "1ms", "3650d"])
      case .rate: random.one(of: ["1/1ms", "1000000/3650d"])
      case .owner: random.one(of: ["none", "none", "connection", "scope:a"])
      case .optional(let type), .list(let type): value(type)
      case .record, .view: ""
      }
    }
    return value(parameter.type)
  }
}

extension SeededGenerator {
  fileprivate mutating func one<T>(of choices: [T]) -> T { choices.randomElement(using: &self)! }
  fileprivate mutating func isOne(in times: Int) -> Bool {
    Int.random(in: 0..<times, using: &self) == 0
  }
}
