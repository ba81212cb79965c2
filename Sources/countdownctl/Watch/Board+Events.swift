import CountdownClient

/// Applies the events of each kind to the lines.
extension Board {
  mutating func apply(_ event: CountdownEvent, at now: Duration) {
    switch event.kind {
    case .connection:
      isConnected = event.name != .disconnected
      // Snapshots follow for all entities that still exist.
      if event.name == .resubscribed { removeAll() }
    case .countdown: apply(countdown: event, at: now)
    case .hud: apply(hud: event, at: now)
    case .timer: apply(timer: event, at: now)
    case .throttle, .once, .gate, .debounce: apply(guarded: event, at: now)
    case .scope: apply(scope: event, at: now)
    case .nav: apply(navigation: event, at: now)
    case .page: apply(page: event, at: now)
    default: break
    }
  }

  private mutating func apply(countdown event: CountdownEvent, at now: Duration) {
    let id = event.channel
    if event.name == .cancelled { return end(id, "cancelled", at: now) }
    guard let view = event.countdown else { return }
    // Events of a verification code must not bring back a countdown that has ended.
    if [.expired, .locked, .passed].contains(event.name), lines[id] == nil { return }
    var line = known(id, event)
    line.state = view.state.rawValue
    line.title = view.title
    switch view.state {
    case .counting, .paused:
      line.run(view, view.timeLeft, of: view.every * view.count, at: now)
      if view.state == .paused { line.phase = .still(left: view.timeLeft) }
    case .ready:
      // A repeated event must not make the line stay longer.
      if lines[id]?.isOver == true, lines[id]?.state == line.state { return }
      line.phase = .still(left: nil)
      put(id, line)
      return end(id, "ready", at: now)
    case .idle: return remove(id)
    default: break
    }
    put(id, line)
  }

  private mutating func apply(hud event: CountdownEvent, at now: Duration) {
    guard let view = event.hud else { return }
    // A screen has a HUD of each level, and one channel for all of them.
    let id = event.channel + "\u{0}" + (view.level?.rawValue ?? "")
    guard view.state != .hidden else { return end(id, view.end?.rawValue ?? "hidden", at: now) }
    var line = known(id, event)
    line.state = view.isPaused ? "paused" : view.state.rawValue
    line.title = view.status ?? view.kind?.rawValue ?? line.title
    line.fraction = view.fraction
    line.run(view, view.timeLeft, at: now)
    if view.isPaused { line.phase = .still(left: view.timeLeft) }
    put(id, line)
  }

  private mutating func apply(timer event: CountdownEvent, at now: Duration) {
    let id = event.channel
    if event.name == .cancelled { return end(id, "cancelled", at: now) }
    if event.name == .fired, lines[id]?.isPeriodic != true, event.timer?.every == nil {
      return end(id, "fired", at: now, title: event.fields["payload"]?.textOrBase64)
    }
    guard let view = event.timer else { return }
    // An idle timer with a deadline exists, and fires now.
    guard view.state != .idle || view.deadline != nil else { return remove(id) }
    var line = known(id, event)
    line.state = view.state.rawValue
    line.title = view.payload?.textOrBase64 ?? line.title
    line.isPeriodic = line.isPeriodic || view.every != nil
    line.run(view, view.timeLeft, of: view.every, at: now)
    if view.state == .paused { line.phase = .still(left: view.timeLeft) }
    put(id, line)
  }

  /// Shows the time until a rate limit, idempotency key, gate or debouncer changes by itself.
  private mutating func apply(guarded event: CountdownEvent, at now: Duration) {
    let id = event.channel
    let title =
      event.throttle.map(Throttle.left) ?? event.once?.result?.textOrBase64
      ?? event.gate?.action ?? event.debounce?.payload?.textOrBase64
    // The entity has ended or never existed.
    guard let state = event.state, state != "idle", state != "closed" else {
      return leave(id, event, event.name.rawValue, at: now, title: title)
    }
    var line = known(id, event)
    line.state = state
    line.title = title
    let left =
      event.throttle?.resetAfter ?? event.once?.timeLeft ?? event.gate?.timeLeft
      ?? event.debounce?.timeLeft
    line.run(left, at: now)
    put(id, line)
  }

