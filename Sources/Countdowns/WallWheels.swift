import TimerWheel

/// The timers of the wall clock. The clock can be set back, the time of a wheel cannot: so there is
/// a wheel more for each time that the clock was set back while timers were armed.
///
///     the first wheel: deadlines after 12:00, where the clock was
///     the next one:    deadlines after 11:30, to which it was set back, up to 12:00
///
/// No timer that is still to come moves, so setting the clock back is O(1), and equal deadlines are
/// always in the same wheel, in the order of arming.
struct WallWheels: ~Copyable {
  private final class Layer {
    var wheel: TimerWheel
    /// Whether it may have timers with deadlines up to its time, which belong above it.
    var hasPast = false

    init(startingAt start: TimerWheel.Tick) { wheel = TimerWheel(startingAt: start) }
  }

  /// Each has later deadlines than the next; the last one has the clock's time.
  private var layers: [Layer]

  init(startingAt start: TimerWheel.Tick) { layers = [Layer(startingAt: start)] }

  private var top: Layer { layers[layers.count - 1] }
  var count: Int { layers.reduce(0) { $0 + $1.wheel.count } }
  var nextDeadline: TimerWheel.Tick? {
    // Nearly always: each turn of the loop asks.
    if layers.count == 1 { return top.wheel.nextDeadline }
    return layers.reduce(nil) { earliest, layer in
      layer.wheel.nextDeadline.map { min($0, earliest ?? .max) } ?? earliest
    }
  }

  func releaseUnusedMemory() {
    for layer in layers { layer.wheel.releaseUnusedMemory() }
  }

  // MARK: Arming

  /// Arms, moves or disarms a timer, which its payload identifies. O(times that the clock was set
  /// back).
  func arm(
    _ alarm: TimerWheel.Token?, for deadline: TimerWheel.Tick?, _ payload: UInt64
  ) -> TimerWheel.Token? {
    let old = alarm.flatMap { alarm in layers.last { $0.wheel.payload(of: alarm) == payload } }
    if let alarm, let old {
      if old.wheel.deadline(of: alarm) == deadline { return alarm }
      if let deadline, old === layer(for: deadline) {
        old.wheel.reschedule(alarm, deadline: deadline)
        return alarm
      }
      old.wheel.cancel(alarm)
    }
    return deadline.map { layer(for: $0).wheel.schedule(deadline: $0, payload: payload) }
  }

  /// Until the past of a wheel has been moved, new timers with the same deadlines queue up there.
  private func layer(for deadline: TimerWheel.Tick, above lower: Int = 0) -> Layer {
    layers[lower...].first { $0.hasPast || $0.wheel.elapsed < deadline } ?? top
  }

  // MARK: Time

  /// Notices that the clock was set back. O(times that it was set back).
  mutating func follow(_ now: TimerWheel.Tick) {
    guard now < top.wheel.elapsed else { return }
    layers.removeAll { $0.wheel.count == 0 }
    layers.last?.hasPast = true
    layers.append(Layer(startingAt: now))
  }

  /// Moves timers that were due before the clock was set back, and are not now: those that had not
  /// expired yet, or were armed before `follow`. Nothing expires until that is done.
  ///
  /// - Parameter rearmed: receives the payload and the new token of each.
  func settle(budget: inout Int, _ rearmed: (UInt64, TimerWheel.Token) -> Void) {
    guard layers.count > 1 else { return }
    for (number, layer) in layers.dropLast().enumerated() where layer.hasPast {
      while let next = layer.wheel.advance(to: layer.wheel.elapsed, budget: &budget) {
        let target = self.layer(for: next.deadline, above: number + 1)
        rearmed(
          next.payload, target.wheel.schedule(deadline: next.deadline, payload: next.payload))
      }
      guard budget > 0 else { return }
      layer.hasPast = false
    }
  }

  /// Like `TimerWheel.advance`.
  mutating func advance(
    to now: TimerWheel.Tick, budget: inout Int
  ) -> TimerWheel.Expiration? {
    if layers.count == 1 { return top.wheel.advance(to: now, budget: &budget) }
    while true {
      // What comes later is below.
      let below = layers.dropLast().last
      let end = min(now, below?.wheel.elapsed ?? now)
      if let due = top.wheel.advance(to: end, budget: &budget) { return due }
      guard budget > 0, let below, below.wheel.elapsed <= now else { return nil }
      layers.removeLast()
    }
  }
}

/// Notices that the wall clock was set back, and which timers are still to follow it.
struct WallClockWatch {
  /// The clocks as last seen.
  private var seen: Moment
  /// The place of the next timer to look at; nil once all have followed.
  var next: UInt32?

  init(_ now: Moment) { seen = now }

  /// Notes the time. Whoever decides by the wall clock calls this before.
  mutating func look(at now: Moment) {
    // The boot clock runs on while the other shows the same time again.
    if now.wall < seen.wall || now.wall == seen.wall && now.boot > seen.boot { wasSetBack() }
    seen = now
  }

  mutating func wasSetBack() { next = 0 }
}
