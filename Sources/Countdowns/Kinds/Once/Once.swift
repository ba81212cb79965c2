/// An idempotency key: something runs once, and a repetition gets its status and result.
///
///     (nothing) --BEGIN--> running --DONE--> done
///     running --EXTEND--> running        running --LEASE over--> lapsed --DONE--> done
///     lapsed --BEGIN--> running, with another generation
///     any --CANCEL, TTL over--> (nothing)        running --owner gone--> (nothing)
///
/// TTL counts from the first request; DONE does not prolong it. With a lease, the work that stops
/// extending it does not keep others out: `lapsed` is nothing to clients, but as long as nobody has
/// begun again, the result of the late work is accepted.
package struct Once: Guard {
  package enum Phase: Equatable, Sendable {
    case running
    /// The lease is over.
    case lapsed
    case done(result: [UInt8])
  }

  package struct Lease: Equatable, Sendable {
    /// How long the work may take without EXTEND.
    package var length: Interval
    package var until: Instant

    package init(_ length: Interval, at now: Instant) {
      self.length = length
      until = now + length
    }
  }

  package private(set) var phase: Phase
  /// When the TTL is over; until then repetitions get this result.
  package let deadline: Instant
  /// Kept when the work is done, as its generation is still needed; nil without LEASE.
  package private(set) var lease: Lease?
  /// What the first request was about; nil if it did not say.
  package let fingerprint: Fingerprint?

  package init(
    for ttl: Interval, lease: Interval? = nil, fingerprint: Fingerprint? = nil, at now: Instant
  ) {
    self.init(
      .running, until: now + ttl, lease: lease.map { Lease($0, at: now) }, fingerprint: fingerprint)
  }

  /// Restores a stored key.
  package init(
    _ phase: Phase, until deadline: Instant, lease: Lease? = nil, fingerprint: Fingerprint? = nil
  ) {
    self.phase = phase
    self.deadline = deadline
    self.lease = lease
    self.fingerprint = fingerprint
  }

  // MARK: Inputs

  /// Records the result. Returns false, and keeps the first result, if there is one.
  package mutating func finish(_ result: [UInt8]) -> Bool {
    if case .done = phase { return false }
    phase = .done(result: result)
    return true
  }

  /// Lets the lease begin again, with another length if one is given. Returns false unless work
  /// with a lease is running.
  package mutating func extend(_ length: Interval?, at now: Instant) -> Bool {
    guard phase == .running, let lease else { return false }
    self.lease = Lease(length ?? lease.length, at: now)
    return true
  }

  /// Ends the work if its lease is over before TTL. Returns whether it did.
  package mutating func lapse(at now: Instant) -> Bool {
    guard phase == .running, let lease, lease.until < deadline, lease.until <= now else {
      return false
    }
    phase = .lapsed
    return true
  }

  // MARK: State

  package var nextExpiry: Instant? {
    guard phase == .running, let lease else { return deadline }
    return min(lease.until, deadline)
  }

  package var rememberedUntil: Instant? { phase == .lapsed ? deadline : nil }

  /// Returns whether a request is known to be about something else.
  package func differs(from other: Fingerprint?) -> Bool {
    guard let fingerprint, let other else { return false }
    return fingerprint != other
  }

  package func remainingTime(at now: Instant) -> Interval { max(deadline - now, .zero) }
}

/// Stands for a text of any length, to tell two texts apart.
package struct Fingerprint: Equatable, Sendable {
  private var high: Int64 = 0
  private var low: Int64 = 0

  package init(of text: Span<UInt8>) {
    // With 128 bits, two texts are not the same by accident. It is stored, so the keys are fixed.
    high = Int64(bitPattern: SipHash(key: (1, 0))(text, compression: 2, finalization: 4))
    low = Int64(bitPattern: SipHash(key: (2, 0))(text, compression: 2, finalization: 4))
  }

  fileprivate static var blank: Fingerprint { Fingerprint(of: [UInt8]().span) }

  fileprivate mutating func fields(_ visitor: inout some StateVisitor) {
    visitor.field("high", &high)
    visitor.field("low", &low)
  }
}

extension Once {
  package typealias View = OnceView
  package static var blank: Once { Once(.running, until: .zero) }

  package var format: UInt8 {
    lease == nil && fingerprint == nil ? EntityRecord.plain : EntityRecord.leased
  }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    var result: [UInt8]?
    if case .done(let done) = phase { result = done }
    var (deadline, lease, fingerprint) = (deadline, lease, fingerprint)
    var isLapsed = phase == .lapsed
    visitor.instant("deadline", &deadline)
    visitor.field("result", &result)
    if visitor.format >= EntityRecord.leased {
      visitor.optional("lease", &lease, blank: Lease(.zero, at: .zero)) {
        $0.interval("length", &$1.length)
        $0.instant("until", &$1.until)
      }
      visitor.field("lapsed", &isLapsed)
      visitor.require(!isLapsed || lease != nil && result == nil)
      visitor.optional("fingerprint", &fingerprint, blank: .blank) { $1.fields(&$0) }
    }
    guard Visitor.isReading else { return }
    let phase = result.map { Phase.done(result: $0) } ?? (isLapsed ? .lapsed : .running)
    self = Once(phase, until: deadline, lease: lease, fingerprint: fingerprint)
  }
}
