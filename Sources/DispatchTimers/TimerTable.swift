import TimerWheel

/// The action of a timer, called when it is due. Returns false if its target has been released;
/// then the timer does not repeat.
typealias TimerAction = @Sendable (Firing) -> Bool

/// All timers of a queue on one clock: the wheel has their deadlines, the table their actions.
///
/// The table has no clock, queue or lock. It neither calls nor releases actions, but returns them
/// to the caller: an action may hold the last reference to an object whose `deinit` calls the table
/// again, which must not happen under the caller's lock.
struct TimerTable: ~Copyable {
  /// Identifies one timer through all its repetitions, and none once the timer has ended.
  struct Key: Sendable {
    fileprivate let index: Int
    fileprivate let generation: UInt64
  }

  /// A due timer, removed from the wheel. If it repeats, `settle` must follow the call.
  struct Due: Sendable {
    let key: Key
    let action: TimerAction
    let firing: Firing
    let repeats: Bool
  }

  private struct Entry {
    /// A number that no other timer ever has; 0 while the entry is free.
    var generation: UInt64 = 0
    var phase = Phase(deadline: 0, interval: 0)
    /// Nil while the entry is free.
    var action: TimerAction?
    /// Nil while the entry is free, and while a repeating timer's action is being called.
    var token: TimerWheel.Token?
  }

  private var wheel: TimerWheel
  private var entries: [Entry] = []
  private var free: [Int] = []
  private var lastGeneration: UInt64 = 0
  /// The maximum `count` since memory was last released.
  private var peak = 0
  /// A peak up to this many timers takes too little memory to be worth releasing.
  private static let few = 1 << 16

  /// Creates an empty table whose time is `now`, in microseconds of its clock.
  init(startingAt now: UInt64) {
    wheel = TimerWheel(startingAt: now)
  }

  /// The number of timers, including a repeating one whose action is being called. O(1).
  var count: Int { entries.count - free.count }

  /// The exact earliest deadline in the wheel. O(1), or O(timers in the first occupied slot).
  var nextDeadline: UInt64? { mutating get { wheel.nextDeadline } }

  /// The table's time, in microseconds of its clock.
  var elapsed: UInt64 { wheel.elapsed }

  /// Follows a clock that was set back: deadlines between `now` and `elapsed` are in the future
  /// again. O(timers) if the clock was set back, else O(1).
  mutating func follow(_ now: UInt64) {
    guard now < wheel.elapsed else { return }
    // The time of a wheel never goes back, so a new wheel replaces it. The timers move in the order
    // of expiry, which keeps the order of equal deadlines.
    var rewound = TimerWheel(startingAt: now)
    var budget = Int.max
    while let timer = wheel.advance(to: .max, budget: &budget) {
      entries[Int(timer.payload)].token = rewound.schedule(
        deadline: timer.deadline, payload: timer.payload)
    }
    wheel = rewound
  }

  /// Adds a timer. O(1), amortized.
  mutating func add(_ phase: Phase, _ action: @escaping TimerAction) -> Key {
    let index: Int
    if let reused = free.popLast() {
      index = reused
    } else {
      index = entries.count
      entries.append(Entry())
    }
    lastGeneration += 1
    peak = max(peak, count)
    entries[index].generation = lastGeneration
    entries[index].phase = phase
    entries[index].action = action
    entries[index].token = wheel.schedule(deadline: phase.deadline, payload: UInt64(index))
    return Key(index: index, generation: entries[index].generation)
  }

  /// Returns whether the timer will still be called. O(1).
  func isPending(_ key: Key) -> Bool {
    key.index < entries.count && entries[key.index].generation == key.generation
  }

  /// Removes a timer, even a repeating one whose action is being called. O(1).
  ///
  /// - Returns: its action, to release outside the lock; nil if the timer has ended.
  mutating func remove(_ key: Key) -> TimerAction? {
    guard isPending(key) else { return nil }
    if let token = entries[key.index].token { wheel.cancel(token) }
    defer { releaseUnusedMemory() }
    return release(key.index)
  }

  /// Removes all timers. O(timers).
  ///
  /// - Returns: their actions, to release outside the lock.
  mutating func removeAll() -> [TimerAction] {
    var actions: [TimerAction] = []
    for index in entries.indices where entries[index].action != nil {
      if let token = entries[index].token { wheel.cancel(token) }
      if let action = release(index) { actions.append(action) }
    }
    return actions
  }

  /// Returns the next timer due by `now`, with the budget of `TimerWheel.advance(to:budget:)`.
  /// `now` may be earlier than the last time: see `follow`.
  mutating func popDue(by now: UInt64, budget: inout Int) -> Due? {
    follow(now)
    guard let expired = wheel.advance(to: now, budget: &budget) else { return nil }
    let index = Int(expired.payload)
    let key = Key(index: index, generation: entries[index].generation)
    let firing = entries[index].phase.fire(at: now)
    let repeats = entries[index].phase.interval > 0
    entries[index].token = nil
    defer { releaseUnusedMemory() }
    guard let action = repeats ? entries[index].action : release(index) else {
      preconditionFailure("a timer in the wheel has no action")
    }
    return Due(key: key, action: action, firing: firing, repeats: repeats)
  }

  /// Schedules a repeating timer again after the call of its action, or ends it.
  ///
  /// - Returns: the action, to release outside the lock, if the timer has ended here.
  mutating func settle(_ key: Key, goesOn: Bool) -> TimerAction? {
    // Cancelled by its own action, or meanwhile by another thread.
    guard isPending(key) else { return nil }
    guard goesOn else { return release(key.index) }
    entries[key.index].token = wheel.schedule(
      deadline: entries[key.index].phase.deadline, payload: UInt64(key.index))
    return nil
  }

  private mutating func release(_ index: Int) -> TimerAction? {
    let action = entries[index].action
    entries[index].action = nil
    entries[index].token = nil
    entries[index].generation = 0
    free.append(index)
    return action
  }

  /// Releases the wheel's memory of a peak once fewer than an eighth of the timers are left, and
  /// the table's own once none are left. Otherwise O(1).
  private mutating func releaseUnusedMemory() {
    if count == 0, entries.count > Self.few {
      entries = []
      free = []
    } else if count >= peak / 8 || peak <= Self.few {
      return
    }
    wheel.releaseUnusedMemory()
    peak = count
  }
}
