/// A hierarchical timing wheel: very many pending timers, one clock, exact deadlines.
///
/// Time is a count of *ticks*; what a tick is (a microsecond, a frame, a step of a simulation) is
/// the caller's business, as are clocks and threads. The wheel only orders deadlines:
///
///     var wheel = TimerWheel()
///     let token = wheel.schedule(deadline: 60_000, payload: 7)
///     wheel.nextDeadline                          // 60_000: arm one alarm for it
///     var budget = 1_000
///     while let due = wheel.advance(to: 60_000, budget: &budget) {
///       handle(due.payload)                       // may schedule and cancel freely
///     }
///
/// Eleven levels of 64 slots cover all 64 bits of a tick, so no deadline is too far and none is
/// rounded. A timer sits on the level of the highest 6-bit digit in which its deadline differs
/// from `elapsed`; when time enters a slot above level 0, the slot *cascades*: its timers move to
/// lower levels. Cancelling unlinks at once: nothing dead stays behind.
///
/// Guarantees:
/// - A timer never expires before `advance(to:)` is told that its deadline has come.
/// - Timers expire in the order of their deadlines, equal deadlines in the order of arming.
///   A deadline that is already past when armed counts as due now.
/// - A token is good for one timer only, also after its record has been reused.
///
/// Not thread-safe: confine it to one queue, thread or event loop.
///
/// Source: G. Varghese, T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 7.
public struct TimerWheel: ~Copyable {
  /// A point in time, in ticks since whatever the caller counts from.
  public typealias Tick = UInt64

  /// Names one armed timer. A token outlives its timer harmlessly: it then names nothing.
  public struct Token: Hashable, Sendable {
    let index: UInt32
    let generation: UInt32
  }

  /// A timer whose deadline has come.
  public struct Expiration: Equatable, Sendable {
    /// The token it had; it no longer names a timer.
    public let token: Token
    /// The deadline it was armed for, in ticks.
    public let deadline: Tick
    /// What it was armed with.
    public let payload: UInt64
  }

  /// The time the wheel has been advanced to, in ticks. Never goes back.
  public private(set) var elapsed: Tick

  /// How many timers are armed.
  public private(set) var count = 0

  var records: RecordSlab
  var slots: SlotTable

  /// The slot above level 0 that is being cascaded, when a budget ran out in the middle of it.
  var cascading: Slot?

  /// The earliest deadline, where it is known without looking. Nil says "look", not "none".
  private var knownNext: Tick?

  /// An empty wheel whose time is `start`, in ticks.
  public init(startingAt start: Tick = 0) {
    elapsed = start
    records = RecordSlab()
    slots = SlotTable()
  }

  // MARK: Arming

  /// Arms a timer. O(1).
  ///
  /// - Parameters:
  ///   - deadline: when it is due, in ticks; the past counts as due now.
  ///   - payload: 64 bits of the caller's, handed back when it expires.
  public mutating func schedule(deadline: Tick, payload: UInt64) -> Token {
    let index = records.allocate(deadline: deadline, payload: payload)
    link(index)
    count += 1
    if let known = knownNext {
      if deadline < known { knownNext = deadline }
    } else if count == 1 {
      knownNext = deadline
    }
    return Token(index: index, generation: records[index].generation)
  }

  /// Disarms a timer at once. O(1).
  ///
  /// - Returns: false if the token names no armed timer: it has expired or was cancelled before.
  @discardableResult
  public mutating func cancel(_ token: Token) -> Bool {
    guard isArmed(token) else { return false }
    forgetNext(records[token.index].deadline)
    unlink(token.index)
    records.free(token.index)
    count -= 1
    return true
  }

  /// Moves a timer to another deadline; it keeps its token and payload and counts as armed anew.
  /// O(1).
  ///
  /// - Returns: false, and nothing changes, if the token names no armed timer.
  @discardableResult
  public mutating func reschedule(_ token: Token, deadline: Tick) -> Bool {
    guard isArmed(token) else { return false }
    forgetNext(records[token.index].deadline)
    unlink(token.index)
    records[token.index].deadline = deadline
    link(token.index)
    if count == 1 {
      knownNext = deadline
    } else if let known = knownNext, deadline < known {
      knownNext = deadline
    }
    return true
  }

