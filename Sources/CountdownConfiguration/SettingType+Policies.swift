import Countdowns
import Wire

extension SettingType where Value == [String: SendPolicy] {
  static var policies: SettingType {
    named(
      "policies by name", rules: PolicyReader.rules,
      read: { name, section in
        var policy = PolicyReader(section)
        return policy.policy(name)
      }, list: { $0.list })
  }
}

/// Reads one policy, and remembers the place of each rule, to report problems of their combination.
private struct PolicyReader {
  private static let names = [
    "count", "every", "ladder", "windows", "channels", "validity", "attempts", "lockout",
    "on-resend", "limits", "shadow", "title", "ready-title", "unreachable",
  ]
  /// The rules as properties of a JSON Schema.
  static let rules: [RESPValue.Pair] = names.map { name in
    switch name {
    case "count", "attempts": .of(name, .map([.of("type", "integer"), .of("minimum", 1)]))
    case "every", "validity": .of(name, .map(.duration))
    case "ladder", "windows", "channels", "lockout", "limits":
      .of(name, .map([.of("type", "array")]))
    case "on-resend": .of(name, .map(SettingType<SendPolicy.OnResend>.choice().schema))
    case "unreachable": .of(name, .map(SettingType<FleetSettings.Unreachable>.choice().schema))
    default: .of(name, .map([.of("type", "string")]))
    }
  }

  private static let channel = "1 to 64 of letters, digits, '_', '.' and '-'"

  private let section: ValueReader
  private var rules = SendPolicy.Rules()
  private var unreachable: FleetSettings.Unreachable?
  private var shadow: String?
  private var places = RulePlaces()

  init(_ section: ValueReader) { self.section = section }

  /// Returns the policy, or nil after reporting all problems.
  mutating func policy(_ name: String) -> SendPolicy? {
    let before = section.problems.problems.count
    if !SendPolicy.isName(name) {
      section.report("the name of a policy has 1 to 64 of letters, digits, '_', '.' and '-'")
    }
    for (key, value) in section.entries(allowed: Self.names.joined(separator: ", ")) {
      places[key] = value
      read(key, value)
    }
    // Without the unreadable rules, a check of the combination would report wrong problems.
    guard section.problems.problems.count == before else { return nil }
    do {
      return try SendPolicy(name: name, rules, unreachable: unreachable, shadow: shadow)
    } catch {
      places.report(error.problems, in: section)
      return nil
    }
  }

  private mutating func read(_ key: String, _ value: ValueReader) {
    switch key {
    case "count": number(value, 1...Int(Int32.max)).map { rules.count = UInt32($0) }
    case "every": interval(value).map { rules.every = $0 }
    case "ladder":
      rules.ladder = places.list(value, DurationText.allowed, DurationText.parse(written:))
    case "windows": rules.windows = places.windows(value)
    case "channels":
      rules.channels = places.list(value, Self.channel) { SendPolicy.isName($0) ? $0 : nil }
    case "limits":
      rules.limits = places.list(value, "the name of a limit in throttles") {
        SendPolicy.isName($0) ? $0 : nil
      }
    case "lockout":
      rules.lockout = places.list(value, DurationText.allowed, DurationText.parse(written:))
    case "validity": rules.validity = interval(value)
    case "attempts":
      number(value, 1...Int(SendPolicy.mostAttempts)).map { rules.attempts = UInt32($0) }
    case "on-resend": SettingType<SendPolicy.OnResend>.choice().read(&rules.onResend, value)
    case "title": rules.title = value.scalar(allowed: "a text").map { Array($0.utf8) }
    case "ready-title": rules.readyTitle = value.scalar(allowed: "a text").map { Array($0.utf8) }
    case "shadow":
      shadow = value.value("the name of another policy") { SendPolicy.isName($0) ? $0 : nil }
    case "unreachable":
      var choice = FleetSettings.Unreachable.refuse
      SettingType.choice().read(&choice, value)
      unreachable = choice
    default: value.reportUnknown(key, known: Self.names)
    }
  }

  private func number(_ value: ValueReader, _ range: ClosedRange<Int>) -> Int? {
    var number = range.lowerBound
    let before = value.problems.problems.count
    SettingType<Int>.count(range).read(&number, value)
    return value.problems.problems.count == before ? number : nil
  }

  private func interval(_ value: ValueReader) -> Interval? {
    value.value(DurationText.allowed, DurationText.parse(written:))
  }
}

extension SendPolicy {
  /// The given rules, in the form in which they can be read back.
  fileprivate var list: [(name: String, value: String)] {
    rules.list + (unreachable.map { [("unreachable", $0.rawValue)] } ?? [])
      + (shadow.map { [("shadow", $0)] } ?? [])
  }
}

extension SendPolicy.Rules {
  fileprivate var list: [(name: String, value: String)] {
    let all: [(String, String?)] = [
      ("count", ladder.isEmpty ? "\(plainCount)" : nil), ("every", every.text),
      ("ladder", ladder.isEmpty ? nil : ladder.map(\.text).joined(separator: ",")),
      ("windows", windows.isEmpty ? nil : windows.map(\.text).joined(separator: ",")),
      ("channels", channels.isEmpty ? nil : channels.joined(separator: ",")),
      ("validity", validity?.text), ("attempts", attempts.map { "\($0)" }),
      ("lockout", lockout.isEmpty ? nil : lockout.map(\.text).joined(separator: ",")),
      ("limits", limits.isEmpty ? nil : limits.joined(separator: ",")),
      ("on-resend", onResend.rawValue),
      ("title", title.map { String(decoding: $0, as: UTF8.self) }),
      ("ready-title", readyTitle.map { String(decoding: $0, as: UTF8.self) }),
    ]
    return all.compactMap { name, value in value.map { (name, $0) } }
  }
}