  private mutating func apply(scope event: CountdownEvent, at now: Duration) {
    let id = event.channel
    // An event that clients emit has no view of the scope.
    guard let view = event.scope else { return }
    guard view.state == .open else {
      return leave(id, event, "closed", at: now)
    }
    var line = known(id, event)
    line.state = view.state.rawValue
    line.title = view.parent.map { "in \($0)" }
    line.run(view, view.timeLeft, of: view.ttl, at: now)
    put(id, line)
  }

  private mutating func apply(navigation event: CountdownEvent, at now: Duration) {
    let id = event.channel
    guard let view = event.nav else { return }
    guard view.state != .empty else {
      return leave(id, event, "empty", at: now)
    }
    var line = known(id, event)
    line.state = view.state.rawValue
    // A swipe has its own generation, so the line is new.
    line.title = line.title ?? lines[id]?.title
    // Other events name pages that come or go.
    if [.snapshot, .didAppear].contains(event.name) || line.title == nil, let page = view.page {
      let depth = event.fields["depth"]?.int ?? 1
      line.title = depth > 1 ? "\(page), \(depth) pages" : page
    }
    line.fraction = view.fraction
    line.run(view, view.timeLeft, at: now)
    put(id, line)
  }

  private mutating func apply(page event: CountdownEvent, at now: Duration) {
    let id = event.channel
    guard let view = event.page else { return }
    guard view.state != .unknown else {
      return leave(id, event, "closed", at: now)
    }
    var line = known(id, event)
    line.state = view.state.rawValue
    let parts = [
      view.items.map { "\($0) items" }, view.message, view.isVisible ? nil : "not on the screen",
    ]
    line.title = parts.compactMap(\.self).joined(separator: ", ")
    line.run(view, view.timeLeft, at: now)
    put(id, line)
  }

  /// Ends the line of an entity that does not exist; after a snapshot, removes it at once.
  private mutating func leave(
    _ id: String, _ event: CountdownEvent, _ word: String, at now: Duration, title: String? = nil
  ) {
    if event.name == .snapshot { remove(id) } else { end(id, word, at: now, title: title) }
  }

  /// Returns the line of an event's entity; a new line if there is none of this generation.
  private func known(_ id: String, _ event: CountdownEvent) -> Line {
    let new = Line(
      kind: event.kind, channel: event.channel, key: event.key, generation: event.generation)
    guard let old = lines[id], old.generation == event.generation || event.generation == nil
    else { return new }
    return old
  }
}

extension Board.Line {
  /// Lets the time run until the deadline of a view; freezes the line if `remaining` is nil.
  mutating func run(
    _ view: some EntityView, _ remaining: Duration?, of whole: Duration? = nil, at now: Duration
  ) {
    var left = remaining
    // Uses the daemon's clock, which may differ from this host's. The deadline is rounded up and
    // the clock down, so that the difference may exceed the remaining time by 1 ms, which would
    // show as 0.1 s.
    if let deadline: Int = view.fields["deadline_unix_ms"],
      let clock: Int = view.fields["now_unix_ms"]
    {
      let distance = Duration.milliseconds(deadline - clock)
      left = remaining.map { $0 > .zero ? min($0, distance) : distance }
    }
    run(left, of: whole, at: now)
  }

  /// Lets the time `left` run; freezes the line for nil. The bar shows the part of `whole`, or else
  /// of the longest time ever left.
  mutating func run(_ left: Duration?, of whole: Duration? = nil, at now: Duration) {
    phase = left.map { .running(end: now + $0) } ?? .still(left: nil)
    guard let left else { return }
    total = whole.flatMap { $0 > .zero ? $0 : nil } ?? max(total ?? .zero, left)
  }
}
