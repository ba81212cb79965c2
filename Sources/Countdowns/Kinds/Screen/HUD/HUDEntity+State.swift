extension HUDEntity: EntityState {
  package static func blank(_ key: Span<UInt8>) -> HUDEntity {
    HUDEntity(key: Array(key), presentations: [], owners: [], uid: 0)
  }

  package mutating func state<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.field("uid", &uid)
    visitor.list("presentations", &presentations, blank: (level: .normal, machine: .blank)) {
      $0.choice("level", &$1.level)
      $1.machine.fields(&$0)
    }
    visitor.require(
      !presentations.isEmpty
        && zip(presentations, presentations.dropFirst()).allSatisfy { $0.level < $1.level })
    // Without an order of their own, they are written in that of their generations or numbers.
    var owners = self.owners.sorted { $0.rank < $1.rank }
    visitor.list("owners", &owners, blank: .none) { $0.owner(&$1) }
    if Visitor.isReading { self.owners = Set(owners) }
  }
}

extension Owner {
  fileprivate var rank: UInt64 {
    switch self {
    case .none: 0
    case .connection(let id): id
    case .scope(let name), .page(let name): UInt64(bitPattern: name.generation.value)
    }
  }
}

extension Presentation: Stored {
  package static var blank: Presentation {
    Presentation(.blank, generation: Generation(0), owner: .none, at: .zero) { _ in }
  }

  package mutating func fields<Bytes: StateVisitor>(_ bytes: inout Bytes) {
    bytes.field("generation", &generation.value)
    bytes.list("shows", &shows)
    bytes.require((1...Self.maximumHolds).contains(shows.count))
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

  package mutating func fields<Bytes: StateVisitor>(_ bytes: inout Bytes) {
    bytes.owner(&owner)
    request.fields(&bytes)
    bytes.field("path", &request.path)
    bytes.field("generation", &generation.value)
    bytes.optional("fraction", &fraction, blank: 0) { $0.number("fraction", &$1, in: 0...1) }
    bytes.instant("since", &since)
  }
}

extension Presentation.Request: Stored {
  package static var blank: Presentation.Request { Presentation.Request() }

  package mutating func fields<Bytes: StateVisitor>(_ bytes: inout Bytes) {
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
    bytes.field("durable", &isDurable)
  }
}

extension Presentation.Phase {
  fileprivate mutating func fields(_ bytes: inout some StateVisitor) {
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
    _ dismissal: inout Presentation.Dismissal?, _ bytes: inout some StateVisitor
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
  static func fields<Bytes: StateVisitor>(
    _ end: inout Presentation.End?, _ bytes: inout Bytes
  ) {
    var text = end.map { Array($0.rawValue.utf8) }
    bytes.field("end", &text)
    guard Bytes.isReading else { return }
    end = text.flatMap { Presentation.End(rawValue: String(decoding: $0, as: UTF8.self)) }
  }
}

extension HUDKind {
  static var canBeDurable: Bool { true }

  static func stored(_ state: HUDEntity) -> HUDEntity? {
    guard state.isDurable else { return nil }
    var state = state
    state.presentations = state.presentations.compactMap { level, machine in
      machine.durable.map { (level, $0) }
    }
    state.owners = []
    return state
  }
}
