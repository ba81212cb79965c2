import CountdownClient

/// What is on the screen of `watch`: a line for each thing that counts, from the events alone.
///
/// Times are durations since the watching began. The time left comes from the deadline, as
/// far away as it was by the daemon's clock when it was told: no event is counted.
struct LiveBoard {
  /// How long a line stays once it is over.
  static let linger = Duration.seconds(5)
  /// How often a running time is drawn.
  static let frame = Duration.milliseconds(100)

  struct Line: Equatable {
    enum Phase: Equatable {
      /// Ends at this time.
      case running(end: Duration)
      /// Stands still with so much left; nil when nothing is known to end.
      case still(left: Duration?)
      /// Is over, and goes at this time.
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
    /// What is done, where the daemon says so.
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
  /// The ids of the lines in the order of their coming.
  private(set) var order: [String] = []
  private(set) var isConnected = true

  mutating func apply(_ event: CountdownEvent, at now: Duration) {
    switch event.kind {
    case .connection:
      isConnected = event.name != .disconnected
      // Snapshots follow for what is still there; the rest has gone unseen.
      if event.name == .resubscribed { remove(all: true, at: now) }
    case .countdown: apply(countdown: event, at: now)
    case .hud: apply(hud: event, at: now)
    case .timer: apply(timer: event, at: now)
    case .throttle, .once, .gate, .debounce: apply(guarded: event, at: now)
    // Nothing counts: there is no line for it.
    case .scope, .nav, .page: break
    }
  }

  /// Takes away what has been over for long enough.
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
    // What happens to a code is no reason to show a countdown that is over.
    if [.expired, .locked, .passed].contains(event.name), lines[id] == nil { return }
    var line = lines[id] ?? Line(kind: .countdown, key: view.key)
    line.state = view.state.rawValue
    line.title = view.title
    if view.count > 0, view.every > .zero { line.total = view.every * view.count }
    switch view.state {
    case .counting:
      line.phase = .running(
        end: now + Self.left((view.deadlineUnixMS, view.nowUnixMS, view.remainingTime)))
    case .paused: line.phase = .still(left: view.remainingTime)
    case .ready:
      // Told again, it does not stay longer.
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
    let id = event.channel + "\u{0}" + (view.level ?? "")
    guard view.state != .hidden else { return end(id, view.end ?? "hidden", at: now) }
    var line = lines[id] ?? Line(kind: .hud, key: view.key)
    line.state = view.state.rawValue
    line.title = view.status ?? view.kind ?? line.title
    line.fraction = view.fraction
    if let left = view.remainingTime, !view.isPaused {
      line.phase = .running(
        end: now + Self.left((view.deadlineUnixMS, view.nowUnixMS, left)))
    } else {
      line.phase = .still(left: view.remainingTime)
    }
    put(id, line)
  }

  private mutating func apply(timer event: CountdownEvent, at now: Duration) {
    let id = event.channel
    if event.name == .cancelled { return end(id, "cancelled", at: now) }
    if event.name == .fired, lines[id]?.isPeriodic != true, event.timer?.every == nil {
      return end(id, "fired", at: now, title: event.fields["payload"]?.string)
    }
    guard let view = event.timer else { return }
    // With a deadline it is there, and fires now.
    guard view.state != .idle || view.deadlineUnixMS != nil else { return remove(id) }
    var line = lines[id] ?? Line(kind: .timer, key: view.key)
    let left = Self.left((view.deadlineUnixMS, view.nowUnixMS, view.remainingTime))
    line.state = view.state.rawValue
    line.title = view.payload ?? line.title
    line.isPeriodic = line.isPeriodic || view.every != nil
    line.phase =
      view.state == .paused ? .still(left: view.remainingTime) : .running(end: now + left)
    if let every = view.every {
      line.total = every
    } else if view.state == .running, event.name != .resumed, !line.isPeriodic {
      // Nobody says how long it was; from here on is as good.
      line.total = left
    }
    put(id, line)
  }

  /// How far away a deadline is by the daemon's own clock, so that ours need not agree with it.
  private static func left(_ told: (deadline: Int?, now: Int?, remaining: Duration)) -> Duration {
    guard let deadline = told.deadline, let now = told.now else { return told.remaining }
    let distance = Duration.milliseconds(deadline - now)
    // The deadline is rounded up and the clock down, which together can be a millisecond more
    // than what remains, and look like a tenth of a second.
    return told.remaining > .zero ? min(distance, told.remaining) : distance
  }

  // MARK: Lines

  mutating func put(_ id: String, _ line: Line) {
    if lines.updateValue(line, forKey: id) == nil { order.append(id) }
  }

  mutating func end(
    _ id: String, _ word: String, at now: Duration, title: String? = nil
  ) {
    guard var line = lines[id] else { return }
    line.state = word
    line.phase = .over(word: word, until: now + Self.linger)
    if let title { line.title = title }
    lines[id] = line
  }

  mutating func remove(_ id: String) {
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
