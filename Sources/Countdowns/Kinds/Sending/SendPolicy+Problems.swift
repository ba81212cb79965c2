extension SendPolicy {
  /// A problem of a rule: the rule's name in the configuration, and a message.
  package struct Problem: Error, Equatable {
    package let rule: String
    package let text: String
  }

  package static let maximumSteps = 64
  package static let maximumWindows = 8
  /// The highest limit of a window. Each send in it is stored, so this bounds the memory of a key.
  package static let maximumInWindow = 1_000
  package static let maximumAttempts: UInt32 = 1_000
}

extension SendPolicy.Rules {
  package var plainCount: UInt32 { count ?? 60 }

  /// All problems of the rules, alone and in combination; empty for valid rules.
  package var problems: [SendPolicy.Problem] {
    var found: [SendPolicy.Problem] = []
    func report(_ rule: String, _ text: String) { found.append(.init(rule: rule, text: text)) }

    if every < .milliseconds(1) || every > .longest {
      report("every", "a step is at least 1ms, and at most 3650d")
      return found
    }
    if Countdown.Plan(count: plainCount, every: every) == nil {
      report("count", "count is 1 to 2147483647, and count times every at most 3650d")
    }
    if count != nil, !ladder.isEmpty {
      report("count", "the ladder sets the length already; drop one of them")
    }
    if ladder.count > SendPolicy.maximumSteps {
      report("ladder", "at most \(SendPolicy.maximumSteps) cooldowns; the last one repeats")
    }
    for (index, cooldown) in ladder.enumerated() {
      if let text = problem(ofCooldown: cooldown) { report("ladder[\(index)]", text) }
    }
    found += windowProblems
    found += channelProblems + lockoutProblems + guessProblems
    if let refunds { found += problems(of: refunds, "refunds") }
    found += problems(ofLimits: limits, "limits") + attemptLimitProblems
    if let validity, validity < .milliseconds(1) || validity > .longest {
      report("validity", "a code is valid for 1ms to 3650d")
    }
    if let attempts {
      if !(1...SendPolicy.maximumAttempts).contains(attempts) {
        report("attempts", "1 to \(SendPolicy.maximumAttempts)")
      }
      found += missingValidity("attempts")
    }
    if let title, let text = Title.problem(title) { report("title", text) }
    if (readyTitle?.count ?? 0) > Title.maximumBytes {
      report("ready-title", "at most \(Title.maximumBytes) bytes")
    }
    return found
  }

  private func problem(ofCooldown cooldown: Interval) -> String? {
    guard cooldown >= every, cooldown <= .longest else {
      return "a cooldown is at least one step (every, \(every.text)), and at most 3650d"
    }
    let (steps, rest) = cooldown.microseconds.quotientAndRemainder(
      dividingBy: every.microseconds)
    guard rest == 0, steps <= Int64(Int32.max) else {
      return "\(cooldown.text) is not a whole number of steps (every, \(every.text))"
    }
    guard let longest = windows.map(\.length).max(), cooldown >= longest else { return nil }
    return "\(cooldown.text) is not shorter than the longest window, \(longest.text): when it is "
      + "over, sends would have started over"
  }

  private var windowProblems: [SendPolicy.Problem] {
    var found = SendPolicy.Window.problems(of: windows, atMost: SendPolicy.maximumInWindow)
    // Without a ladder, the same rule applies to the only cooldown.
    let plain = every.microseconds.multipliedReportingOverflow(by: Int64(plainCount))
    if ladder.isEmpty, found.isEmpty, !plain.overflow, let longest = windows.map(\.length).max(),
      plain.partialValue >= longest.microseconds
    {
      let cooldown = Interval(microseconds: plain.partialValue)
      found.append(
        .init(
          rule: "windows",
          text: "the longest window, \(longest.text), is not longer than the cooldown, "
            + "\(cooldown.text): when that is over, sends would have started over"))
    }
    return found
  }

