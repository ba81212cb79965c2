import DequeModule
import TimerWheel

/// All times at which a fleet has something to do by itself, on the boot clock.
struct FleetTimes: ~Copyable {
  enum Occasion {
    case heartbeat
    /// It has waited for long enough, or its client has.
    case operation(FleetOperation)
    case reading(EventReading)
    case chore(FleetChore)
  }

  private var wheel: TimerWheel
  /// What is armed, by the records of the wheel's timers.
  private var occasions: [Occasion?] = []
  private var chores: Deque<FleetChore> = []
  private var heartbeat: TimerWheel.Token?

  init(startingAt boot: Int64) { wheel = TimerWheel(startingAt: UInt64(clamping: boot)) }

  /// When something is due next; nil if nothing is armed. Chores may be due besides.
  var next: Int64? { mutating get { wheel.nextDeadline.map(Int64.init(clamping:)) } }
  var hasChores: Bool { !chores.isEmpty }

  // MARK: Arming

  @discardableResult
  mutating func add(_ occasion: Occasion, at boot: Int64) -> TimerWheel.Token {
    let timer = wheel.schedule(deadline: UInt64(clamping: boot), payload: 0)
    while occasions.count <= timer.record { occasions.append(nil) }
    occasions[Int(timer.record)] = occasion
    return timer
  }

  /// Arms a timer in place of another one.
  mutating func arm(_ timer: inout TimerWheel.Token?, _ occasion: Occasion, at boot: Int64) {
    cancel(&timer)
    timer = add(occasion, at: boot)
  }

  mutating func cancel(_ timer: inout TimerWheel.Token?) {
    if let old = timer.take(), wheel.cancel(old) { occasions[Int(old.record)] = nil }
  }

  mutating func beat(at boot: Int64) {
    var timer = heartbeat
    arm(&timer, .heartbeat, at: boot)
    heartbeat = timer
  }

  /// Lets the next heartbeat come at a time, unless it comes earlier.
  mutating func beat(noLaterThan boot: Int64) {
    guard let heartbeat, let due = wheel.deadline(of: heartbeat), due > UInt64(clamping: boot)
    else { return }
    beat(at: boot)
  }

  mutating func add(_ chore: FleetChore) { chores.append(chore) }

  // MARK: What is due

  /// Removes what is due. Returns nil if nothing is, or the budget ran out.
  mutating func removeNext(until boot: Int64, budget: inout Int) -> Occasion? {
    guard let due = wheel.advance(to: UInt64(clamping: boot), budget: &budget) else { return nil }
    return occasions[Int(due.token.record)].take()
  }

  mutating func removeChore() -> FleetChore? { chores.popFirst() }
}

/// Work of which very much may be due at once, so budgets bound it. Nothing else waits for it.
enum FleetChore {
  /// To look at a due entity: another daemon has written its record and comes first, or an attempt
  /// failed.
  case look(FleetKey)
  /// To let go of a copy that nobody has used for a while.
  case letGo(FleetKey)
  /// To let go of a copy of a partition that this host has kept, and of the memory of all of them.
  case release(FleetKey)
  case returnMemory(of: FleetPartition)
  /// To remove a copy that a loading has not found, and to end that loading.
  case removeStale(FleetKey, partition: Int, loading: Int)
  case endLoading(partition: Int, loading: Int)
}
