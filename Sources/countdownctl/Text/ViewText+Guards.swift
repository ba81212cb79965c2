import CountdownClient

extension ViewText {
  static func line(_ view: ThrottleView, style: Style) -> String {
    let left = "\(view.remaining) of \(view.limit) left"
    if view.accepted == false {
      return style.yellow("refused") + "   \(view.key.printable): try again in "
        + "\(view.retryAfter.humanText), \(left)"
    }
    let all = view.resetAfter == .zero ? "" : ", all again in \(view.resetAfter.humanText)"
    return word(view.accepted, style) + "\(view.key.printable)  \(left)\(all)"
  }

  static func line(_ view: OnceView, style: Style) -> String {
    let state = style.state(view.state.rawValue, view.state.rawValue)
    let result = view.result.map { ": \($0.printable)" } ?? ""
    if view.accepted == false {
      return style.yellow("refused") + "   \(view.key.printable) was asked for before; "
        + "\(state)\(result)"
    }
    return word(view.accepted, style) + "\(view.key.printable)  \(state)\(result)  known for "
      + "\(view.remainingTime.humanText)  (generation \(view.generation))"
  }

  static func line(_ view: GateView, style: Style) -> String {
    let state = style.state(view.state.rawValue, view.state.rawValue)
    if view.accepted == false {
      let (action, left) = (view.action?.printable ?? "", view.remainingTime?.humanText ?? "")
      return style.yellow("login") + "     \(view.key.printable): '\(action)' waits for \(left)  "
        + "(generation \(view.generation))"
    }
    let left = view.remainingTime.map { "  for \($0.humanText)" } ?? ""
    let word = view.accepted == nil ? "" : style.green("run") + "       "
    return word + "\(view.key.printable)  \(state)\(left)"
  }

  static func line(_ view: DebounceView, style: Style) -> String {
    let state = style.state(view.state.rawValue, view.state.rawValue)
    let calls =
      view.calls == 0 ? "nothing waits" : "\(view.calls) \(view.calls == 1 ? "call" : "calls")"
    let when = view.state == .waiting ? "fires in" : "quiet in"
    return "\(view.key.printable)  \(state)  \(calls), \(when) \(view.remainingTime.humanText)  "
      + "(generation \(view.generation))"
  }

  private static func word(_ accepted: Bool?, _ style: Style) -> String {
    accepted == nil ? "" : style.green("accepted") + "  "
  }
}
