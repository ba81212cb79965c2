import CountdownClient

/// The screen of `watch`: a line for each entity whose time runs, from the events alone.
///
/// Times are durations since the start of `watch`. The time left comes from the deadline and the
/// daemon's clock in the last event; ticks are not counted.
struct LiveBoard {
  /// How long a line stays at the end.
  static let linger = Duration.seconds(5)
  /// The period for drawing a running time.
  static let frame = Duration.milliseconds(100)

  struct Line: Equatable {
    enum Phase: Equatable {
      /// Ends at this time.
      case running(end: Duration)
      /// Does not run, with so much left; nil when no end is known.
      case still(left: Duration?)
      /// Has ended, and disappears at this time.
      case over(word: String, until: Duration)
    }

    let kind: CountdownEvent.Kind
    let key: String
    var state = ""
    var phase = Phase.still(left: nil)
    /// Of the whole, for the bar; nil without one.
    var total: Duration?
    /// Whether a timer fires again and again.
    var isPeriodic = false
    /// The part that is done, where the daemon sends it.
    var fraction: Double?
    var title: String?

    func left(at now: Duration) -> Duration? {
      switch phase {
      case .running(let end): return max(.zero, end - now)
      case .still(let left): return left
      case .over: return nil
      }
    }
  }

  private(set) var lines: [String: Line] = [:]
  /// The ids of the lines, oldest first.
  private(set) var order: [String] = []
  private(set) var isConnected = true

  mutating func apply(_ event: CountdownEvent, at now: Duration) {
    switch event.kind {
    case .connection:
      isConnected = event.name != .disconnected
      // Snapshots follow for all entities that still exist.
      if event.name == .resubscribed { remove(all: true, at: now) }
    case .countdown: apply(countdown: event, at: now)
    case .hud: apply(hud: event, at: now)
    case .timer: apply(timer: event, at: now)
    case .throttle, .once, .gate, .debounce: apply(guarded: event, at: now)
    // No time runs in these.
    case .scope, .navigation, .page: break
    }
  }

  /// Removes the lines that have ended long enough ago.
  mutating func expire(at now: Duration) { remove(all: false, at: now) }

  /// When to draw again without an event, as a duration from now; nil when nothing moves.
  func nextFrame(at now: Duration) -> Duration? {
    var next: Duration?
    for line in lines.values {
      let wish: Duration
      switch line.phase {
      case .running(let end) where end > now: wish = Self.frame
      case .over(_, let until): wish = max(Self.frame, until - now)
      case .running, .still: continue
      }
      next = min(next ?? wish, wish)
    }
    return next
  }

  // MARK: Events

  private mutating func apply(countdown event: CountdownEvent, at now: Duration) {
    let id = event.channel
    if event.name == .cancelled { return end(id, "cancelled", at: now) }
    guard let view = event.countdown else { return }
    // Events of the code do not show a countdown that has ended.
    if [.expired, .locked, .passed].contains(event.name), lines[id] == nil { return }
    var line = lines[id] ?? Line(kind: .countdown, key: view.key)
    line.state = view.state.rawValue
    line.title = view.title
    if view.count > 0, view.every > .zero { line.total = view.every * view.count }
    switch view.state {
    case .counting:
      line.phase = .running(end: now + Self.left(view, view.remainingTime))
    case .paused: line.phase = .still(left: view.remainingTime)
    case .ready:
      // A repetition does not make it stay longer.
      if case .over("ready", _) = line.phase {
      } else {
        line.phase = .over(word: "ready", until: now + Self.linger)
      }
    case .idle: return remove(id)
    }
    put(id, line)
  }

