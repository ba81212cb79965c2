import Wire

extension CountdownEntity: EntityState {
  package static func blank(_ key: Span<UInt8>) -> CountdownEntity {
    CountdownEntity(machine: .blank, generation: Generation(0), uid: 0, titles: nil)
  }

  package var format: UInt8 {
    guard let extras else { return EntityRecord.plain }
    return max(extras.sending?.format ?? EntityRecord.plain, extras.tokens.format)
  }

  package mutating func state<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.generation(&generation)
    visitor.field("uid", &uid)
    var owner = owner
    visitor.owner(&owner)
    machine.fields(&visitor)
    var (title, readyTitle) = (titles?.counting, titles?.ready)
    visitor.field("title", &title)
    visitor.field("ready_title", &readyTitle)
    // Most countdowns have none of the rest.
    var details = extras
    visitor.optional("details", &details, blank: CountdownExtras()) { $1.fields(&$0) }
    guard Visitor.isReading else { return }
    titles = .of(counting: title, ready: readyTitle)
    extras = details
    self.owner = owner
    visitor.require(tokens.newest.map { $0 <= generation } ?? true)
  }
}

extension CountdownExtras {
  /// Visits all fields but the owner.
  fileprivate func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.field("meta", &annotations.meta)
    tokens.fields(&visitor)
    visitor.optional("sending", &sending, blank: .blank) { $1.fields(&$0) }
  }
}

extension Countdown: Stored {
  package static var blank: Countdown {
    Countdown(Plan(count: 1, every: .seconds(1))!, at: .zero)
  }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    var (code, moment, left): (UInt8, Instant, Interval) =
      switch phase {
      case .counting(let until): (0, until, .zero)
      case .paused(let left): (1, .zero, left)
      case .ready(let since): (2, since, .zero)
      case .idle(let since): (3, since, .zero)
      }
    var plan = plan
    var (sends, isRefunded) = (sends, isRefunded)
    visitor.field("phase", &code)
    if code == 1 { visitor.interval("left", &left) } else { visitor.instant("moment", &moment) }
    visitor.field("count", &plan.count)
    visitor.field("every", &plan.every.microseconds)
    visitor.field("fires_at_once", &plan.firesAtOnce)
    visitor.field("sends", &sends)
    visitor.field("refunded", &isRefunded)
    guard Visitor.isReading else { return }
    guard code <= 3,
      let plan = Plan(count: plan.count, every: plan.every, firesAtOnce: plan.firesAtOnce)
    else { return visitor.fail() }
    let phase: Phase =
      switch code {
      case 0: .counting(until: moment)
      case 1: .paused(left: left)
      case 2: .ready(since: moment)
      default: .idle(since: moment)
      }
    self = Countdown(plan, phase, sends: sends, isRefunded: isRefunded)
  }
}

extension CountdownKind {
  static var canBeDurable: Bool { true }

  static func stored(_ state: CountdownEntity) -> CountdownEntity? {
    guard state.owner != .none else { return state }
    guard let sending = state.sending, let last = sending.record.last else { return nil }
    var machine = state.machine
    _ = machine.cancel(at: last.at)
    var stored = CountdownEntity(
      machine: machine, generation: state.generation, uid: state.uid, titles: state.titles)
    stored.sending = sending
    stored.annotations = state.annotations
    stored.tokens = state.tokens
    return stored
  }

  /// The same without a copy: it is asked for each change.
  static func isDurable(_ index: UInt32, in engine: Engine) -> Bool {
    engine.countdowns.contains(index)
      && (engine.countdowns.owner(index) == .none || engine.countdowns.hasSends(index))
  }

  /// Restores a countdown. If it is overdue, its timer fires late.
  static func restore(
    _ key: Span<UInt8>, _ state: CountdownEntity, at index: UInt32, in engine: Engine,
    at now: Moment
  ) -> Bool {
    guard engine.countdowns.insert(key, state, at: index) else { return false }
    engine.restored(EntityRef(kind, index), state.owner)
    engine.restored(EntityRef(kind, index), uid: state.uid)
    engine.armCountdown(index, at: now)
    return true
  }

  /// Appends a plain countdown that counts or is ready, as most do, from the template.
  static func append(_ index: UInt32, of engine: Engine, to batch: ChangeWriter) -> Bool {
    guard engine.countdowns.isPlain(index) else { return false }
    let machine = engine.countdowns.machine(index)
    let moment: Instant
    switch machine.phase {
    case .counting(let until): moment = until
    case .ready(let since): moment = since
    case .paused, .idle: return false
    }
    let uid = engine.countdowns.uid(index)
    engine.stores.countdowns.recordTemplate.update(machine, uid: uid, offset: batch.offset)
    let generation = engine.countdowns.generation(index)
    engine.countdowns.withKey(index) { key in
      batch.append(kind, at: index, atMost: RecordTemplate.maximum + key.count) {
        engine.stores.countdowns.recordTemplate.write(key, generation, moment, to: &$0)
      }
    }
    return true
  }
}

/// The record of a plain countdown that counts or is ready. Most differ from the one before only in
/// key, generation and moment, so the rest is encoded once and copied.
struct RecordTemplate {
  private var plan: Countdown.Plan?
  private var isCounting = false
  private var uid: UInt32 = 0
  private var sends: UInt32 = 0
  private var isRefunded = false
  private var offset: Int64 = 0
  private var bytes: [UInt8] = []

  /// The places of fields in the bytes, with an empty key.
  private static let generation = EntityRecord.headerLength
  private static let uid = generation + 8
  /// After uid, owner and phase.
  private static let moment = uid + 4 + 1 + 1
  private static let rest = moment + 8

  /// An upper bound for the bytes of a record, without its key.
  static let maximum = 128

  /// - Parameter offset: how many microseconds the store's clock is ahead of the boot clock.
  @inline(__always)
  mutating func update(_ machine: Countdown, uid: UInt32, offset: Int64) {
    guard
      machine.plan != plan || machine.ticks != isCounting || uid != self.uid
        || machine.sends != sends || machine.isRefunded != isRefunded || offset != self.offset
    else { return }
    (plan, isCounting, self.uid, self.offset) = (machine.plan, machine.ticks, uid, offset)
    (sends, isRefunded) = (machine.sends, machine.isRefunded)
    var state = CountdownEntity(
      machine: machine, generation: Generation(0), uid: uid, titles: nil)
    var writer = StateWriter(offset: offset)
    let key: [UInt8] = []
    CountdownKind.write(key.span, &state, to: &writer)
    bytes = writer.bytes
  }

  @inline(__always)
  func write(
    _ key: Span<UInt8>, _ generation: Generation, _ moment: Instant, to text: inout ShortText
  ) {
    text.word(UInt64(EntityRecord.plain), count: 1)
    text.word(UInt64(UInt32(key.count).bigEndian), count: 4)
    text.raw(key)
    text.word(UInt64(bitPattern: generation.value.bigEndian), count: 8)
    text.raw(bytes.span.extracting(Self.uid..<Self.moment))
    text.word(UInt64(bitPattern: (moment.microseconds &+ offset).bigEndian), count: 8)
    text.raw(bytes.span.extracting(Self.rest...))
  }
}
