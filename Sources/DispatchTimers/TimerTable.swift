import TimerWheel

/// All timers of a queue on one clock: the wheel has their deadlines, the table their actions.
///
/// The table has no clock, queue or lock. It neither calls nor releases actions, but returns them
/// to the caller: an action may hold the last reference to an object whose `deinit` calls the table
/// again, which must not happen under the caller's lock.
struct TimerTable: ~Copyable {
  /// The place of a timer in the table. It belongs to the timer's handle until `release`.
  typealias Index = UInt32

  /// A due timer, removed from the wheel.
  struct Due: Sendable {
    let index: Index
    let action: TimerAction
    let deadline: UInt64
    /// Whether `settle` must follow the call.
    let repeats: Bool
  }

  private enum Status: UInt8 {
    case free, armed
    /// A call on an actor was requested and has not begun. `record` is unused.
    case queued
    /// A repeating timer is being called. `record` is unused.
    case running
    /// The timer has ended, and its handle still exists.
    case ended
  }

  /// The order of the fields makes it 32 bytes.
  private struct Entry {
    /// Nil for a timer that fires once and has no tolerance: the wheel knows its deadline.
    var course: Course?
    /// Nil once the timer has ended.
    var action: TimerAction?
    var status = Status.free
    var isDetached = false
    var hasHandle = true
    /// The wheel's record of an armed timer; the next free entry of a free one.
    var record: UInt32 = 0
  }

  /// The deadlines of a timer that repeats or has a tolerance.
  private final class Course {
    var phase: Phase
    /// A power of two: the timer is armed for a multiple of it, so that timers fire together.
    let grain: UInt64

    init(_ phase: Phase, tolerance: UInt64) {
      self.phase = phase
      grain = 1 << UInt64(63 - max(tolerance, 1).leadingZeroBitCount)
    }

    /// The first multiple of `grain` at or after the deadline.
    var armed: UInt64 {
      let (sum, overflow) = phase.deadline.addingReportingOverflow(grain - 1)
      return overflow ? phase.deadline : sum & ~(grain - 1)
    }
  }

  private static let none = UInt32.max

  private var wheel: TimerWheel
  private var entries: [Entry] = []
  private var firstFree = none
  private var freeCount = 0
  /// The timers that are queued or running.
  private(set) var callCount = 0
  /// The repeating timer whose action the queue is calling; none once it has been cancelled.
  private var running = none
  /// The maximum `count` since memory was last released.
  private var peak = 0
  /// A peak up to this many timers takes too little memory to be worth releasing.
  private static let shrinkThreshold = 1 << 16

  /// Creates an empty table whose time is `now`, in microseconds of its clock.
  init(startingAt now: UInt64) {
    wheel = TimerWheel(startingAt: now)
  }

  /// The number of timers, including one whose action is being called, unless it was the last
  /// call. O(1).
  var count: Int { wheel.count + callCount }

  /// The number of entries, in use or not.
  var slots: Int { entries.count }

  /// The exact earliest deadline in the wheel. O(1), or O(timers in the first occupied slot).
  var nextDeadline: UInt64? { mutating get { wheel.nextDeadline } }

  /// The table's time, in microseconds of its clock.
  var elapsed: UInt64 { wheel.elapsed }

  /// Follows a clock that was set back: deadlines between `now` and `elapsed` are in the future
  /// again. O(timers) if the clock was set back, else O(1).
  mutating func follow(_ now: UInt64) {
    if now < wheel.elapsed { _ = rebuild(startingAt: now) }
  }

  /// All deadlines in the wheel, sorted. O(timers).
  mutating func allDeadlines() -> [UInt64] { rebuild(startingAt: wheel.elapsed) }

  /// Replaces the wheel: the time of a wheel never goes back. The timers move in the order of
  /// expiry, which keeps the order of equal deadlines.
  private mutating func rebuild(startingAt now: UInt64) -> [UInt64] {
    var deadlines: [UInt64] = []
    var rebuilt = TimerWheel(startingAt: now)
    var budget = Int.max
    while let timer = wheel.advance(to: .max, budget: &budget) {
      deadlines.append(timer.deadline)
      entries[Int(timer.payload)].record =
        rebuilt.schedule(deadline: timer.deadline, payload: timer.payload).record
    }
    wheel = rebuilt
    return deadlines
  }

