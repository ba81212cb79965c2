import CountdownClient

extension LiveBoard {
  /// A rate limit, request, gate or debouncer has a line with the time until it changes by itself.
  mutating func apply(guarded event: CountdownEvent, at now: Duration) {
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
}
