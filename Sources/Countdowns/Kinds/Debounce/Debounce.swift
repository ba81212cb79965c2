/// One event for many calls, once they pause.
///
///     (nothing) --call--> waiting --call--> waiting
///     waiting --quiet--> (nothing), fired       waiting --MAXWAIT--> resting, fired
///     (nothing) --call LEADING--> resting, fired
///     resting --call--> waiting                 resting --quiet--> (nothing)
///     any --CANCEL, owner gone--> (nothing)     waiting --FLUSH--> (nothing), fired
///
/// A burst of calls is over when the quiet time has passed since the newest one. MAXWAIT counts
/// from the first call that no event has reported; if the newest call sets one that is over
/// already, it fires at once. `resting` means that events have reported all calls, but the burst is
/// not over: so LEADING fires at once for the first call of a burst only.
package struct Debounce: Guard {
  package struct Rule: Equatable, Sendable {
    package var quiet: Interval
    /// The longest wait, at least `quiet`; nil without a limit.
    package var maximumWait: Interval?
    package var isLeading: Bool

    /// Returns nil if `quiet` is under 1 ms, or MAXWAIT shorter than `quiet`.
    package init?(quiet: Interval, maximumWait: Interval? = nil, isLeading: Bool = false) {
      guard quiet >= .milliseconds(1) else { return nil }
      if let maximumWait, maximumWait < quiet { return nil }
      self.quiet = quiet
      self.maximumWait = maximumWait
      self.isLeading = isLeading
    }
  }

  /// Calls that no event has reported yet.
  package struct Waiting: Equatable, Sendable {
    package var since: Instant
    package var calls: Int64
    /// The payload of the newest call.
    package var payload: [UInt8]?

    package init(since: Instant, calls: Int64, payload: [UInt8]?) {
      self.since = since
      self.calls = calls
      self.payload = payload
    }
  }

  package struct Firing: Equatable, Sendable {
    package var edge: Reason
    /// When it was due; nil if a command fired it.
    package var due: Instant?
    package var calls: Int64
    package var payload: [UInt8]?

    package init(edge: Reason, due: Instant?, calls: Int64, payload: [UInt8]?) {
      self.edge = edge
      self.due = due
      self.calls = calls
      self.payload = payload
    }
  }

  /// The rule of the newest call.
  package private(set) var rule: Rule
  package private(set) var lastCall: Instant
  /// The calls that no event has reported yet; nil while it rests.
  package private(set) var waiting: Waiting?

  /// Begins a burst with its first call. With LEADING, also returns what to fire.
  package static func begin(
    _ rule: Rule, _ payload: [UInt8]?, at now: Instant
  ) -> (Debounce, Firing?) {
    var debounce = Debounce(rule, lastCall: now, waiting: nil)
    guard !rule.isLeading else {
      return (debounce, Firing(edge: .leading, due: nil, calls: 1, payload: payload))
    }
    debounce.call(rule, payload, at: now)
    return (debounce, nil)
  }

  /// Restores a stored debouncer.
  package init(_ rule: Rule, lastCall: Instant, waiting: Waiting?) {
    self.rule = rule
    self.lastCall = lastCall
    self.waiting = waiting
  }

  // MARK: Inputs

  /// Adds a call to the burst.
  package mutating func call(_ rule: Rule, _ payload: [UInt8]?, at now: Instant) {
    self.rule = rule
    lastCall = now
    waiting = Waiting(
      since: waiting?.since ?? now, calls: (waiting?.calls ?? 0) + 1, payload: payload)
  }

  /// Advances to `now`.
  ///
  /// - Returns: what to fire, if anything, and whether the burst is over.
  package mutating func expire(at now: Instant) -> (firing: Firing?, isOver: Bool) {
    let quiet = lastCall + rule.quiet
    guard let waiting else { return (nil, quiet <= now) }
    let due = nextDue
    guard due <= now else { return (nil, false) }
    self.waiting = nil
    let firing = Firing(
      edge: due == quiet ? .quiet : .maximumWait, due: due, calls: waiting.calls,
      payload: waiting.payload)
    return (firing, quiet <= now)
  }

  /// - Returns: what to fire now, which ends the burst; nil if no call waits.
  package func flush() -> Firing? {
    waiting.map { Firing(edge: .flush, due: nil, calls: $0.calls, payload: $0.payload) }
  }

  // MARK: State

  package var nextExpiry: Instant? { nextDue }

  var nextDue: Instant {
    let quiet = lastCall + rule.quiet
    guard let waiting, let longest = rule.maximumWait else { return quiet }
    // A call with a shorter MAXWAIT than those before is not due before it is made.
    return min(quiet, max(waiting.since + longest, lastCall))
  }
}

extension Debounce {
  package typealias View = DebounceView
  package static var blank: Debounce {
    Debounce(Rule(quiet: .seconds(1))!, lastCall: .zero, waiting: nil)
  }

  /// The range of a stored number of calls.
  private static let counts: ClosedRange<Int64> = 0...1 << 53

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.interval("quiet", &rule.quiet)
    visitor.interval("max_wait", &rule.maximumWait)
    visitor.field("leading", &rule.isLeading)
    visitor.require(
      Rule(quiet: rule.quiet, maximumWait: rule.maximumWait, isLeading: rule.isLeading) != nil)
    visitor.instant("last_call", &lastCall)
    visitor.optional("waiting", &waiting, blank: Waiting(since: .zero, calls: 0, payload: nil)) {
      $0.instant("since", &$1.since)
      $0.field("calls", &$1.calls)
      $0.require(Self.counts.contains($1.calls))
      $0.field("payload", &$1.payload)
    }
  }
}