  /// Adds a timer. O(1), amortized.
  ///
  /// - Returns: its place, and the deadline that it is armed for.
  mutating func add(
    _ phase: Phase, tolerance: UInt64, _ action: consuming TimerAction
  ) -> (index: Index, armed: UInt64) {
    let course =
      phase.interval == 0 && tolerance == 0 ? nil : Course(phase, tolerance: tolerance)
    let armed = course?.armed ?? phase.deadline
    var index = firstFree
    if index == Self.none {
      index = UInt32(entries.count)
      entries.append(Entry())
    } else {
      firstFree = entries[Int(index)].record
      freeCount -= 1
    }
    let record = wheel.schedule(deadline: armed, payload: UInt64(index)).record
    entries[Int(index)] = Entry(
      course: course, action: action, status: .armed, record: record)
    peak = max(peak, count)
    return (index, armed)
  }

  /// Returns the action of a timer that will still be called; nil once it has ended. O(1).
  func action(_ index: Index) -> TimerAction? { entries[Int(index)].action }

  /// Moves a timer to a new deadline; a repeating one continues from there. O(1).
  ///
  /// - Returns: the deadline that it is armed for, or will be after the call that is running; nil
  ///   if it has ended.
  mutating func reschedule(_ index: Index, to deadline: UInt64) -> UInt64? {
    let status = entries[Int(index)].status
    guard entries[Int(index)].action != nil else { return nil }
    let course = entries[Int(index)].course
    course?.phase.move(to: deadline)
    let armed = course?.armed ?? deadline
    switch status {
    case .armed:
      let token = wheel.token(ofRecord: entries[Int(index)].record)
      wheel.reschedule(token, deadline: armed)
    case .queued: arm(index, for: armed)
    case .running, .free, .ended: break
    }
    return armed
  }

  /// Ends a timer, even a repeating one whose action is being called. O(1).
  ///
  /// - Returns: its action, to release outside the lock; nil if the timer has ended.
  mutating func cancel(_ index: Index) -> TimerAction? {
    guard entries[Int(index)].action != nil else { return nil }
    if entries[Int(index)].status == .armed {
      wheel.cancel(wheel.token(ofRecord: entries[Int(index)].record))
    }
    defer { releaseUnusedMemory() }
    return end(index)
  }

  /// Makes the timer independent of its handle.
  mutating func detach(_ index: Index) { entries[Int(index)].isDetached = true }

  /// Ends a timer whose handle has been released, unless it is detached. The place is free again
  /// once the timer has ended.
  ///
  /// - Returns: its action, to release outside the lock; nil if there is none to release.
  mutating func release(_ index: Index) -> TimerAction? {
    entries[Int(index)].hasHandle = false
    if entries[Int(index)].status == .ended {
      free(index)
      releaseUnusedMemory()
      return nil
    }
    return entries[Int(index)].isDetached ? nil : cancel(index)
  }

  /// Ends all timers. O(timers).
  ///
  /// - Returns: their actions, to release outside the lock.
  mutating func removeAll() -> [TimerAction] {
    var actions: [TimerAction] = []
    for index in entries.indices {
      if let action = cancel(UInt32(index)) { actions.append(action) }
      if entries.isEmpty { break }
    }
    return actions
  }

  // MARK: Calls

  /// Returns the next timer due by `now`, with the budget of `TimerWheel.advance(to:budget:)`.
  /// `now` may be earlier than the last time: see `follow`.
  mutating func popDue(by now: UInt64, budget: inout Int) -> Due? {
    follow(now)
    guard let expired = wheel.advance(to: now, budget: &budget) else { return nil }
    let index = UInt32(truncatingIfNeeded: expired.payload)
    let course = entries[Int(index)].course
    let deadline = course?.phase.deadline ?? expired.deadline
    guard let action = entries[Int(index)].action else {
      preconditionFailure("a timer in the wheel has no action")
    }
    if case .actor = action {
      entries[Int(index)].status = .queued
      entries[Int(index)].record = Self.none
      callCount += 1
      return Due(index: index, action: action, deadline: deadline, repeats: false)
    }
    if let course, course.phase.interval > 0 {
      entries[Int(index)].status = .running
      running = index
      callCount += 1
      return Due(index: index, action: action, deadline: deadline, repeats: true)
    }
    defer { releaseUnusedMemory() }
    _ = end(index)
    return Due(index: index, action: action, deadline: deadline, repeats: false)
  }