  private func problems(ofLimits limits: [String], _ rule: String) -> [SendPolicy.Problem] {
    var found: [SendPolicy.Problem] = []
    if limits.count > LimitRules.maximumAtOnce {
      found.append(.init(rule: rule, text: "at most \(LimitRules.maximumAtOnce)"))
    }
    for (index, name) in limits.enumerated() {
      if !SendPolicy.isName(name) {
        found.append(
          .init(rule: "\(rule)[\(index)]", text: "1 to 64 of letters, digits, '_', '.' and '-'"))
      } else if limits[..<index].contains(name) {
        found.append(.init(rule: "\(rule)[\(index)]", text: "\(name) is named twice"))
      }
    }
    return found
  }

  private var attemptLimitProblems: [SendPolicy.Problem] {
    guard !attemptLimits.isEmpty else { return [] }
    return problems(ofLimits: attemptLimits, "attempt-limits") + missingValidity("attempt-limits")
  }

  private var lockoutProblems: [SendPolicy.Problem] {
    var found: [SendPolicy.Problem] = []
    if lockout.count > SendPolicy.maximumSteps {
      found.append(
        .init(rule: "lockout", text: "at most \(SendPolicy.maximumSteps) steps; the last repeats"))
    }
    for (index, step) in lockout.enumerated()
    where step < .milliseconds(1) || step > .longest {
      found.append(.init(rule: "lockout[\(index)]", text: "1ms to 3650d"))
    }
    if !lockout.isEmpty, attempts == nil {
      found.append(
        .init(rule: "lockout", text: "lockout needs attempts: how often a code may be tried"))
    }
    return found
  }

  private var guessProblems: [SendPolicy.Problem] {
    guard let guesses else { return [] }
    return problems(of: guesses, "guesses") + missingValidity("guesses")
  }

  private func missingValidity(_ rule: String) -> [SendPolicy.Problem] {
    validity != nil
      ? [] : [.init(rule: rule, text: "\(rule) needs validity: how long a code is valid")]
  }

  private func problems(of window: SendPolicy.Window, _ rule: String) -> [SendPolicy.Problem] {
    SendPolicy.Window.problems(of: [window], atMost: SendPolicy.maximumInWindow, rule).map {
      .init(rule: rule, text: $0.text)
    }
  }

  private var channelProblems: [SendPolicy.Problem] {
    var found: [SendPolicy.Problem] = []
    if channels.count > SendPolicy.maximumSteps {
      found.append(.init(rule: "channels", text: "at most \(SendPolicy.maximumSteps)"))
    }
    if !channels.isEmpty, windows.isEmpty {
      found.append(
        .init(
          rule: "channels",
          text: "channels need windows: they start over once the longest one is empty"))
    }
    for (index, channel) in channels.enumerated() where !SendPolicy.isName(channel) {
      found.append(
        .init(rule: "channels[\(index)]", text: "1 to 64 of letters, digits, '_', '.' and '-'"))
    }
    return found
  }
}

extension SendPolicy.Window {
  /// Returns the problems of the windows of one rule.
  ///
  /// - Parameters:
  ///   - maximum: the highest limit of a window.
  ///   - noun: what a window allows.
  ///   - hint: what to do instead, for a higher limit.
  static func problems(
    of windows: [SendPolicy.Window], atMost maximum: Int, _ noun: String = "sends",
    beyond hint: String = ""
  ) -> [SendPolicy.Problem] {
    var found: [SendPolicy.Problem] = []
    func report(_ index: Int, _ text: String) {
      found.append(.init(rule: "windows[\(index)]", text: text))
    }
    if windows.count > SendPolicy.maximumWindows {
      found.append(.init(rule: "windows", text: "at most \(SendPolicy.maximumWindows)"))
    }
    for (index, window) in windows.enumerated() {
      if !(1...maximum).contains(window.limit) {
        report(index, "a window allows 1 to \(maximum) \(noun)\(hint)")
      }
      if window.length < .milliseconds(1) || window.length > .longest {
        report(index, "a window is 1ms to 3650d long")
      }
      for other in windows[..<index] {
        let (short, long) = window.length < other.length ? (window, other) : (other, window)
        if short.length == long.length {
          report(index, "\(window.text) and \(other.text) are equally long; drop one of them")
        } else if long.limit <= short.limit {
          report(
            index,
            "\(long.text) allows no more than \(short.text), which so is never reached; a longer "
              + "window needs a higher limit")
        }
      }
    }
    return found
  }
}
