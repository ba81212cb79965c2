/// A screen as it is stored: what is durable of it. Instants are on the boot clock of this boot.
package struct DurableHUD: Equatable, Sendable {
  /// The presentation of a level.
  package struct Shown: Equatable, Sendable {
    package var level: Level
    package var memory: Presentation.Memory

    package init(_ level: Level, _ memory: Presentation.Memory) {
      self.level = level
      self.memory = memory
    }
  }

  package var key: [UInt8]
  package var uid: UInt32
  /// By rising level; never empty.
  package var presentations: [Shown]

  package init(key: [UInt8], uid: UInt32, presentations: [Shown]) {
    self.key = key
    self.uid = uid
    self.presentations = presentations
  }

  /// The next deadline; nil while everything is paused.
  package var nextExpiry: Instant? {
    presentations.compactMap { Presentation($0.memory, departed: .none).nextExpiry }.min()
  }
}

extension DurableHUD: StoredRecord {
  package static let table = "huds"
  package static let kinds: [EntityKind] = [.hud]

  package static var blank: DurableHUD { DurableHUD(key: [], uid: 0, presentations: []) }

  package var kind: EntityKind { .hud }

  package mutating func fields<Row: StorageVisitor>(_ row: inout Row) {
    row.key(&key)
    // The front level and its next deadline are stored so that the file is human-readable.
    let front = presentations.last?.memory
    var generation = front?.generation.value ?? 0
    row.field("generation", &generation)
    row.field("uid", &uid)
    var deadline = nextExpiry.map { $0.microseconds + row.offset }
    row.field("deadline_store_us", &deadline)
    var status = front?.request.status
    row.field("status", &status)
    let shown = StoredPresentations(all: presentations)
    var state = Row.isReading ? [] : shown.bytes(offset: row.offset)
    row.field("state", &state)
    guard Row.isReading else { return }
    if let read = StoredPresentations(bytes: state, offset: row.offset) {
      presentations = read.all
    } else {
      row.fail()
    }
  }

  package func restore(in engine: Engine, at place: UInt32, now: Moment) -> Bool {
    engine.restore(self, at: place, now: now)
    return true
  }
}

/// The presentations of all levels of a screen.
package struct StoredPresentations: Stored {
  package var all: [DurableHUD.Shown]

  package init(all: [DurableHUD.Shown]) { self.all = all }

  package static var blank: StoredPresentations { StoredPresentations(all: []) }

  package mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.version(1)
    bytes.list("presentations", &all)
    bytes.require(
      !all.isEmpty && zip(all, all.dropFirst()).allSatisfy { $0.level < $1.level })
  }
}

extension DurableHUD.Shown: Stored {
  package static var blank: DurableHUD.Shown { DurableHUD.Shown(.normal, .blank) }

  package mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.choice("level", &level)
    memory.request.fields(&bytes)
    memory.fields(&bytes)
  }
}

extension Presentation.Request: Stored {
  package static var blank: Presentation.Request { Presentation.Request() }

  package mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.choice("kind", &kind)
    bytes.field("status", &status)
    bytes.interval("grace", &grace)
    bytes.interval("minimum", &minimum)
    bytes.interval("fade_in", &fadeIn)
    bytes.interval("fade_out", &fadeOut)
    bytes.interval("message_minimum", &messageMinimum)
    bytes.interval("maximum", &maximum)
    bytes.choice("minimum_from", &minimumFrom)
    bytes.choice("early", &early)
    bytes.choice("mask", &mask)
    // No other is stored.
    isDurable = true
  }
}

extension Presentation.Memory: Stored {
  package static var blank: Presentation.Memory {
    Presentation.Memory(
      .blank, generation: Generation(0), phase: .hidden, requestedAt: .zero, visibleSince: .zero,
      limitedSince: .zero)
  }

  /// More holds than any client takes; few enough to be summed.
  private static var possibleHolds: ClosedRange<Int64> { 0...1 << 40 }

  /// The request is stored before it.
  package mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.field("generation", &generation.value)
    phase.fields(&bytes)
    Presentation.Dismissal.fields(&dismissal, &bytes)
    var end = end.map { Array($0.rawValue.utf8) }
    bytes.field("end", &end)
    var fraction = fraction.map { Int64(bitPattern: $0.bitPattern) }
    bytes.field("fraction", &fraction)
    bytes.field("unowned", &unownedLeases)
    bytes.field("owned", &ownedLeases)
    bytes.require(
      Self.possibleHolds.contains(unownedLeases) && Self.possibleHolds.contains(ownedLeases))
    bytes.instant("requested_at", &requestedAt)
    bytes.instant("visible_since", &visibleSince)
    bytes.instant("limited_since", &limitedSince)
    bytes.instant("paused_at", &pausedAt)
    guard Bytes.isReading else { return }
    self.end = end.flatMap { Presentation.End(rawValue: String(decoding: $0, as: UTF8.self)) }
    self.fraction = fraction.map { Double(bitPattern: UInt64(bitPattern: $0)) }
    bytes.require(self.fraction.map { (0...1).contains($0) } ?? true)
  }
}

extension Presentation.Phase {
  fileprivate mutating func fields(_ bytes: inout some StorageVisitor) {
    var (code, until): (UInt8, Instant) =
      switch self {
      case .waiting(let until): (0, until)
      case .appearing(let until): (1, until)
      case .visible: (2, .zero)
      case .disappearing(let until): (3, until)
      case .hidden: (4, .zero)
      }
    bytes.field("phase", &code)
    if [0, 1, 3].contains(code) { bytes.instant("until", &until) }
    switch code {
    case 0: self = .waiting(until: until)
    case 1: self = .appearing(until: until)
    case 2: self = .visible
    case 3: self = .disappearing(until: until)
    case 4: self = .hidden
    default: bytes.fail()
    }
  }
}

extension Presentation.Dismissal {
  fileprivate static func fields(
    _ dismissal: inout Presentation.Dismissal?, _ bytes: inout some StorageVisitor
  ) {
    var code: UInt8
    var moment = Instant.zero
    var end = Presentation.End.dismissed
    switch dismissal {
    case nil: code = 0
    case .delayed(let until): (code, moment) = (1, until)
    case .held(let since, let reason): (code, moment, end) = (2, since, reason)
    }
    bytes.field("dismissal", &code)
    if code == 1 || code == 2 { bytes.instant("moment", &moment) }
    if code == 2 { bytes.choice("reason", &end) }
    switch code {
    case 0: dismissal = nil
    case 1: dismissal = .delayed(until: moment)
    case 2: dismissal = .held(since: moment, end)
    default: bytes.fail()
    }
  }
}
