import Countdowns
import Wire

extension SettingType where Value == [String: LimitRules] {
  static var throttles: SettingType {
    sections(
      "a limit", allowed: "limits by name", LimitDraft.rules, from: LimitDraft(),
      make: { $1.limit($2) }, draft: { LimitDraft($0.rules) })
  }
}

/// A named limit as the file has it: its rate has two rules.
private struct LimitDraft {
  var rules = LimitRules.Rules()
  var rate: SendPolicy.Window?
  var burst: UInt32?

  init() {}

  init(_ rules: LimitRules.Rules) {
    self.rules = rules
    rate = rules.rate.map { SendPolicy.Window(limit: Int($0.count), length: $0.period) }
    burst = rules.rate?.burst
  }

  static let rules: [Setting<Self>] = [
    Setting(
      "rate", \.rate,
      optional: SettingType(
        allowed: "COUNT/DURATION, such as 20/1h", parse: SendPolicy.Window.init(written:),
        show: \.text)),
    Setting("burst", \.burst, optional: .count(1...Int(Throttle.Rate.maximum))),
    Setting("windows", \.rules.windows, .windows),
    Setting(
      "without-last", \.rules.droppedSuffixLength,
      optional: .count(1...LimitRules.maximumDroppedSuffixLength)),
    Setting("global", \.rules.isGlobal, .trueOrFalse),
    Setting("passed", \.rules.passed, .passed),
  ]

  /// Returns the limit, or nil after reporting what is wrong with the rules together.
  func limit(_ section: ValueReader) -> LimitRules? {
    var rules = rules
    switch (rate, burst) {
    case (nil, nil): break
    case (nil, _?):
      section.report(at: "burst", "burst needs rate: how many come back, and when")
      return nil
    case (_?, nil):
      section.report(at: "rate", "rate needs burst: how many are allowed at once")
      return nil
    case (let rate?, let burst?):
      rules.rate = Throttle.Rate(
        burst: Int64(burst), count: Int64(rate.limit), period: rate.length)
      guard rules.rate != nil else {
        section.report(
          at: "rate",
          "a rate is 1 to \(Throttle.Rate.maximum) in 1ms to 3650d, in which all of burst comes back"
        )
        return nil
      }
    }
    return section.reporting { [rules] () throws(SendPolicy.Invalid) in try LimitRules(rules) }
  }
}

/// `passed` as the file has it.
private struct PassedDraft {
  var least: UInt32?
  var of: UInt32?
  var within: Interval?
  var block: Interval?

  static let rules: [Setting<Self>] = [
    Setting(
      "least", \.least,
      optional: SettingType(
        allowed: "a share of codes, 1% to 100%",
        parse: { text in
          guard text.hasSuffix("%"), let share = wholeNumber(String(text.dropLast())) else {
            return nil
          }
          return (1...100).contains(share) ? UInt32(share) : nil
        }, show: { "\($0)%" })),
    Setting("of", \.of, optional: .count(1...LimitRules.maximumInWindow)),
    Setting("in", \.within, optional: .interval),
    Setting("block", \.block, optional: .interval),
  ]
}

extension SettingType where Value == LimitRules.Passed? {
  fileprivate static var passed: SettingType {
    SettingType(
      schema: PassedDraft.rules.schema(),
      read: { _, section in
        let before = section.problems.count
        let draft = PassedDraft.rules.read(section, into: PassedDraft())
        guard section.problems.count == before else { return nil }
        guard let least = draft.least, let of = draft.of, let within = draft.within,
          let block = draft.block
        else {
          let missing = PassedDraft.rules.filter { $0.list(draft).isEmpty }.map(\.name)
          section.report(
            "needs \(missing.joined(separator: ", ")), such as "
              + "{least: 20%, of: 50, in: 1h, block: 1h}")
          return nil
        }
        return .some(LimitRules.Passed(least: least, of: of, within: within, block: block))
      },
      list: { passed in
        guard let passed else { return [] }
        let draft = PassedDraft(
          least: passed.least, of: passed.of, within: passed.within, block: passed.block)
        return PassedDraft.rules.list(draft).map { (".\($0.name)", $0.value) }
      })
  }
}

extension SettingType where Value == Bool {
  /// Shown if it is true.
  fileprivate static var trueOrFalse: SettingType {
    let choices = ["true": true, "yes": true, "false": false, "no": false]
    return SettingType(
      schema: [.of("type", "boolean")], read: { $1.value("true or false") { choices[$0] } },
      list: { $0 ? [("", "true")] : [] })
  }
}

extension SettingType where Value == [SendPolicy.Window] {
  static var windows: SettingType {
    someOf(SendPolicy.Window.allowed, \.text, parse: SendPolicy.Window.init(written:))
  }
}

extension SettingType where Value == SendPolicy.Window {
  static var window: SettingType {
    SettingType(
      allowed: SendPolicy.Window.allowed, parse: SendPolicy.Window.init(written:), show: \.text)
  }
}

extension SendPolicy.Window {
  fileprivate static let allowed = "LIMIT/DURATION, such as 5/10m"

  /// Parses a count and a duration, such as `5/10m`.
  fileprivate init?(written text: String) {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, let count = wholeNumber(String(parts[0])),
      let period = DurationText.parse(written: String(parts[1]))
    else { return nil }
    self.init(limit: count, length: period)
  }
}
