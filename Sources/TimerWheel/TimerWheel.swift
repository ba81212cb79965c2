import Memory

/// A hierarchical timing wheel: very many pending timers with exact deadlines.
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
/// Eleven levels of 64 slots cover all 64 bits of a tick, so no deadline is too far ahead and none
/// is rounded. A timer is on the level of the highest six-bit digit in which its deadline differs
/// from `elapsed`. When time enters a slot above level 0, the slot is opened: up to 64 timers are
/// sorted into a *run*, from which they expire in order; a fuller slot *cascades*: its timers move
/// to lower levels. Cancelling removes a timer at once, not when its slot is opened.
///
/// Guarantees:
/// - A timer never expires before `advance(to:)` reaches its deadline.
/// - Timers expire in the order of their deadlines, equal deadlines in the order of arming.
///   A deadline that is already past when armed counts as due now.
/// - A token names one timer only, even after its record has been reused.
///
/// Not thread-safe: confine it to one queue, thread or event loop.
///
/// Sources: G. Varghese, T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 7;
/// W. T. Tang, R. S. M. Goh, I. L. Thng, "Ladder queue" (ACM TOMACS 2005), for sorting timers only
/// when they are near. Design history: docs/dev/timer-wheel.md.
public struct TimerWheel: ~Copyable {
  /// A point in time, in ticks since whatever the caller counts from.
  public typealias Tick = UInt64

  /// Names one armed timer. A token may outlive its timer: it then names nothing.
  public struct Token: Hashable, Sendable {
    let index: UInt32
    let generation: UInt32

    init(index: UInt32, generation: UInt32) {
      self.index = index
      self.generation = generation
    }

    /// The index of the armed timer's record: half the size of a token, where every byte counts.
    /// See `token(ofRecord:)`.
    package var record: UInt32 { index }
  }

  /// A timer whose deadline has come.
  public struct Expiration: Equatable, Sendable {
    /// The timer's token, which no longer names a timer.
    public let token: Token
    /// The deadline it was armed for, in ticks.
    public let deadline: Tick
    /// The payload it was armed with.
    public let payload: UInt64
  }

  /// The time the wheel has been advanced to, in ticks. Never goes back.
  public private(set) var elapsed: Tick

  /// The number of armed timers.
  public private(set) var count = 0

  var records = Records()
  /// The lists of all slots, followed by a list for the run of each level.
  var chunks = Chunks(lists: Slot.count + Slot.levels)
  /// One word per level, with a bit for each slot that has a timer.
  let occupancy: Cells<UInt64>
  /// A bit for each level that has a run.
  private(set) var runs: UInt32 = 0

  /// The slot being cascaded; once the budget runs out, the next `advance` continues with it.
  private(set) var cascading: Slot?

  /// A lower bound of the starts of all occupied slots that are not open yet.
  private var horizon: Tick = .max
  /// A lower bound of all deadlines.
  private var nextBound: Tick = .max
  /// The position of a timer whose deadline is `nextBound`; `none` if unknown.
  private var nextPosition = Chunks.none
  /// Arming a deadline after this only adds an entry: the deadline is in the future, outside the
  /// slot being cascaded, and changes neither `horizon` nor `nextBound`. A value later than
  /// necessary only costs time.
  private var near: Tick = .max

  /// Creates an empty wheel whose time is `start`, in ticks.
  public init(startingAt start: Tick = 0) {
    elapsed = start
    occupancy = .allocate(Slot.levels)
  }

  deinit { occupancy.deallocate() }

  /// The memory that the wheel has allocated, in use or not, in bytes.
  public var allocatedBytes: Int {
    records.allocatedBytes + chunks.allocatedBytes + Slot.levels * MemoryLayout<UInt64>.stride
  }

  /// Releases unused memory to the system. Without this call the wheel keeps the memory of a peak,
  /// so that the next peak does not wait for it.
  ///
  /// Releases all of it when no timer is armed, otherwise the regions of two megabytes that hold no
  /// timer. O(peak / 64), and some microseconds for each region: call it when far fewer timers are
  /// left than there were.
  public mutating func releaseUnusedMemory() {
    if count == 0 {
      records.startOver()
      chunks.startOver()
    } else {
      records.releaseUnusedMemory()
      chunks.releaseUnusedMemory()
    }
  }

  // MARK: Arming

