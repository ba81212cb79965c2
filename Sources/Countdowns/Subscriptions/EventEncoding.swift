import Wire

extension Event {
  /// The one line of JSON that subscribers get.
  package func encoded() -> [UInt8] {
    var line = JSONLine()
    write(to: &line)
    return Array(line.finish())
  }

  /// The fields of that line.
  func write(to line: inout JSONLine) {
    line.field("event", name.text)
    line.field("key", bytes: subject.key)
    line.field("generation", generation.value)
    line.field("seq", sequence)
    if let dueUnixMS { line.field("due_unix_ms", dueUnixMS) }
    if let lateMicroseconds { line.field("late_us", lateMicroseconds) }
    if let reason { line.field("reason", reason.text) }
    switch subject {
    case .countdown(let view): write(view, to: &line)
    case .hud(let view): write(view, to: &line)
    case .timer(let view): write(view, to: &line)
    case .guarded(let view): view.writeState(to: &line)
    case .scope(let view): write(view, to: &line)
    case .emission(let emission): emission.write(to: &line)
    case .nav(let view): view.writeEvent(name, to: &line)
    case .page(let view): view.writeEvent(name, to: &line)
    case .nothing(let kind, _, let nowUnixMS):
      line.field("state", kind.stateOfNothing)
      line.field("now_unix_ms", nowUnixMS)
    }
  }

  private func write(_ view: CountdownView, to line: inout JSONLine) {
    guard name != .cancelled else {
      line.field("state", "idle" as StaticString)
      line.field("now_unix_ms", view.nowUnixMS)
      return
    }
    line.field("state", view.state.text)
    view.writeProgress(to: &line)
    switch name {
    case .refused:
      line.field("retry_after_ms", view.retryAfterMS)
      view.quota?.write(to: &line)
    case .refunded, .expired, .locked, .passed:
      view.writeSends(to: &line)
    case .started, .snapshot:
      line.field("count", Int64(view.count))
      line.field("every_ms", view.everyMS)
      view.writeSends(to: &line)
      line.field("owner", view.owner)
      line.field("meta", bytes: view.meta)
    default:
      break
    }
  }

  private func write(_ view: HUDView, to line: inout JSONLine) {
    view.writeState(to: &line)
    if let superseded { line.field("superseded_generation", superseded.value) }
  }

  private func write(_ view: ScopeView, to line: inout JSONLine) {
    line.field("state", view.state.rawValue)
    if name == .closed {
      line.field("parent", bytes: view.parent)
      line.field("now_unix_ms", view.nowUnixMS)
    } else {
      view.writeDetails(to: &line)
    }
  }

  private func write(_ view: TimerView, to line: inout JSONLine) {
    switch name {
    case .cancelled:
      line.field("state", "idle" as StaticString)
      line.field("now_unix_ms", view.nowUnixMS)
    case .fired:
      // Once fired, a timer that does not repeat is no more.
      if view.everyMS == nil {
        line.field("state", "idle" as StaticString)
        line.field("now_unix_ms", view.nowUnixMS)
      } else {
        view.writeState(to: &line)
      }
      line.field("fired", view.fired)
      line.field("missed", missed)
      line.field("payload", bytes: view.payload)
    case .set, .snapshot:
      view.writeState(to: &line)
      line.field("every_ms", view.everyMS)
      line.field("clock", view.clock.rawValue)
      line.field("fired", view.fired)
      line.field("missed", view.missed)
      line.field("owner", view.owner)
      line.field("payload", bytes: view.payload)
    default:
      view.writeState(to: &line)
    }
  }
}

extension Event.Subject {
  var key: [UInt8] {
    switch self {
    case .countdown(let view): view.key
    case .hud(let view): view.key
    case .timer(let view): view.key
    case .guarded(let view): view.key
    case .scope(let view): view.key
    case .emission(let emission): emission.key
    case .nav(let view): view.key
    case .page(let view): view.key
    case .nothing(_, let key, _): key
    }
  }
}
