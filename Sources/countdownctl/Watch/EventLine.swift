import CountdownClient

/// An event in one line, for pipes and logs: time, channel, event, what changed.
enum EventLine {
  static func text(_ event: CountdownEvent, time: String) -> String {
    let channel = event.kind == .connection ? "-" : event.channel.printable
    let details = details(event)
    return ([time, channel, event.name.rawValue.printable] + details).joined(separator: "  ")
  }

  private static func details(_ event: CountdownEvent) -> [String] {
    var details: [String]
    switch event.kind {
    case .connection: return []
    case .countdown: details = countdown(event)
    case .hud: details = hud(event)
    case .timer: details = timer(event)
    case .throttle, .once, .gate, .debounce: details = guarded(event)
    case .scope: details = scope(event)
    case .nav: details = navigation(event)
    case .page: details = page(event)
    }
    if let reason = event.fields["reason"]?.string { details.append("reason: \(reason)") }
    if let generation = event.generation, event.name != .tick {
      details.append("generation \(generation)")
    }
    return details.map { $0.printable }
  }

  private static func countdown(_ event: CountdownEvent) -> [String] {
    guard let view = event.countdown else {
      return event.fields["state"]?.string.map { [$0] } ?? []
    }
    var details: [String] = []
    switch event.name {
    case .started: details.append("\(view.count) × \(view.every.humanText)")
    case .tick: details.append("\(view.remaining) left")
    case .refused: details.append("try again in \(view.remainingTime.humanText)")
    case .ready, .cancelled: break
    default:
      details.append(view.state.rawValue)
      if view.remainingTime > .zero { details.append("\(view.remainingTime.humanText) left") }
    }
    if let title = view.title { details.append(title) }
    if let late = event.lateMicroseconds, event.name == .ready { details.append("\(late) µs late") }
    return details
  }

  private static func hud(_ event: CountdownEvent) -> [String] {
    guard let view = event.hud else { return [] }
    var details = [view.state.rawValue]
    if let kind = view.kind { details.append(kind) }
    if let fraction = view.fraction { details.append("\(Int(fraction * 100)) %") }
    if let status = view.status { details.append(status) }
    if let end = view.end { details.append("end: \(end)") }
    return details
  }

  private static func page(_ event: CountdownEvent) -> [String] {
    var details = [event.fields["state"]?.string].compactMap { $0 }
    if let items = event.fields["items"]?.int { details.append("\(items) items") }
    if let message = event.fields["message"]?.string { details.append(message) }
    return details
  }

  private static func navigation(_ event: CountdownEvent) -> [String] {
    var details = [event.fields["page"]?.string].compactMap { $0 }
    if event.fields["first"]?.bool == true { details.append("first") }
    if event.fields["last"]?.bool == true { details.append("last") }
    if event.fields["bar_changed"]?.bool == true, let bar = event.fields["bar"]?.string {
      details.append("bar \(bar)")
    }
    if let fraction = event.fields["fraction"]?.double {
      details.append("\(Int(fraction * 100)) %")
    }
    return details
  }

  private static func guarded(_ event: CountdownEvent) -> [String] {
    var details = event.fields["state"]?.string.map { [$0] } ?? []
    if let view = event.throttle {
      details.append("\(view.remaining) of \(view.limit) left")
      if event.name == .refused { details.append("try again in \(view.retryAfter.humanText)") }
    } else if let view = event.once {
      if let result = view.result { details.append(result) }
    } else if let view = event.gate {
      details += [view.action, view.payload].compactMap(\.self)
    } else if let view = event.debounce {
      if view.calls > 0 { details.append("× \(view.calls)") }
      if let payload = view.payload { details.append(payload) }
    }
    if let late = event.lateMicroseconds { details.append("\(late) µs late") }
    return details
  }

  private static func scope(_ event: CountdownEvent) -> [String] {
    guard let view = event.scope else {
      // What was emitted, and is handled by whoever watches.
      return ["name", "target", "phase", "payload"].compactMap { event.fields[$0]?.string }
    }
    var details = [view.state.rawValue]
    if let parent = view.parent { details.append("below \(parent)") }
    if let left = view.remainingTime { details.append("lease of \(left.humanText) left") }
    return details
  }

  private static func timer(_ event: CountdownEvent) -> [String] {
    var details: [String] = []
    if event.name == .fired {
      if let fired = event.fields["fired"]?.int { details.append("× \(fired)") }
      if let missed = event.fields["missed"]?.int, missed > 0 { details.append("\(missed) missed") }
      if let payload = event.fields["payload"]?.string { details.append(payload) }
      if let late = event.lateMicroseconds { details.append("\(late) µs late") }
    } else if let view = event.timer {
      details.append(view.state.rawValue)
      if view.state != .idle { details.append("due in \(view.remainingTime.humanText)") }
      if let every = view.every { details.append("every \(every.humanText)") }
    }
    return details
  }
}
