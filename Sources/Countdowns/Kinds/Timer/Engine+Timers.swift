import TimerWheel

/// What TIMER SET says, beyond the key.
package struct TimerSet: Sendable {
  package var after: Interval
  package var every: Interval?
  package var late = PlainTimer.Late.fire
  package var clock = TimerClock.boot
  package var owner: Owner = .none
  package var payload: [UInt8]?

  package init(after: Interval) { self.after = after }
}

extension Engine {
  // MARK: Commands

  /// `set.every` must be at least a millisecond.
  package func setTimer(
    _ key: UnsafeRawBufferPointer, _ set: TimerSet, by client: Client, at now: Moment
  ) throws(EngineError) -> TimerView {
    guard
      let machine = PlainTimer(
        after: set.after, every: set.every, late: set.late, at: now.on(set.clock))
    else { preconditionFailure("a timer repeats at most once a millisecond") }

    try checkWritable(set.owner)
    let old = settledTimer(key, at: now)
    if let old {
      try checkWritable(timers[old].owner)
      // Another user's timer that is replaced is one more of this user's.
      if timers[old].uid != client.uid { try checkUserLimit(client) }
    } else {
      try checkLimits(client)
    }
    if let old {
      statistics.cancelled += 1
      publish(timer: old, .cancelled, reason: .replaced, at: now)
      release(timer: old)
    }
    let entity = TimerEntity(
      key: Array(key), machine: machine, generation: newGeneration(), owner: set.owner,
      uid: client.uid, clock: set.clock, payload: set.payload)
    // In the place of the old one: a listing that is under way meets the key once, as it is then.
    let index = old ?? timers.insert(entity)
    if old != nil { timers[index] = entity }
    connections.own(EntityRef(.timer, index), set.owner)
    connections.count(1, for: client.uid)
    armTimer(index)
    publish(timer: index, .set, at: now)
    return settledView(ofTimer: index, at: now)
  }

  package func timer(_ key: UnsafeRawBufferPointer, at now: Moment) -> TimerView? {
    settledTimer(key, at: now).map { TimerView(timers[$0], at: now) }
  }

  package func listTimers(_ query: ListQuery, at now: Moment) -> Page<TimerView> {
    for index in timers.lookedAt(query) { _ = settleTimer(index, at: now) }
    return timers.page(query, owner: { $0.owner }, view: { TimerView($0, at: now) })
  }

  /// False if there was nothing to delete.
  package func deleteTimer(
    _ key: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = settledTimer(key, at: now) else { return false }
    try check(generation, against: timers[index].generation)
    try checkWritable(timers[index].owner)
    cancelTimer(index, reason: .cancelled, at: now)
    return true
  }

  package func pauseTimer(
    _ key: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> TimerView {
    try changeTimer(key, generation, .paused, at: now) { $0.pause(at: $1) }
  }

  package func resumeTimer(
    _ key: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> TimerView {
    try changeTimer(key, generation, .resumed, at: now) { $0.resume(at: $1) }
  }

  package func retimeTimer(
    _ key: UnsafeRawBufferPointer, to left: Interval, generation: Generation?, at now: Moment
  ) throws(EngineError) -> TimerView {
    try changeTimer(key, generation, .retimed, at: now) { $0.retime(left, at: $1) }
  }

  // MARK: Time

  func expireTimer(_ index: UInt32, at now: Moment) {
    guard isThere(timers[index].owner, at: now) else {
      cancelTimer(index, reason: .ownerGone, at: now)
      return
    }
    let clock = now.on(timers[index].clock)
    if let firing = timers[index].machine.expire(at: clock) {
      statistics.record(late: (clock - firing.due).microseconds)
      publish(timer: index, .fired, firing, at: now)
      if firing.last {
        removeTimer(index)
        return
      }
    }
    armTimer(index)
  }

  func cancelTimer(_ index: UInt32, reason: Event.Reason, at now: Moment) {
    if reason == .ownerGone { statistics.ownerGone += 1 } else { statistics.cancelled += 1 }
    publish(timer: index, .cancelled, reason: reason, at: now)
    removeTimer(index)
  }

  // MARK: Steps

  /// The timer of that name, after what is due for it has happened.
  private func settledTimer(_ key: UnsafeRawBufferPointer, at now: Moment) -> UInt32? {
    guard let index = timers.find(key), settleTimer(index, at: now) else { return nil }
    return index
  }

  /// Lets happen what is due for a timer; false if it is not there, or not any more.
  func settleTimer(_ index: UInt32, at now: Moment) -> Bool {
    guard let entity = timers.entity(at: Int(index)) else { return false }
    let count = changes.count
    defer { changes.count = count }
    guard isThere(entity.owner, at: now) else {
      cancelTimer(index, reason: .ownerGone, at: now)
      return false
    }
    guard let due = entity.machine.nextExpiry, due <= now.on(entity.clock) else { return true }
    expireTimer(index, at: now)
    return timers.entity(at: Int(index)) != nil
  }

  private func changeTimer(
    _ key: UnsafeRawBufferPointer, _ generation: Generation?, _ event: Event.Name,
    at now: Moment, _ change: (inout PlainTimer, Instant) -> Void
  ) throws(EngineError) -> TimerView {
    guard let index = settledTimer(key, at: now) else { throw .notFound }
    try check(generation, against: timers[index].generation)
    try checkWritable(timers[index].owner)
    let before = timers[index].machine
    change(&timers[index].machine, now.on(timers[index].clock))
    if timers[index].machine != before {
      armTimer(index)
      publish(timer: index, event, at: now)
    }
    return settledView(ofTimer: index, at: now)
  }

  /// How it is once it has fired, if it is due now; how it was, if that was the last time.
  private func settledView(ofTimer index: UInt32, at now: Moment) -> TimerView {
    let last = TimerView(timers[index], at: now)
    return settleTimer(index, at: now) ? TimerView(timers[index], at: now) : last
  }

  func armTimer(_ index: UInt32) {
    let entity = timers[index]
    timers[index].alarm = arm(
      entity.alarm, for: entity.machine.nextExpiry, EntityRef(.timer, index), on: entity.clock)
  }

  func removeTimer(_ index: UInt32) {
    release(timer: index)
    timers.remove(index, holdsPlace: changes.isKept(EntityRef(.timer, index)))
  }

  /// Takes away what the rest of the engine knows of a timer.
  private func release(timer index: UInt32) {
    let entity = timers[index]
    let reference = EntityRef(.timer, index)
    timers[index].alarm = arm(entity.alarm, for: nil, reference, on: entity.clock)
    connections.disown(reference, entity.owner)
    connections.count(-1, for: entity.uid)
  }

  private func publish(
    timer index: UInt32, _ name: Event.Name, _ firing: PlainTimer.Firing? = nil,
    reason: Event.Reason? = nil, at now: Moment
  ) {
    let entity = timers[index]
    let isKept = name.tellsOfChange && entity.owner == .none
    if name.tellsOfChange { changes.note(EntityRef(.timer, index), isKept: isKept) }
    publish(.timer, entity.key, isKept: isKept) { sequence in
      var event = Event(
        name: name, subject: .timer(TimerView(entity, at: now)), generation: entity.generation,
        sequence: sequence, reason: reason)
      if let firing {
        switch entity.clock {
        case .boot: event.dueUnixMS = now.unixMilliseconds(of: firing.due)
        case .wall: event.dueUnixMS = now.unixMilliseconds(ofWall: firing.due)
        }
        event.lateMicroseconds = (now.on(entity.clock) - firing.due).microseconds
        event.missed = firing.missed
      }
      return event
    }
  }
}
