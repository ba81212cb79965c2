import Wire

/// A countdown as it is stored. Instants are on the boot clock of this boot. A countdown with an
/// owner is stored for its sends, without cooldown and owner, as if it were cancelled.
package struct DurableCountdown: Equatable, Sendable {
  package var key: [UInt8]
  package var machine: Countdown
  package var generation: Generation
  package var uid: UInt32
  package var title: [UInt8]?
  package var readyTitle: [UInt8]?
  package var annotations = Annotations()
  package var tokens: [SentToken] = []
  package var sending: DurableSending?

  package init(key: [UInt8], machine: Countdown, generation: Generation, uid: UInt32) {
    self.key = key
    self.machine = machine
    self.generation = generation
    self.uid = uid
  }

}

extension DurableCountdown: StoredRecord {
  package static let table = "countdowns"
  package static let kinds: [EntityKind] = [.countdown]

  package static var blank: DurableCountdown {
    DurableCountdown(
      key: [], machine: Countdown(Countdown.Plan(count: 1, every: .seconds(1))!, at: .zero),
      generation: Generation(0), uid: 0)
  }

  package var kind: EntityKind { .countdown }

  package mutating func fields<Row: StorageVisitor>(_ row: inout Row) {
    row.key(&key)
    row.field("generation", &generation.value)
    row.field("uid", &uid)
    var stored = StoredCountdown(machine)
    row.field("phase", &stored.phase)
    row.instant("deadline_store_us", &stored.deadline)
    row.interval("left_us", &stored.left)
    row.field("step_count", &stored.count)
    row.field("every_us", &stored.every.microseconds)
    row.field("fires_at_once", &stored.firesAtOnce)
    row.field("sends", &stored.sends)
    row.field("refunded", &stored.isRefunded)
    row.field("title", &title)
    row.field("ready_title", &readyTitle)
    annotations.fields(&row)
    // The token of the newest start, which may have none.
    var newest = newestToken
    row.field("token", &newest)
    var policy = sending?.policyName
    row.field("policy", &policy)
    var state = sending?.bytes(offset: row.offset)
    row.field("policy_state", &state)
    var earlier = earlierTokens
    row.field("earlier_tokens", &earlier)
    guard Row.isReading else { return }
    row.require(setTokens(newest, earlier: earlier))
    row.require(setSending(policy, state, offset: row.offset))
    if let read = stored.machine { machine = read } else { row.fail() }
  }

  package func restore(in engine: Engine, at place: UInt32, now: Moment) -> Bool {
    engine.restore(self, at: place, now: now) != nil
  }

  // MARK: Tokens

  package var newestToken: [UInt8]? {
    tokens.last.flatMap { $0.generation == generation ? $0.token : nil }
  }

  package var earlierTokens: [UInt8]? {
    guard !tokens.isEmpty else { return nil }
    let earlier = newestToken == nil ? tokens[...] : tokens.dropLast()
    return earlier.isEmpty ? nil : StoredTokens(tokens: Array(earlier)).bytes(offset: 0)
  }

  /// Decodes the tokens. Returns false for invalid bytes.
  package mutating func setTokens(_ newest: [UInt8]?, earlier: [UInt8]?) -> Bool {
    if let earlier {
      guard let read = StoredTokens(bytes: earlier, offset: 0) else { return false }
      tokens = read.tokens
    }
    if let newest { tokens.append(SentToken(newest, generation)) }
    return true
  }

  /// Decodes the policy and the sends under it. Returns false for invalid bytes.
  package mutating func setSending(_ policy: [UInt8]?, _ state: [UInt8]?, offset: Int64) -> Bool {
    guard let policy, let state else { return true }
    sending = DurableSending(policyName: policy, bytes: state, offset: offset)
    return sending != nil
  }
}