  /// Arms a timer. O(1).
  ///
  /// - Parameters:
  ///   - deadline: when it is due, in ticks; the past counts as due now.
  ///   - payload: 64 bits for the caller's use, returned when the timer expires.
  public mutating func schedule(deadline: Tick, payload: UInt64) -> Token {
    let slot = Slot(for: deadline, from: elapsed).id
    guard deadline > near, records.hasFree, chunks.lists[slot].hasRoom else {
      return scheduleInNewPlace(deadline, payload)
    }
    return add(deadline, payload, to: slot)
  }

  /// A separate function, so that the common path saves no registers for the rare one.
  @inline(never)
  private mutating func scheduleInNewPlace(_ deadline: Tick, _ payload: UInt64) -> Token {
    if !records.hasFree { records.findFree() }
    return add(deadline, payload, to: prepare(for: deadline))
  }

  @inline(__always)
  private mutating func add(_ deadline: Tick, _ payload: UInt64, to slot: Int) -> Token {
    count &+= 1
    let token = records.add(payload, at: chunks.lists[slot].end)
    _ = chunks.append(deadline, token.index, to: slot)
    return token
  }

  /// Disarms a timer at once. O(1).
  ///
  /// - Returns: false if the token names no armed timer: it has expired or was already cancelled.
  @discardableResult
  public mutating func cancel(_ token: Token) -> Bool {
    guard records.holds(token.index, token.generation) else { return false }
    remove(records.all[Int(token.index)].position)
    records.release(token.index)
    count &-= 1
    if count == 0 { becomeEmpty() }
    return true
  }

  /// Moves a timer to another deadline. It keeps its token and payload, and counts as armed now.
  /// O(1).
  ///
  /// - Returns: false, and nothing changes, if the token names no armed timer.
  @discardableResult
  public mutating func reschedule(_ token: Token, deadline: Tick) -> Bool {
    guard records.holds(token.index, token.generation) else { return false }
    let old = records.all[Int(token.index)].position
    let slot = Slot(for: deadline, from: elapsed).id
    guard deadline > near, old != nextPosition, !chunks.isAlone(old), chunks.lists[slot].hasRoom
    else {
      rescheduleInNewPlace(token.index, deadline)
      return true
    }
    _ = chunks.remove(old)
    records.all[Int(token.index)].position = chunks.append(deadline, token.index, to: slot)
    return true
  }

  @inline(never)
  private mutating func rescheduleInNewPlace(_ index: UInt32, _ deadline: Tick) {
    remove(records.all[Int(index)].position)
    let slot = prepare(for: deadline)
    records.all[Int(index)].position = chunks.append(deadline, index, to: slot)
  }

  /// Returns whether the token names an armed timer. O(1).
  public func isArmed(_ token: Token) -> Bool {
    records.holds(token.index, token.generation)
  }

  /// Returns the token of an armed timer. O(1).
  package func token(ofRecord index: UInt32) -> Token {
    Token(index: index, generation: records.all[Int(index)].generation)
  }

  /// Returns the deadline of an armed timer, in ticks; nil if the token names none. O(1).
  public func deadline(of token: Token) -> Tick? {
    guard isArmed(token) else { return nil }
    return chunks.deadlines[Int(records.all[Int(token.index)].position)]
  }

  /// Returns the payload of an armed timer; nil if the token names none. O(1).
  package func payload(of token: Token) -> UInt64? {
    isArmed(token) ? records.payloads[Int(token.index)] : nil
  }

  // MARK: Time

  /// The exact earliest deadline of all armed timers, in ticks; nil when none is armed.
  ///
  /// O(1) while it is known, and if the timers of the first slot were armed in the order of their
  /// deadlines. Otherwise, after the earliest timer was removed, O(n / 64) for n timers in that
  /// slot.
  public var nextDeadline: Tick? {
    mutating get {
      if count == 0 { return nil }
      if nextPosition == Chunks.none {
        (nextBound, nextPosition) = findNext()
        near = max(near, nextBound)
      }
      return nextBound
    }
  }