  /// Whether the token names a timer that is still armed. O(1).
  public func isArmed(_ token: Token) -> Bool {
    records.holds(token.index, generation: token.generation)
  }

  /// The deadline of an armed timer, in ticks; nil if the token names none. O(1).
  public func deadline(of token: Token) -> Tick? {
    isArmed(token) ? records[token.index].deadline : nil
  }

  // MARK: Time

  /// The exact earliest deadline of all armed timers; nil when none is armed.
  ///
  /// O(1) when known from before, else O(timers in the first occupied slot).
  public var nextDeadline: Tick? {
    mutating get {
      if count == 0 { return nil }
      if let knownNext { return knownNext }
      knownNext = findNext()
      return knownNext
    }
  }

  /// Moves time towards `now` until a timer is due, and returns that timer, disarmed.
  ///
  /// Call it in a loop. Between two calls anything may be scheduled or cancelled. Nil means
  /// either that nothing more is due by `now` (some budget is left, and `elapsed` is `now`) or
  /// that the budget is used up (it is 0; call again, soon). O(1) and at most 11 cascades per timer
  /// over its whole life.
  ///
  /// - Parameters:
  ///   - now: the present, in ticks. A `now` before `elapsed` moves nothing.
  ///   - budget: how many timers may be touched. Each expiration and each step of a cascade
  ///     takes one, so that a slot holding a million timers cannot stall the caller.
  public mutating func advance(to now: Tick, budget: inout Int) -> Expiration? {
    while budget > 0 {
      if let slot = cascading {
        cascade(slot, budget: &budget)
        continue
      }
      if let index = slots.first(of: Slot(level: 0, containing: elapsed)) {
        budget -= 1
        return expire(index)
      }
      guard let next = slots.firstOccupied(after: elapsed), next.start(near: elapsed) <= now else {
        if now > elapsed { elapsed = now }
        return nil
      }
      elapsed = next.start(near: elapsed)
      if next.level > 0 { cascading = next }
    }
    return nil
  }

  private mutating func expire(_ index: UInt32) -> Expiration {
    let record = records[index]
    forgetNext(record.deadline)
    unlink(index)
    records.free(index)
    count -= 1
    return Expiration(
      token: Token(index: index, generation: record.generation),
      deadline: record.deadline, payload: record.payload)
  }

  /// Moves timers of `slot`, whose start is `elapsed`, to the levels below.
  private mutating func cascade(_ slot: Slot, budget: inout Int) {
    while budget > 0 {
      guard let index = slots.first(of: slot) else {
        cascading = nil
        return
      }
      budget -= 1
      unlink(index)
      link(index, to: Slot(for: max(records[index].deadline, elapsed), from: elapsed))
    }
    if slots.first(of: slot) == nil { cascading = nil }
  }

  // MARK: Slots

  /// Where a deadline belongs now. While a slot is being cascaded, newcomers for its range queue
  /// up behind those still waiting in it, or equal deadlines would expire out of order.
  func slot(for deadline: Tick) -> Slot {
    let effective = max(deadline, elapsed)
    if let cascading, cascading.covers(effective, near: elapsed) { return cascading }
    return Slot(for: effective, from: elapsed)
  }

  private mutating func link(_ index: UInt32) {
    link(index, to: slot(for: records[index].deadline))
  }

  private mutating func link(_ index: UInt32, to slot: Slot) {
    slots.append(index, to: slot, in: &records)
  }

  private mutating func unlink(_ index: UInt32) {
    slots.remove(index, in: &records)
  }

  private mutating func forgetNext(_ deadline: Tick) {
    if knownNext == deadline { knownNext = nil }
  }

  private func findNext() -> Tick? {
    var earliest: Tick?
    func look(_ slot: Slot) {
      slots.forEach(in: slot, records) { index in
        let deadline = records[index].deadline
        if earliest == nil || deadline < earliest! { earliest = deadline }
      }
    }
    look(Slot(level: 0, containing: elapsed))
    if let cascading { look(cascading) }
    if let slot = slots.firstOccupied(after: elapsed), earliest == nil || cascading != nil {
      look(slot)
    }
    return earliest
  }
}
