import TimerWheel

/// What a timer does when it is due.
///
/// Returns false if there is nobody left to do it for; then it does not repeat.
typealias TimerAction = @Sendable (Firing) -> Bool

/// All timers of a queue on one clock: the wheel knows when, the table knows what.
///
/// It knows no clock, no queue and no lock, and it calls no action: it hands actions out, those to
/// be called and those to be let go. For an action may hold the last reference to something whose
/// deinit comes back to the table, and that must not find the lock taken.
struct TimerTable: ~Copyable {
  /// Names one timer for as long as it lives, through all its repetitions; afterwards, nothing.
  struct Key: Sendable {
    fileprivate let index: Int
    fileprivate let generation: UInt64
  }

  /// A timer whose moment has come, out of the wheel. One that repeats must be settled.
  struct Due: Sendable {
    let key: Key
    let action: TimerAction
    let firing: Firing
    let repeats: Bool
  }

  private struct Entry {
    /// Which timer this is; none other ever has the same number.
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
  /// The most there were since memory was given back last.
  private var peak = 0
  /// As few do not take enough memory to be worth it.
  private static let few = 1 << 16

  /// An empty table whose time is `now`, in microseconds of its clock.
  init(startingAt now: UInt64) {
    wheel = TimerWheel(startingAt: now)
  }

  /// How many timers there are, one that is being called and will repeat included. O(1).
  var count: Int { entries.count - free.count }

  /// The exact earliest deadline in the wheel. O(1), or O(timers in the first occupied slot).
  var nextDeadline: UInt64? { mutating get { wheel.nextDeadline } }

  /// How far time has come, as far as the table knows.
  var elapsed: UInt64 { wheel.elapsed }

  /// Goes back with a clock that was set back: no deadline changes, but those between `now` and
  /// `elapsed` are not past any more. O(timers) then, otherwise nothing.
  mutating func follow(_ now: UInt64) {
    guard now < wheel.elapsed else { return }
    // The time of a wheel never goes back, so it has to be another. The timers are taken out as
    // they would expire, which keeps equal deadlines in the order they were added in.
    var rewound = TimerWheel(startingAt: now)
    var budget = Int.max
    while let timer = wheel.advance(to: .max, budget: &budget) {
      entries[Int(timer.payload)].token = rewound.schedule(
        deadline: timer.deadline, payload: timer.payload)
    }
    wheel = rewound
  }

  /// O(1), amortized.
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

  /// Whether the timer is still to be called. O(1).
  func isPending(_ key: Key) -> Bool {
    key.index < entries.count && entries[key.index].generation == key.generation
  }

  /// Takes a timer out, wherever it is. O(1).
  ///
  /// - Returns: its action, to be let go; nil if the key names no timer any more.
  mutating func remove(_ key: Key) -> TimerAction? {
    guard isPending(key) else { return nil }
    if let token = entries[key.index].token { wheel.cancel(token) }
    defer { releaseUnusedMemory() }
    return release(key.index)
  }

  /// Takes all timers out. O(timers).
  ///
  /// - Returns: their actions, to be let go.
  mutating func removeAll() -> [TimerAction] {
    var actions: [TimerAction] = []
    for index in entries.indices where entries[index].action != nil {
      if let token = entries[index].token { wheel.cancel(token) }
      if let action = release(index) { actions.append(action) }
    }
    return actions
  }

  /// The next timer due by `now`, with the budget as in `TimerWheel.advance(to:budget:)`. `now` may
  /// be earlier than the last time: see `follow`.
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

  /// Puts a repeating timer back after its action was called, or ends it.
  ///
  /// - Returns: the action to be let go, if the timer has ended here.
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

  /// Gives back what a peak took, once there are an eighth of the timers left; and the table's own
  /// when there are none. O(1), but for then.
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