/// A countdown's machine, as columns.
package struct StoredCountdown {
  package var phase: UInt8
  package var deadline: Instant?
  package var left: Interval?
  package var count: UInt32
  package var every: Interval
  package var firesAtOnce: Bool
  package var sends: UInt32
  package var isRefunded: Bool

  package init(_ machine: Countdown) {
    (phase, deadline, left) =
      switch machine.phase {
      case .counting(let until): (0, until, nil)
      case .paused(let left): (1, nil, left)
      case .ready(let since): (2, since, nil)
      case .idle(let since): (3, since, nil)
      }
    count = machine.plan.count
    every = machine.plan.every
    firesAtOnce = machine.plan.firesAtOnce
    sends = machine.sends
    isRefunded = machine.isRefunded
  }

  /// The countdown of these columns; nil if they are invalid.
  package var machine: Countdown? {
    let phase: Countdown.Phase
    switch (self.phase, deadline, left) {
    case (0, let until?, nil): phase = .counting(until: until)
    case (1, nil, let left?): phase = .paused(left: left)
    case (2, let since?, nil): phase = .ready(since: since)
    case (3, let since?, nil): phase = .idle(since: since)
    default: return nil
    }
    return Countdown.Plan(count: count, every: every, firesAtOnce: firesAtOnce).map {
      Countdown($0, phase, sends: sends, isRefunded: isRefunded)
    }
  }
}

/// Tokens of accepted starts.
struct StoredTokens: Stored {
  var tokens: [SentToken] = []

  static var blank: StoredTokens { StoredTokens() }

  mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    if Bytes.isReading {
      // The number of tokens is not stored.
      while bytes.bytesLeft > 0, !bytes.hasFailed {
        var sent = SentToken([], Generation(0))
        sent.fields(&bytes)
        tokens.append(sent)
      }
    } else {
      for index in tokens.indices { tokens[index].fields(&bytes) }
    }
  }
}

extension SentToken {
  fileprivate mutating func fields(_ bytes: inout some StorageVisitor) {
    bytes.field("generation", &generation.value)
    bytes.field("token", &token)
  }
}

/// The stored bytes of a plain countdown that counts or is ready. Most differ from those of the
/// countdown before only in key, generation and deadline, so the rest is encoded once and copied.
struct StoredForm {
  private var plan: Countdown.Plan?
  private var isCounting = false
  private var uid: UInt32 = 0
  private var sends: UInt32 = 0
  private var isRefunded = false
  private var offset: Int64 = 0
  private var bytes: [UInt8] = []

  /// The offsets of fields in the bytes, with an empty key.
  private static let uidPlace = 4 + 8
  private static let deadlinePlace = uidPlace + 4 + 1 + 1
  private static let restPlace = deadlinePlace + 8

  /// An upper bound for the bytes of a countdown, without its key.
  static let most = 128

  /// - Parameter offset: how many microseconds the store's clock is ahead of the boot clock.
  @inline(__always)
  mutating func update(_ machine: Countdown, uid: UInt32, offset: Int64) {
    guard
      machine.plan != plan || machine.ticks != isCounting || uid != self.uid
        || machine.sends != sends || machine.isRefunded != isRefunded || offset != self.offset
    else { return }
    (plan, isCounting, self.uid, self.offset) = (machine.plan, machine.ticks, uid, offset)
    (sends, isRefunded) = (machine.sends, machine.isRefunded)
    bytes = DurableCountdown(key: [], machine: machine, generation: Generation(0), uid: uid)
      .bytes(offset: offset)
  }

  @inline(__always)
  func write(
    _ key: Span<UInt8>, _ generation: Generation, _ deadline: Instant, to text: inout ShortText
  ) {
    text.word(UInt64(UInt32(key.count).bigEndian), count: 4)
    text.raw(key)
    text.word(UInt64(bitPattern: generation.value.bigEndian), count: 8)
    text.raw(bytes.span.extracting(Self.uidPlace..<Self.deadlinePlace))
    text.word(UInt64(bitPattern: (deadline.microseconds &+ offset).bigEndian), count: 8)
    text.raw(bytes.span.extracting(Self.restPlace...))
  }
}
