import CountdownClient

/// Views in words.
enum ViewText {
  /// The answer to START and RESEND.
  static func answer(_ view: CountdownView, _ style: Style) -> String {
    let key = view.key.printable
    let over = view.channel.map { " over \($0.printable)" } ?? ""
    let ready = "ready in \(view.remainingTime.humanText) (generation \(view.generation))"
    switch (view.accepted ?? true, view.reason) {
    case (true, .duplicate):
      return style.yellow("repeated") + "  \(key) was accepted before: send nothing; \(ready)"
    case (true, _):
      return style.green("accepted")
        + "  \(key)\(over) counts \(view.count) × \(view.every.humanText); \(ready)"
    case (false, _) where view.state == .paused:
      return style.yellow("refused")
        + "   \(key) is paused: not before \(view.retryAfter.humanText) after it goes on"
    case (false, .window):
      return style.yellow("refused")
        + "   \(key) has had as many as it may for now: try again in \(view.retryAfter.humanText)"
    case (false, .exhausted):
      return style.yellow("refused")
        + "   \(key) has no channel left: try again in \(view.retryAfter.humanText)"
    case (false, _):
      return style.yellow("refused")
        + "   \(key) still counts: try again in \(view.retryAfter.humanText)"
    }
  }

  /// The answer to ATTEMPT.
  static func attempt(_ view: CountdownView, _ style: Style) -> String {
    let key = view.key.printable
    guard view.accepted == true else {
      let why =
        switch view.reason {
        case .locked: "was tried too often; send a new one"
        case .passed: "was right before"
        default: "has expired; send a new one"
        }
      return style.yellow("refused") + "   the code of \(key) \(why)"
    }
    let left = view.attemptsLeft.map { "\($0) \($0 == 1 ? "attempt" : "attempts") left, " } ?? ""
    let good = view.expiresIn.map { "good for \($0.humanText)" } ?? ""
    return style.green("accepted") + "  the code of \(key) may be checked; \(left)\(good)"
  }

  /// A countdown in one line, after a command changed it.
  static func line(_ view: CountdownView, style: Style) -> String {
    let left = view.remainingTime == .zero ? "" : "  \(view.remainingTime.humanText) left"
    return "\(view.key.printable)  " + style.state(view.state.rawValue, view.state.rawValue) + left
      + "  (generation \(view.generation))"
  }

  static func line(_ view: HUDView, style: Style) -> String {
    var parts = [view.key.printable, style.state(view.state.rawValue, view.state.rawValue)]
    if let kind = view.kind { parts.append(kind) }
    if let fraction = view.fraction { parts.append("\(Int(fraction * 100)) %") }
    if let status = view.status { parts.append(status.printable) }
    if view.isDismissing, view.state != .hidden { parts.append("dismissing") }
    if view.isPaused { parts.append("paused") }
    if let left = view.remainingTime { parts.append("\(left.humanText) left") }
    if let end = view.end { parts.append("end: \(end)") }
    return parts.joined(separator: "  ") + "  (generation \(view.generation))"
  }

  static func line(_ view: TimerView, style: Style) -> String {
    let every = view.every.map { ", then every \($0.humanText)" } ?? ""
    return "\(view.key.printable)  " + style.state(view.state.rawValue, view.state.rawValue)
      + "  due in \(view.remainingTime.humanText)\(every)  (generation \(view.generation))"
  }

  static func line(_ view: ScopeView, style: Style) -> String {
    var parts = [view.key.printable, style.state(view.state.rawValue, view.state.rawValue)]
    if let parent = view.parent { parts.append("below \(parent.printable)") }
    if view.children > 0 { parts.append("\(view.children) below it") }
    if view.owned > 0 { parts.append("owns \(view.owned)") }
    if let left = view.remainingTime { parts.append("lease of \(left.humanText) left") }
    return parts.joined(separator: "  ") + "  (generation \(view.generation))"
  }

  static func line(_ view: NavigationView, style: Style) -> String {
    var parts = [view.key.printable, style.state(view.state.rawValue, view.state.rawValue)]
    if let reason = view.reason { parts.insert(style.yellow("refused: \(reason.rawValue)"), at: 0) }
    if !view.pages.isEmpty {
      parts.append(view.pages.map { $0.printable }.joined(separator: " › "))
    }
    if let fraction = view.fraction { parts.append("\(Int(fraction * 100)) %") }
    return parts.joined(separator: "  ") + "  (generation \(view.generation))"
  }

  static func line(_ view: PageView, style: Style) -> String {
    var parts = [view.key.printable, style.state(view.state.rawValue, view.state.rawValue)]
    if let reason = view.reason { parts.insert(style.yellow("refused: \(reason)"), at: 0) }
    if let items = view.items { parts.append("\(items) items") }
    if let message = view.message { parts.append(message.printable) }
    if !view.isVisible { parts.append("not on the screen") }
    if let left = view.remainingTime { parts.append("fails in \(left.humanText)") }
    return parts.joined(separator: "  ") + "  (generation \(view.generation))"
  }

  /// All fields of a view, names and values aligned.
  static func table(_ view: JSONValue, style: Style) -> String {
    guard case .object(let members) = view else { return view.text }
    let width = members.map(\.name.count).max() ?? 0
    return members.map { member in
      style.dim(DisplayWidth.fit(member.name, width)) + "  "
        + value(member.value, of: member.name, style: style)
    }.joined(separator: "\n")
  }

  private static func value(_ value: JSONValue, of name: String, style: Style) -> String {
    switch value {
    case .null: return style.dim("—")
    case .string(let text):
      return name == "state" ? style.state(text, text) : text.printable
    case .integer(let number) where name.hasSuffix("_unix_ms"):
      return "\(number)  " + style.dim(WallClock.text(unixMilliseconds: number))
    case .integer(let number) where name.hasSuffix("_ms"):
      return "\(number)  " + style.dim(Duration.milliseconds(number).humanText)
    case .integer, .number, .bool, .array, .object: return value.text
    }
  }
}
