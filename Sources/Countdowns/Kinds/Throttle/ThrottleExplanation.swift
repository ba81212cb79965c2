import Wire

/// Why a rate limit accepts or refuses: the reply to `THROTTLE WHY`.
package struct ThrottleExplanation: FieldRecord {
  private let view: ThrottleView
  private let why: String
  private let reason: Reason?
  /// How full the rate and each window are.
  private let limits: [String]

  /// - Parameter rules: the rules in force; nil if a command describes the limit.
  init(
    _ key: [UInt8], _ generation: Generation, _ machine: Throttle, by rules: LimitRules?,
    at now: Moment
  ) {
    if let rules {
      view = ThrottleView(key, generation, machine, by: rules, at: now)
    } else {
      view = ThrottleView(key, generation, machine, machine.answer(to: 1, at: now.boot), at: now)
    }
    limits = Self.limits(machine, by: rules, at: now.boot)
    let wait = Interval.milliseconds(view.retryAfterMS).humanText
    let refusal = rules.flatMap { machine.refusal(of: 1, by: $0, at: now.boot) }
    switch refusal?.reason {
    case .blocked:
      reason = .blocked
      let passed = rules?.rules.passed.map { ": fewer than \($0.text) were entered" } ?? ""
      why = "refused: blocked for \(wait)\(passed); THROTTLE UNBLOCK ends it"
    case .some:
      reason = .limit
      why = "refused: full; room in \(wait)"
    case nil where view.retryAfterMS > 0:
      reason = .rate
      why = "refused: exhausted; one comes back in \(wait)"
    case nil:
      reason = nil
      why =
        view.state == .idle ? "idle: nothing is used" : "accepted: \(view.remaining) left"
    }
  }

  /// Describes how full a limit is, part by part.
  static func limits(
    _ machine: Throttle, by rules: LimitRules?, at now: Instant
  ) -> [String] {
    var texts: [String] = []
    if rules == nil || rules?.rules.rate != nil {
      let rate = rules.map { machine.current(by: $0, at: now) } ?? machine
      let answer = rate.answer(to: 1, at: now)
      let used = Int64(rate.rate.burst) - answer.remaining
      let room = answer.isAccepted ? "" : "; room in \(answer.retryAfter.humanText)"
      let back = "\(rate.rate.count) come back in \(rate.rate.period.humanText)"
      texts.append("\(used) of \(rate.rate.burst) used; \(back)\(room)")
    }
    for window in rules?.rules.windows ?? [] {
      let (inside, changes) = machine.limit?.filling(window, at: now) ?? (0, nil)
      var text = "\(inside) of \(window.limit) in \(window.length.humanText)"
      if let changes {
        let left = (changes - now).humanText
        text += inside >= window.limit ? "; room in \(left)" : "; the oldest leaves in \(left)"
      }
      texts.append(text)
    }
    if let blocked = machine.blockedUntil, blocked > now {
      texts.append("blocked for \((blocked - now).humanText)")
    }
    return texts
  }

  package static var blank: ThrottleExplanation {
    ThrottleExplanation([], Generation(0), .blank, by: nil, at: .zero)
  }

  package func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.key(view.key)
    writer.choice("state", view.state, "The state.")
    writer.field("why", why, .text(), "One sentence: whether one more would be accepted.")
    writer.field(
      "reason", reason?.rawValue, .choice(Reason.self).orNull, "Why it would be refused.")
    writer.field(
      "retry_after_ms", view.retryAfterMS, .duration(), "The time until one more is accepted.")
    writer.field("limits", list: limits, "How full the rate and each window are.")
  }
}

extension Engine {
  /// Explains a rate limit. Returns nil for a key of which nothing is used and whose rules nobody
  /// has named.
  func explainThrottle(_ key: Span<UInt8>, at now: Moment) -> ThrottleExplanation? {
    let rules = rules(of: key)
    if let index = current(ThrottleKind.self, key, at: now) {
      let entity = throttles[index]
      return ThrottleExplanation(
        entity.key, entity.generation, entity.machine, by: rules ?? entity.machine.limit?.rules,
        at: now)
    }
    return rules.map {
      ThrottleExplanation(Array(key), Generation(0), Throttle($0, at: now.boot), by: $0, at: now)
    }
  }
}