  private mutating func apply(hud event: CountdownEvent, at now: Duration) {
    guard let view = event.hud else { return }
    // A screen has one of each level, and one channel for all of them.
    let id = event.channel + "\u{0}" + (view.level?.rawValue ?? "")
    guard view.state != .hidden else { return end(id, view.end ?? "hidden", at: now) }
    var line = lines[id] ?? Line(kind: .hud, key: view.key)
    line.state = view.state.rawValue
    line.title = view.status ?? view.kind?.rawValue ?? line.title
    line.fraction = view.fraction
    if let left = view.remainingTime, !view.isPaused {
      line.phase = .running(end: now + Self.left(view, left))
    } else {
      line.phase = .still(left: view.remainingTime)
    }
    put(id, line)
  }

  private mutating func apply(timer event: CountdownEvent, at now: Duration) {
    let id = event.channel
    if event.name == .cancelled { return end(id, "cancelled", at: now) }
    if event.name == .fired, lines[id]?.isPeriodic != true, event.timer?.every == nil {
      return end(id, "fired", at: now, title: event.fields["payload"]?.textOrBase64)
    }
    guard let view = event.timer else { return }
    // With a deadline it exists, and fires now.
    guard view.state != .idle || view.deadlineUnixMS != nil else { return remove(id) }
    var line = lines[id] ?? Line(kind: .timer, key: view.key)
    let left = Self.left(view, view.remainingTime)
    line.state = view.state.rawValue
    line.title = view.payload ?? line.title
    line.isPeriodic = line.isPeriodic || view.every != nil
    line.phase =
      view.state == .paused ? .still(left: view.remainingTime) : .running(end: now + left)
    if let every = view.every {
      line.total = every
    } else if view.state == .running, event.name != .resumed, !line.isPeriodic {
      // Its length is not known; count from now.
      line.total = left
    }
    put(id, line)
  }

  /// A rate limit, request, gate or debouncer has a line with the time until it changes by itself.
  private mutating func apply(guarded event: CountdownEvent, at now: Duration) {
    let id = event.channel
    let state = event.state ?? ""
    let title =
      event.throttle.map(Throttle.left) ?? event.once?.result
      ?? event.gate?.action ?? event.debounce?.payload
    // It has ended, or never was.
    guard state != "idle", state != "closed" else {
      return event.name == .snapshot
        ? remove(id) : end(id, event.name.rawValue, at: now, title: title)
    }
    var line = lines[id] ?? Line(kind: event.kind, key: event.key)
    line.state = state
    line.title = title
    let left =
      event.throttle?.resetAfter ?? event.once?.remainingTime ?? event.gate?.remainingTime
      ?? event.debounce?.remainingTime
    line.phase = left.map { .running(end: now + $0) } ?? .still(left: nil)
    put(id, line)
  }

  /// The distance of a deadline by the daemon's clock, which this one need not agree with.
  private static func left(_ view: some EntityView, _ remaining: Duration) -> Duration {
    guard let deadline = view.deadlineUnixMS, let now = view.nowUnixMS else { return remaining }
    let distance = Duration.milliseconds(deadline - now)
    // The deadline is rounded up and the clock down: together they may exceed the remaining time by
    // a millisecond, which would show as a tenth of a second.
    return remaining > .zero ? min(distance, remaining) : distance
  }

  // MARK: Lines

  private mutating func put(_ id: String, _ line: Line) {
    if lines.updateValue(line, forKey: id) == nil { order.append(id) }
  }

  private mutating func end(
    _ id: String, _ word: String, at now: Duration, title: String? = nil
  ) {
    guard var line = lines[id] else { return }
    line.state = word
    line.phase = .over(word: word, until: now + Self.linger)
    if let title { line.title = title }
    lines[id] = line
  }

  private mutating func remove(_ id: String) {
    guard lines.removeValue(forKey: id) != nil else { return }
    order.removeAll { $0 == id }
  }

  private mutating func remove(all: Bool, at now: Duration) {
    let gone = lines.filter { _, line in
      if case .over(_, let until) = line.phase { return all || until <= now }
      return all
    }
    guard !gone.isEmpty else { return }
    for id in gone.keys { lines[id] = nil }
    order.removeAll { gone[$0] != nil }
  }
}