  /// Moves time towards `now` until a timer is due, and returns that timer, disarmed.
  ///
  /// Call it in a loop. Between two calls anything may be scheduled or cancelled. Nil means
  /// either that nothing more is due by `now` (some budget is left, and `elapsed` is `now`) or
  /// that the budget is used up (it is 0; call again, soon). Over its whole life a timer costs at
  /// most one expiration, one place in a sorted run and ten moves down.
  ///
  /// - Parameters:
  ///   - now: the present, in ticks. A `now` before `elapsed` moves nothing.
  ///   - budget: how many timers may be touched. Expirations, places in runs and moves down
  ///     count, so that a slot holding a million timers cannot stall the caller. Timers are sorted
  ///     and moved in chunks, so up to 63 more than allowed may be touched.
  public mutating func advance(to now: Tick, budget: inout Int) -> Expiration? {
    while budget > 0 {
      if let slot = cascading {
        cascade(slot, budget: &budget)
        continue
      }
      let run = firstRun()
      if run.deadline < horizon {
        guard run.deadline <= now else { break }
        budget &-= 1
        return expire(run.position)
      }

      let current = Slot(level: 0, containing: elapsed).id
      if !chunks.lists[current].isEmpty {
        budget &-= 1
        // Timers in a run were armed before those that this tick has received since.
        if runs != 0, run.deadline <= elapsed { return expire(run.position) }
        return expire(chunks.firstPosition(in: chunks.lists[current].head))
      }

      guard let next = firstOccupied() else {
        horizon = .max
        near = .max
        guard runs != 0, run.deadline <= now else { break }
        budget &-= 1
        return expire(run.position)
      }
      near = .max
      horizon = next.start(near: elapsed)
      if run.deadline < horizon { continue }
      guard horizon <= now else { break }
      elapsed = horizon
      horizon = elapsed
      open(next, budget: &budget)
    }
    if budget > 0 {
      if now > elapsed { elapsed = now }
    } else {
      budget = 0
    }
    updateNear()
    return nil
  }

  private mutating func expire(_ position: UInt32) -> Expiration {
    let deadline = chunks.deadlines[Int(position)]
    let index = chunks.records[Int(position)]
    let generation = records.all[Int(index)].generation
    if deadline > elapsed {
      elapsed = deadline
      near = max(near, deadline)
    }
    remove(position)
    records.release(index)
    count &-= 1
    if count == 0 { becomeEmpty() }
    return Expiration(
      token: Token(index: index, generation: generation), deadline: deadline,
      payload: records.payloads[Int(index)])
  }

  // MARK: Opening slots

  /// Opens a slot that time has entered: sorts its timers into a run or starts a cascade.
  private mutating func open(_ slot: Slot, budget: inout Int) {
    if slot.level == 0 { return }
    // A sort key has 64 bits: the time within the slot, and a place in the chunk.
    if slot.shift <= 58, let count = chunks.countIfOneChunk(slot.id) {
      budget &-= count
      nextPosition = Chunks.none  // entries move
      let run = Slot.count + slot.level
      chunks.sort(slot.id, into: run, from: elapsed, bits: slot.shift, &records)
      setOccupied(slot.id, false)
      runs |= 1 &<< UInt32(slot.level)
      return
    }
    cascading = slot
  }

  /// Moves the timers of `slot`, which starts at `elapsed`, to lower levels, chunk by chunk.
  private mutating func cascade(_ slot: Slot, budget: inout Int) {
    nextPosition = Chunks.none  // entries move
    while budget > 0 {
      let chunk = chunks.lists[slot.id].head
      guard chunk != Chunks.none else {
        cascading = nil
        setOccupied(slot.id, false)
        horizon = elapsed
        return
      }
      let live = chunks.live[Int(chunk)]
      let now = elapsed
      if live.nonzeroBitCount > Chunks.size / 2,
        let target = chunks.common(
          { Slot(for: max($0, now), from: now).id }, ofHead: slot.id)
      {
        // All its timers belong to one slot of a lower level: the chunk moves as a whole.
        chunks.moveHead(of: slot.id, to: target)
        setOccupied(target, true)
        budget &-= 1
      } else {
        budget &-= live.nonzeroBitCount
        moveEntries(of: chunk, live)
      }
    }
  }

  private mutating func moveEntries(of chunk: UInt32, _ live: UInt64) {
    var left = live
    while left != 0 {
      let position = Int(chunk &<< 6) | left.trailingZeroBitCount
      left &= left &- 1
      let deadline = chunks.deadlines[position]
      let index = chunks.records[position]
      let target = Slot(for: max(deadline, elapsed), from: elapsed).id
      records.all[Int(index)].position = append(deadline, index, to: target)
    }
    _ = chunks.dropChunk(chunk)
  }

  // MARK: Placing

  /// Returns the slot of a deadline. While a slot is being cascaded, new timers in its range join
  /// the end of its list; otherwise equal deadlines would expire out of order.
  @inline(__always)
  func slot(for deadline: Tick) -> Slot {
    let effective = max(deadline, elapsed)
    if let cascading, cascading.covers(effective, near: elapsed) { return cascading }
    return Slot(for: effective, from: elapsed)
  }

