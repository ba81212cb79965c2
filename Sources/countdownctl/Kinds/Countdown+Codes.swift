import CountdownClient

extension Countdown {
  static func line(_ view: CountdownView, after verb: String, style: Style) -> String {
    switch verb {
    case "start", "resend": return answer(view, style)
    case "attempt": return attempt(view, style)
    case "refund" where view.reason == .refunds:
      return style.yellow("refused")
        + "   no more sends of \(view.key.printable) are given back for a while"
    case "pass", "refund":
      guard view.accepted == true else { return attempt(view, style) }
      let done = verb == "pass" ? "passed" : "refunded"
      return style.green(view.reason == .repeated ? "\(done) before" : done) + "  "
        + line(view, style: style)
    case "forgive": return style.green("forgiven") + "  " + line(view, style: style)
    default: return line(view, style: style)
    }
  }

  /// Returns the text of an answer to START or RESEND.
  static func answer(_ view: CountdownView, _ style: Style) -> String {
    let key = view.key.printable
    let again = "try again in \(view.retryAfter.humanText)"
    let ready = "ready in \(view.timeLeft.humanText)\(style.generation(view.generation))"
    if view.accepted != false {
      guard view.reason != .repeated else {
        return style.yellow("repeated") + "  \(key) was accepted before; \(ready)"
      }
      let over = view.channel.map { " over \($0.printable)" } ?? ""
      return style.green("accepted")
        + "  \(key)\(over): \(ready)"
    }
    let why =
      switch view.reason {
      case _ where view.state == .paused:
        "is paused with \(view.retryAfter.humanText) left: resume it first"
      case .window: "has reached a limit of its policy: \(again)"
      case .exhausted: "has no channel left: \(again)"
      case .limit: "has no room in \(view.limit?.printable ?? "a limit"): \(again)"
      case .blocked: "is blocked by \(view.limit?.printable ?? "a limit"): \(again)"
      case .locked: "is locked, as a code was tried too often: \(again)"
      case .guesses: "has no guesses left for its codes: \(again)"
      default: "is in cooldown: \(again)"
      }
    return style.yellow("refused") + "   \(key) \(why)"
  }

  /// Returns the text of an answer to ATTEMPT.
  static func attempt(_ view: CountdownView, _ style: Style) -> String {
    let key = view.key.printable
    guard view.accepted == true else {
      let (again, limit) = (view.retryAfter.humanText, view.limit?.printable ?? "a limit")
      let why =
        switch view.reason {
        case .guesses: "cannot be tried: try again in \(again)"
        case .limit: "cannot be tried, as \(limit) has no room: try again in \(again)"
        case .blocked: "cannot be tried, as \(limit) is blocked: try again in \(again)"
        case .locked: "was tried too often; send a new one"
        case .passed: "was used"
        default: "has expired; send a new one"
        }
      return style.yellow("refused") + "   the code of \(key) \(why)"
    }
    if !view.codes.isEmpty {
      let generations = view.codes.map { String($0.generation) }.joined(separator: ", ")
      let codes = view.codes.count == 1 ? "1 code" : "\(view.codes.count) codes"
      return style.green("accepted")
        + "  \(codes) of \(key) may be checked, of generation \(generations)"
    }
    let left = view.attemptsLeft.map { "\($0) \($0 == 1 ? "attempt" : "attempts") left, " } ?? ""
    let good = view.expiresIn.map { "valid for \($0.humanText)" } ?? ""
    return style.green("accepted") + "  the code of \(key) may be checked; \(left)\(good)"
  }
}
