/// An idempotency key: something runs once, and a repetition gets its status and result.
///
///     (nothing) --ONCE--> running --DONE--> done
///     running | done --CANCEL, TTL over--> (nothing)      running --owner gone--> (nothing)
///
/// TTL counts from the first request; DONE does not prolong it.
package struct Once: Guard {
  package enum Phase: Equatable, Sendable {
    case running
    case done(result: [UInt8])
  }

  package private(set) var phase: Phase
  /// When the TTL is over; until then repetitions get this result.
  package let deadline: Instant

  package init(for ttl: Interval, at now: Instant) {
    phase = .running
    deadline = now + ttl
  }

  /// Restores a stored key.
  package init(_ phase: Phase, until deadline: Instant) {
    self.phase = phase
    self.deadline = deadline
  }

  // MARK: Inputs

  /// Records the result. Returns false, and keeps the first result, if there is one.
  package mutating func finish(_ result: [UInt8]) -> Bool {
    guard case .running = phase else { return false }
    phase = .done(result: result)
    return true
  }

  // MARK: State

  package var nextExpiry: Instant? { deadline }

  package func remainingTime(at now: Instant) -> Interval { max(deadline - now, .zero) }
}

extension Once {
  package typealias View = OnceView
  package static var blank: Once { Once(.running, until: .zero) }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    var result: [UInt8]?
    if case .done(let done) = phase { result = done }
    var deadline = deadline
    visitor.instant("deadline", &deadline)
    visitor.field("result", &result)
    if Visitor.isReading {
      self = Once(result.map { .done(result: $0) } ?? .running, until: deadline)
    }
  }
}