  /// Prepares to add a deadline. Returns the id of its slot, whose list then has room.
  private mutating func prepare(for deadline: Tick) -> Int {
    let slot = slot(for: deadline)
    if !chunks.lists[slot.id].hasRoom { appendChunk(to: slot.id) }
    if deadline <= nextBound {
      nextBound = deadline
      nextPosition = chunks.lists[slot.id].end
    }
    // A slot that starts before the horizon also ends before it: a wider one would be open already.
    if deadline < horizon { horizon = (deadline &>> slot.shift) &<< slot.shift }
    updateNear()
    return slot.id
  }

  /// Whether `near` is late enough, for `checkInvariants`.
  var isNearLateEnough: Bool {
    near >= max(elapsed, nextBound, horizon) && near >= cascading?.lastTick(near: elapsed) ?? 0
  }

  private mutating func updateNear() {
    near = max(elapsed, nextBound, horizon)
    if let cascading { near = max(near, cascading.lastTick(near: elapsed)) }
  }

  @inline(__always)
  private mutating func append(_ deadline: Tick, _ index: UInt32, to slot: Int) -> UInt32 {
    if !chunks.lists[slot].hasRoom { appendChunk(to: slot) }
    return chunks.append(deadline, index, to: slot)
  }

  @inline(never)
  private mutating func appendChunk(to slot: Int) {
    chunks.appendChunk(to: slot)
    setOccupied(slot, true)
  }

  @inline(__always)
  private mutating func remove(_ position: UInt32) {
    if position == nextPosition { nextPosition = Chunks.none }
    if chunks.remove(position) { dropChunk(of: position) }
  }

  /// Drops the chunk of `position`, which has no live entries left.
  @inline(never)
  private mutating func dropChunk(of position: UInt32) {
    guard let list = chunks.dropChunk(position &>> 6) else { return }
    if list >= Slot.count {
      runs &= ~(1 &<< UInt32(list &- Slot.count))
    } else if list != cascading?.id {
      setOccupied(list, false)
    }
  }

  @inline(__always)
  private func setOccupied(_ slot: Int, _ isOccupied: Bool) {
    let bit: UInt64 = 1 &<< UInt64(truncatingIfNeeded: slot & 63)
    if isOccupied {
      occupancy[slot &>> 6] |= bit
    } else {
      occupancy[slot &>> 6] &= ~bit
    }
  }

  /// Resets the bounds and ends a cascade after the last timer was removed.
  @inline(never)
  private mutating func becomeEmpty() {
    nextPosition = Chunks.none
    nextBound = .max
    near = .max
    if let cascading { setOccupied(cascading.id, false) }
    cascading = nil
    horizon = .max
  }

  // MARK: Looking ahead

  /// Returns the occupied slot that time enters next. Ignores the slots that contain `elapsed`:
  /// above level 0 they are already open.
  private func firstOccupied() -> Slot? {
    for level in 0..<Slot.levels {
      let position = Slot(level: level, containing: elapsed).position
      // Two shifts, because a masking shift by 64 is a shift by 0.
      let ahead = occupancy[level] & ((~0 &<< position) &<< 1)
      if ahead != 0 {
        return Slot(id: level &* Slot.perLevel &+ ahead.trailingZeroBitCount)
      }
    }
    return nil
  }

  /// Returns the first entry of the run with the earliest deadline. On a tie the highest level
  /// wins: a run's timers were armed before time entered its slot, those of lower levels after.
  @inline(__always)
  private func firstRun() -> (deadline: Tick, position: UInt32) {
    var deadline = Tick.max
    var position = Chunks.none
    var left = runs
    while left != 0 {
      let level = left.trailingZeroBitCount
      left &= left &- 1
      let head = chunks.firstPosition(in: chunks.lists[Slot.count &+ level].head)
      if chunks.deadlines[Int(head)] <= deadline {
        deadline = chunks.deadlines[Int(head)]
        position = head
      }
    }
    return (deadline, position)
  }

  private func findNext() -> (Tick, UInt32) {
    let run = firstRun()
    var next = (run.deadline, run.position)
    func look(_ slot: Slot) {
      guard !chunks.lists[slot.id].isEmpty else { return }
      let earliest = chunks.earliest(in: slot.id)
      if earliest.deadline < next.0 || next.1 == Chunks.none { next = earliest }
    }
    look(Slot(level: 0, containing: elapsed))
    if let cascading { look(cascading) }
    if let slot = firstOccupied() { look(slot) }
    return next
  }
}