  /// Returns the firing of a repeating timer, and moves it to its next deadline; nil if it has been
  /// cancelled or moved since it was popped. Then the call was due before, and happens once.
  mutating func fire(_ index: Index, at now: UInt64) -> Firing? {
    // After a cancellation the place may belong to another timer.
    guard running == index, let course = entries[Int(index)].course, course.phase.deadline <= now
    else { return nil }
    return course.phase.fire(at: now)
  }

  /// Schedules a repeating timer again after the call of its action, or ends it.
  ///
  /// - Returns: the action, to release outside the lock, if the timer has ended here.
  mutating func settle(_ index: Index, isAlive: Bool) -> TimerAction? {
    // Cancelled by its own action, or meanwhile by another thread.
    guard running == index else { return nil }
    running = Self.none
    return settle(index, isAlive)
  }

  /// Begins a call on an actor, unless the timer has been cancelled or moved meanwhile.
  ///
  /// - Returns: the firing.
  mutating func beginCall(_ index: Index, _ call: ActorCall, deadline: UInt64, at now: UInt64)
    -> Firing?
  {
    guard isCall(call, at: index, .queued) else { return nil }
    guard let course = entries[Int(index)].course, course.phase.interval > 0 else {
      // Released by the caller, who has the call.
      _ = end(index)
      releaseUnusedMemory()
      return Phase.once(deadline, at: max(now, deadline))
    }
    entries[Int(index)].status = .running
    return course.phase.fire(at: max(now, course.phase.deadline))
  }

  /// Schedules a repeating timer again after its call on an actor, or ends it; the caller has the
  /// action.
  mutating func endCall(_ index: Index, _ call: ActorCall, isAlive: Bool) {
    if isCall(call, at: index, isAlive ? .running : .queued) { _ = settle(index, isAlive) }
  }

  private func isCall(_ call: ActorCall, at index: Index, _ status: Status) -> Bool {
    guard Int(index) < entries.count, entries[Int(index)].status == status,
      case .actor(let current) = entries[Int(index)].action
    else { return false }
    return current === call
  }

  private mutating func settle(_ index: Index, _ isAlive: Bool) -> TimerAction? {
    guard isAlive, let course = entries[Int(index)].course else { return end(index) }
    arm(index, for: course.armed)
    return nil
  }

  private mutating func arm(_ index: Index, for deadline: UInt64) {
    callCount -= 1
    entries[Int(index)].status = .armed
    entries[Int(index)].record =
      wheel.schedule(deadline: deadline, payload: UInt64(index)).record
  }

  private mutating func end(_ index: Index) -> TimerAction? {
    switch entries[Int(index)].status {
    case .queued, .running: callCount -= 1
    case .armed, .ended, .free: break
    }
    if running == index { running = Self.none }
    let action = entries[Int(index)].action
    entries[Int(index)].action = nil
    entries[Int(index)].course = nil
    entries[Int(index)].status = .ended
    if !entries[Int(index)].hasHandle { free(index) }
    return action
  }

  private mutating func free(_ index: Index) {
    entries[Int(index)].status = .free
    entries[Int(index)].record = firstFree
    firstFree = index
    freeCount += 1
  }

  /// Releases the wheel's memory of a peak once fewer than an eighth of the timers are left, and
  /// the table's own once no timer and no handle is left. Otherwise O(1).
  private mutating func releaseUnusedMemory() {
    if freeCount == entries.count, freeCount > Self.shrinkThreshold {
      entries = []
      firstFree = Self.none
      freeCount = 0
    } else if count >= peak / 8 || peak <= Self.shrinkThreshold {
      return
    }
    wheel.releaseUnusedMemory()
    peak = count
  }
}
