import Countdowns

extension SettingType where Value == [String: SendPolicy] {
  static var policies: SettingType {
    sections(
      "a policy", allowed: "policies by name", PolicyDraft.rules, from: PolicyDraft(),
      make: { name, draft, section in
        section.reporting { () throws(SendPolicy.Invalid) in
          try SendPolicy(
            name: name, draft.rules, unreachable: draft.unreachable, shadow: draft.shadow)
        }
      },
      draft: { policy in
        var rules = policy.rules
        if rules.ladder.isEmpty { rules.count = rules.plainCount }
        return PolicyDraft(rules: rules, unreachable: policy.unreachable, shadow: policy.shadow)
      })
  }
}

/// A policy as the file has it.
private struct PolicyDraft {
  var rules = SendPolicy.Rules()
  var unreachable: FleetSettings.Unreachable?
  var shadow: String?

  static let rules: [Setting<Self>] = [
    Setting("count", \.rules.count, optional: .count(1...Int(Int32.max))),
    Setting("every", \.rules.every, .interval),
    Setting("ladder", \.rules.ladder, .intervals),
    Setting("windows", \.rules.windows, .windows),
    Setting(
      "channels", \.rules.channels,
      .someOf("1 to 64 of letters, digits, '_', '.' and '-'", \.self, parse: name)),
    Setting("validity", \.rules.validity, optional: .interval),
    Setting(
      "attempts", \.rules.attempts, optional: .count(1...Int(SendPolicy.maximumAttempts))),
    Setting("lockout", \.rules.lockout, .intervals),
    Setting("guesses", \.rules.guesses, optional: .window),
    Setting("refunds", \.rules.refunds, optional: .window),
    Setting("limits", \.rules.limits, limits),
    Setting("attempt-limits", \.rules.attemptLimits, limits),
    Setting("on-resend", \.rules.onResend, .choice()),
    Setting("title", \.rules.title, optional: .text),
    Setting("ready-title", \.rules.readyTitle, optional: .text),
    Setting("unreachable", \.unreachable, optional: .choice()),
    Setting(
      "shadow", \.shadow,
      optional: SettingType(allowed: "the name of another policy", parse: name, show: \.self)),
  ]

  private static var limits: SettingType<[String]> {
    .someOf("the name of a limit in throttles", \.self, parse: name)
  }

  @Sendable private static func name(_ text: String) -> String? {
    SendPolicy.isName(text) ? text : nil
  }
}

extension SettingType where Value == Interval {
  /// As a duration, but not rounded.
  static var interval: SettingType {
    SettingType(
      schema: .duration, allowed: DurationText.allowed, parse: DurationText.parse(written:),
      show: \.text)
  }
}

extension SettingType where Value == [Interval] {
  fileprivate static var intervals: SettingType {
    someOf(DurationText.allowed, \.text, parse: DurationText.parse(written:))
  }
}

extension SettingType where Value == [UInt8] {
  fileprivate static var text: SettingType {
    SettingType(
      allowed: "a text", parse: { Array($0.utf8) }, show: { String(decoding: $0, as: UTF8.self) })
  }
}
