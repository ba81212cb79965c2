/// The durable part of a screen, as it is stored. Instants are on the boot clock of this boot.
package struct DurableHUD: Equatable, Sendable {
  /// The presentation of a level.
  package struct Shown: Equatable, Sendable {
    package var level: Level
    package var machine: Presentation

    package init(_ level: Level, _ machine: Presentation) {
      self.level = level
      self.machine = machine
    }
  }

  package var key: [UInt8]
  package var uid: UInt32
  /// The presentations, lowest level first; never empty.
  package var presentations: [Shown]

  package init(key: [UInt8], uid: UInt32, presentations: [Shown]) {
    self.key = key
    self.uid = uid
    self.presentations = presentations
  }

  /// The next deadline; nil while everything is paused.
  package var nextExpiry: Instant? { presentations.compactMap(\.machine.nextExpiry).min() }
}

extension DurableHUD: StoredRecord {
  package static let table = "huds"
  package static let kinds: [EntityKind] = [.hud]

  package static var blank: DurableHUD { DurableHUD(key: [], uid: 0, presentations: []) }

  package var kind: EntityKind { .hud }

  package mutating func fields<Row: StorageVisitor>(_ row: inout Row) {
    row.key(&key)
    // `generation`, `deadline_store_us` and `status` only make the file human-readable.
    let front = presentations.last?.machine
    var generation = front?.generation.value ?? 0
    row.field("generation", &generation)
    row.field("uid", &uid)
    var deadline = nextExpiry.map { $0.microseconds + row.offset }
    row.field("deadline_store_us", &deadline)
    var status = front?.shown.request.status
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
    var version: UInt8 = 2
    bytes.field("version", &version)
    bytes.require((1...2).contains(version))
    bytes.list("presentations", &all, blank: .blank) { bytes, shown in
      if version == 1 { shown.readVersion1(&bytes) } else { shown.fields(&bytes) }
    }
    bytes.require(
      !all.isEmpty && zip(all, all.dropFirst()).allSatisfy { $0.level < $1.level })
  }
}

extension DurableHUD.Shown: Stored {
  package static var blank: DurableHUD.Shown { DurableHUD.Shown(.normal, .blank) }

  package mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.choice("level", &level)
    machine.fields(&bytes)
  }
}

extension Presentation: Stored {
  package static var blank: Presentation {
    Presentation(.blank, generation: Generation(0), owner: .none, at: .zero) { _ in }
  }

  package mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.field("generation", &generation.value)
    bytes.list("shows", &shows)
    bytes.require((1...Self.mostHolds).contains(shows.count))
    bytes.field("held", &isHeld)
    bytes.require(isHeld || shows.count == 1)
    phase.fields(&bytes)
    Dismissal.fields(&dismissal, &bytes)
    End.fields(&end, &bytes)
    bytes.instant("requested_at", &requestedAt)
    bytes.instant("appeared_at", &appearedAt)
    bytes.instant("visible_since", &visibleSince)
    bytes.instant("paused_at", &pausedAt)
  }
}

extension Presentation.Show: Stored {
  package static var blank: Presentation.Show {
    Presentation.Show(.blank, generation: Generation(0), owner: .none, since: .zero)
  }

  /// Omits the owner: durable holds and messages have none.
  package mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    request.fields(&bytes)
    bytes.field("path", &request.path)
    bytes.field("generation", &generation.value)
    bytes.fraction(&fraction)
    bytes.instant("since", &since)
  }
}

extension Presentation.Request: Stored {
  /// A durable request, because only durable ones are stored.
  package static var blank: Presentation.Request {
    var request = Presentation.Request()
    request.isDurable = true
    return request
  }

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
  }
}

extension StorageVisitor {
  /// Visits the progress, from 0 to 1.
  mutating func fraction(_ fraction: inout Double?) {
    var stored = fraction.map { Int64(bitPattern: $0.bitPattern) }
    field("fraction", &stored)
    guard Self.isReading else { return }
    fraction = stored.map { Double(bitPattern: UInt64(bitPattern: $0)) }
    require(fraction.map { (0...1).contains($0) } ?? true)
  }
}

extension Presentation.Phase {
  fileprivate mutating func fields(_ bytes: inout some StorageVisitor) {
    var (code, since, until): (UInt8, Instant, Instant) =
      switch self {
      case .waiting: (0, .zero, .zero)
      case .appearing(let since, let until): (1, since, until)
      case .visible: (2, .zero, .zero)
      case .disappearing(let until): (3, .zero, until)
      case .hidden: (4, .zero, .zero)
      }
    bytes.field("phase", &code)
    if code == 1 { bytes.instant("since", &since) }
    if code == 1 || code == 3 { bytes.instant("until", &until) }
    switch code {
    case 0: self = .waiting
    case 1:
      bytes.require(since <= until)
      self = .appearing(since: since, until: until)
    case 2: self = .visible
    case 3: self = .disappearing(until: until)
    case 4: self = .hidden
    default: bytes.fail()
    }
  }
}

extension Presentation.Dismissal {
  static func fields(
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

extension Presentation.End {
  static func fields<Bytes: StorageVisitor>(
    _ end: inout Presentation.End?, _ bytes: inout Bytes
  ) {
    var text = end.map { Array($0.rawValue.utf8) }
    bytes.field("end", &text)
    guard Bytes.isReading else { return }
    end = text.flatMap { Presentation.End(rawValue: String(decoding: $0, as: UTF8.self)) }
  }
}
