extension TimerEntity: EntityState {
  package static func blank(_ key: Span<UInt8>) -> TimerEntity {
    TimerEntity(
      key: Array(key), machine: PlainTimer(after: .zero, every: nil, late: .fire, at: .zero)!,
      generation: Generation(0), owner: .none, uid: 0, clock: .boot)
  }

  package var format: UInt8 {
    machine.soonest == nil ? EntityRecord.plain : EntityRecord.repeatsOnWall
  }

  package mutating func state<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.generation(&generation)
    visitor.field("uid", &uid)
    visitor.owner(&owner)
    visitor.code("clock", &clock, of: [.boot, .wall])
    machine.fields(&visitor, on: clock)
    visitor.field("payload", &payload)
  }
}

extension PlainTimer {
  /// The range of the stored numbers of fired and missed periods.
  private static let counts: ClosedRange<Int64> = 0...1 << 53

  fileprivate mutating func fields<Visitor: StateVisitor>(
    _ visitor: inout Visitor, on clock: TimerClock
  ) {
    var (isPaused, until, left): (Bool, Instant, Interval) =
      switch phase {
      case .running(let until): (false, until, .zero)
      case .paused(let left): (true, .zero, left)
      }
    var (every, late, fired, missed, soonest) = (every, late, fired, missed, soonest)
    visitor.field("paused", &isPaused)
    if isPaused {
      visitor.interval("left", &left)
    } else {
      visitor.instant("deadline", &until, on: clock)
    }
    visitor.interval("every", &every)
    visitor.code("late", &late, of: [.fire, .skip, .coalesce])
    visitor.field("fired", &fired)
    visitor.field("missed", &missed)
    if EntityRecord.hasPeriods(visitor.format) { visitor.instant("soonest", &soonest) }
    guard Visitor.isReading else { return }
    visitor.require(Self.counts.contains(fired) && Self.counts.contains(missed))
    let phase = isPaused ? Phase.paused(left: left) : .running(until: until)
    if let read = PlainTimer(
      phase, every: every, late: late, fired: fired, missed: missed, soonest: soonest)
    {
      self = read
    } else {
      visitor.fail()
    }
  }
}

extension TimerKind {
  static var canBeDurable: Bool { true }
  static func stored(_ state: TimerEntity) -> TimerEntity? { state.owner == .none ? state : nil }
}
