import Countdowns
import Wire

/// The human-readable description of a policy.
enum PolicyText {
  /// - Parameter throttles: the named limits of the configuration.
  static func lines(
    _ policy: SendPolicy, throttles: [String: LimitRules] = [:], style: Style
  ) -> [String] {
    let parts = [
      sends(policy), windows(policy), codes(policy), lockout(policy), guesses(policy),
      refunds(policy), limits(policy.rules.limits, of: "send", throttles),
      limits(policy.rules.attemptLimits, of: "attempt", throttles), titles(policy), fleet(policy),
    ]
    return [style.bold(policy.name)] + parts.joined().map { "  " + $0 }
  }

  /// Returns when each send is possible at the earliest, apart from windows.
  private static func sends(_ policy: SendPolicy) -> [String] {
    let rules = policy.rules
    let count = rules.channels.isEmpty ? max(rules.ladder.count, 1) + 1 : rules.channels.count
    var lines = (1...count).map { number in
      let over = rules.channels.isEmpty ? "" : " (\(rules.channels[number - 1]))"
      let isLast = rules.channels.isEmpty && number == count
      let name = ordinal(number) + " send" + (isLast ? " and later" : "") + over
      guard number > 1 else { return name + ": now" }
      let cooldown = policy.cooldown(after: UInt32(number - 1)).humanText
      return name + ": \(cooldown) after the \(isLast ? "one before" : ordinal(number - 1))"
    }
    if !rules.channels.isEmpty {
      lines.append("then none for \(policy.longest.humanText) after the last one")
    }
    return lines
  }

  private static func windows(_ policy: SendPolicy) -> [String] {
    var lines = policy.rules.windows.sorted { $0.length < $1.length }.map { window in
      "at most \(window.limit) in any \(window.length.humanText)"
    }
    if !policy.rules.windows.isEmpty {
      lines.append("after \(policy.longest.humanText) without a send it starts over with the 1st")
    }
    return lines
  }

  private static func codes(_ policy: SendPolicy) -> [String] {
    guard let validity = policy.rules.validity else {
      return ["code validity: not set"]
    }
    let times =
      switch policy.rules.attempts {
      case nil: ""
      case 1: " and may be tried once"
      case let maximum?: " and may be tried \(maximum) times"
      }
    let earlier =
      switch policy.rules.onResend {
      case .keep: "earlier codes stay valid after a resend"
      case .replace: "a resend makes earlier codes expire"
      }
    return ["each code is valid for \(validity.humanText)\(times); \(earlier)"]
  }

  private static func lockout(_ policy: SendPolicy) -> [String] {
    let steps = policy.rules.lockout.map(\.humanText)
    guard !steps.isEmpty else { return [] }
    let text = steps.joined(separator: ", then ")
    return ["once a code was tried too often, nothing is sent for " + text]
  }

  private static func guesses(_ policy: SendPolicy) -> [String] {
    guard let window = policy.rules.guesses else { return [] }
    return [
      "all codes of a key together may be tried \(window.limit) times in any "
        + "\(window.length.humanText); then nothing is sent either"
    ]
  }

  private static func refunds(_ policy: SendPolicy) -> [String] {
    guard let window = policy.rules.refunds else { return [] }
    return [
      "at most \(window.limit) failed sends are given back in any \(window.length.humanText)"
    ]
  }

  /// - Parameter request: what is charged to the limits.
  private static func limits(
    _ names: [String], of request: String, _ throttles: [String: LimitRules]
  ) -> [String] {
    names.flatMap { name -> [String] in
      guard let rules = throttles[name]?.rules else {
        return ["each \(request) counts for \(name)"]
      }
      let key =
        rules.isGlobal
        ? "for everybody together"
        : rules.droppedSuffixLength.map {
          "for all keys that differ only in the last \($0) characters"
        }
          ?? "for each key that \(request == "send" ? "START" : "ATTEMPT") gives"
      var parts = rules.windows.sorted { $0.length < $1.length }.map { window in
        "at most \(window.limit) in any \(window.length.humanText)"
      }
      if let rate = rules.rate {
        parts.append(
          "at most \(rate.burst) at once, and \(rate.count) come back in \(rate.period.humanText)")
      }
      var lines = ["each \(request) counts for \(name), \(key): " + parts.joined(separator: "; ")]
      if let passed = rules.passed {
        lines.append(
          "\(name) refuses for \(passed.block.humanText) if fewer than \(passed.least)% of its "
            + "newest \(passed.of) codes of \(passed.within.humanText) are entered")
      }
      return lines
    }
  }

  private static func titles(_ policy: SendPolicy) -> [String] {
    var lines: [String] = []
    if let title = policy.rules.title {
      let cooldown = policy.cooldown(after: 1)
      let steps = cooldown.microseconds / policy.rules.every.microseconds
      let text = Title.text(title, remaining: steps, left: cooldown)
      lines.append("title during the cooldown: " + decoded(text))
    }
    if let title = policy.rules.readyTitle {
      lines.append("title when ready: " + decoded(title))
    }
    return lines
  }

  private static func fleet(_ policy: SendPolicy) -> [String] {
    switch policy.unreachable {
    case nil: []
    case .refuse: ["while a fleet's servers cannot be reached: nothing is sent"]
    case .local:
      ["while a fleet's servers cannot be reached: each host decides by what it knows"]
    }
  }

  private static func decoded(_ bytes: [UInt8]) -> String {
    String(decoding: bytes, as: UTF8.self).printable
  }

  static func ordinal(_ number: Int) -> String {
    let isTeen = (11...13).contains(number % 100)
    switch number % 10 {
    case 1 where !isTeen: return "\(number)st"
    case 2 where !isTeen: return "\(number)nd"
    case 3 where !isTeen: return "\(number)rd"
    default: return "\(number)th"
    }
  }
}
