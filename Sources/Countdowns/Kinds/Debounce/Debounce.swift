/// One event for many calls, once they pause.
///
///     (nothing) --call--> waiting --call--> waiting
///     waiting --quiet--> (nothing), fired       waiting --MAXWAIT--> resting, fired
///     (nothing) --call, EDGES leading or both--> resting, fired
///     resting --call--> waiting                 resting --quiet--> (nothing)
///     resting --call, EDGES leading--> resting  resting --MAXWAIT, EDGES leading--> (nothing)
///     any --CANCEL, owner gone--> (nothing)     waiting --FLUSH--> (nothing), fired
///
/// A burst of calls is over when the quiet time has passed since the newest one. MAXWAIT counts
/// from the first call that no event has reported; if the newest call sets one that is over
/// already, it fires at once. `resting` means that events have reported all calls, but the burst is
/// not over: so the leading edge is that of the first call of a burst only. With EDGES leading, no
/// event reports the other calls.
///
/// With SPACING, firings are at least so long apart, also those of different bursts: it is
/// remembered when the last one was. What waits then fires as soon as it may, unless a longer
/// MAXWAIT is given: so it is a throttle.
package struct Debounce: Guard {
  /// Which calls of a burst fire: the first one at once, the others once it is quiet, or both.
  package enum Edges: String, CaseIterable, Sendable { case leading, trailing, both }

  package struct Rule: Equatable, Sendable {
    package var quiet: Interval
    /// The longest wait as given, at least `quiet`.
    package var maximumWait: Interval?
    package var edges: Edges
    /// The least time between two firings, at least 1 ms; nil for none.
    package var spacing: Interval?

    /// Returns nil if `quiet` or `spacing` is under 1 ms, or MAXWAIT shorter than `quiet`.
    package init?(
      quiet: Interval, maximumWait: Interval? = nil, edges: Edges = .trailing,
      spacing: Interval? = nil
    ) {
      guard quiet >= .milliseconds(1), spacing ?? quiet >= .milliseconds(1) else { return nil }
      if let maximumWait, maximumWait < quiet { return nil }
      self.quiet = quiet
      self.maximumWait = maximumWait
      self.edges = edges
      self.spacing = spacing
    }

    var isLeading: Bool { edges != .trailing }
    /// The longest wait; nil without a limit. A throttle does not wait for a pause.
    var longest: Interval? { maximumWait ?? spacing.map { max($0, quiet) } }
    /// Whether a later decision needs to know when it fired.
    var remembersFirings: Bool { spacing != nil || edges == .leading }
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
  /// When it last fired; nil if it has not, or if the rule does not need to know.
  package private(set) var lastFired: Instant?

  /// Begins a burst with its first call. Also returns what to fire on the leading edge.
  ///
  /// - Parameter before: when the burst before fired last, if that is remembered.
  package static func begin(
    _ rule: Rule, _ payload: [UInt8]?, after before: Instant? = nil, at now: Instant
  ) -> (Debounce, Firing?) {
    var debounce = Debounce(
      rule, lastCall: now, waiting: nil, lastFired: rule.remembersFirings ? before : nil)
    guard rule.isLeading, debounce.spacedUntil ?? now <= now else {
      debounce.call(rule, payload, at: now)
      return (debounce, nil)
    }
    debounce.noteFiring(at: now)
    return (debounce, Firing(edge: .leading, due: nil, calls: 1, payload: payload))
  }

  /// Restores a stored debouncer.
  package init(_ rule: Rule, lastCall: Instant, waiting: Waiting?, lastFired: Instant? = nil) {
    self.rule = rule
    self.lastCall = lastCall
    self.waiting = waiting
    self.lastFired = lastFired
  }

  // MARK: Inputs

  /// Adds a call to the burst.
  package mutating func call(_ rule: Rule, _ payload: [UInt8]?, at now: Instant) {
    self.rule = rule
    lastCall = now
    if !rule.remembersFirings { lastFired = nil }
    guard rule.edges != .leading else {
      waiting = nil
      return
    }
    // A call that has to wait for SPACING waits since the firing before.
    let isSpaced = spacedUntil.map { now < $0 } ?? false
    waiting = Waiting(
      since: waiting?.since ?? (isSpaced ? lastFired! : now), calls: (waiting?.calls ?? 0) + 1,
      payload: payload)
  }

  /// Advances to `now`.
  ///
  /// - Returns: what to fire, if anything, and whether the burst is over.
  package mutating func expire(at now: Instant) -> (firing: Firing?, isOver: Bool) {
    let due = nextDue
    guard let waiting else { return (nil, due <= now) }
    guard due <= now else { return (nil, false) }
    self.waiting = nil
    let edge: Reason =
      due == quietFrom ? .quiet : due == spacedUntil ? .spacing : .maximumWait
    noteFiring(at: now)
    return (
      Firing(edge: edge, due: due, calls: waiting.calls, payload: waiting.payload), nextDue <= now
    )
  }

  /// - Returns: what to fire now, which ends the burst; nil if no call waits. SPACING delays what
  ///   comes after it, not this.
  package mutating func flush(at now: Instant) -> Firing? {
    guard let waiting else { return nil }
    drop()
    noteFiring(at: now)
    return Firing(edge: .flush, due: nil, calls: waiting.calls, payload: waiting.payload)
  }

  /// Drops the calls that wait.
  package mutating func drop() { waiting = nil }

  private mutating func noteFiring(at now: Instant) {
    if rule.remembersFirings { lastFired = now }
  }

  // MARK: State

  package var nextExpiry: Instant? { nextDue }
  package var rememberedUntil: Instant? { spacedUntil }

  private var quietFrom: Instant { lastCall + rule.quiet }
  /// Until when SPACING lets nothing fire; nil if it does not matter.
  private var spacedUntil: Instant? {
    guard let lastFired, let spacing = rule.spacing else { return nil }
    return lastFired + spacing
  }

  /// When it fires next, or when the burst is over.
  var nextDue: Instant {
    guard let waiting else {
      guard rule.edges == .leading, let lastFired, let longest = rule.longest,
        lastFired + longest > lastCall
      else { return quietFrom }
      return min(quietFrom, lastFired + longest)
    }
    // A call with a shorter MAXWAIT than those before is not due before it is made.
    let due = rule.longest.map { min(quietFrom, max(waiting.since + $0, lastCall)) } ?? quietFrom
    return max(due, spacedUntil ?? due)
  }
}

extension Debounce {
  package typealias View = DebounceView
  package static var blank: Debounce {
    Debounce(Rule(quiet: .seconds(1))!, lastCall: .zero, waiting: nil)
  }

  package var format: UInt8 {
    rule.remembersFirings ? EntityRecord.leased : EntityRecord.plain
  }

  /// The range of a stored number of calls.
  private static let counts: ClosedRange<Int64> = 0...1 << 53

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.interval("quiet", &rule.quiet)
    visitor.interval("max_wait", &rule.maximumWait)
    if visitor.format >= EntityRecord.leased {
      visitor.code("edges", &rule.edges, of: [.trailing, .both, .leading])
      visitor.interval("spacing", &rule.spacing)
      visitor.instant("last_fired", &lastFired)
    } else {
      visitor.code("leading", &rule.edges, of: [.trailing, .both])
    }
    visitor.require(
      Rule(
        quiet: rule.quiet, maximumWait: rule.maximumWait, edges: rule.edges, spacing: rule.spacing)
        != nil)
    visitor.instant("last_call", &lastCall)
    visitor.optional("waiting", &waiting, blank: Waiting(since: .zero, calls: 0, payload: nil)) {
      $0.instant("since", &$1.since)
      $0.field("calls", &$1.calls)
      $0.require(Self.counts.contains($1.calls))
      $0.field("payload", &$1.payload)
    }
  }
}
