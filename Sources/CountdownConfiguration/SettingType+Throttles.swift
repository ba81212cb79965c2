import Countdowns
import Wire

extension SettingType where Value == [String: LimitRules] {
  static var throttles: SettingType {
    named(
      "limits by name", rules: LimitReader.rules,
      read: { name, section in
        var limit = LimitReader(section)
        return limit.rules(name)
      }, list: { $0.rules.list })
  }
}

/// Reads one named limit.
private struct LimitReader {
  private static let names = ["rate", "burst", "windows", "without-last", "global", "passed"]
  /// The rules as properties of a JSON Schema.
  static let rules: [RESPValue.Pair] = names.map { name in
    switch name {
    case "burst", "without-last": .of(name, .map([.of("type", "integer"), .of("minimum", 1)]))
    case "windows": .of(name, .map([.of("type", "array")]))
    case "passed": .of(name, .map([.of("type", "object")]))
    case "global": .of(name, .map([.of("type", "boolean")]))
    default: .of(name, .map([.of("type", "string")]))
    }
  }
  private static let passedNames = ["least", "of", "in", "block"]

  private let section: ValueReader
  private var places = RulePlaces()
  private var rules = LimitRules.Rules()
  private var rate: (count: Int, period: Interval)?
  private var burst: Int?

  init(_ section: ValueReader) { self.section = section }

  private var problemCount: Int { section.problems.problems.count }

  /// Returns the rules, or nil after reporting all problems.
  mutating func rules(_ name: String) -> LimitRules? {
    let before = problemCount
    if !SendPolicy.isName(name) {
      section.report("the name of a limit has 1 to 64 of letters, digits, '_', '.' and '-'")
    }
    for (key, value) in section.entries(allowed: Self.names.joined(separator: ", ")) {
      places[key] = value
      read(key, value)
    }
    readRate()
    guard problemCount == before else { return nil }
    do {
      return try LimitRules(rules)
    } catch {
      places.report(error.problems, in: section)
      return nil
    }
  }

  private mutating func read(_ key: String, _ value: ValueReader) {
    switch key {
    case "rate":
      rate = value.value("COUNT/DURATION, such as 20/1h") { RulePlaces.rate($0) }
    case "burst": burst = number(value, 1...Int(Throttle.Rate.most))
    case "windows": rules.windows = places.windows(value)
    case "without-last": rules.withoutLast = number(value, 1...LimitRules.mostWithoutLast)
    case "global":
      let choices = ["true": true, "yes": true, "false": false, "no": false]
      rules.isGlobal = value.value("true or false") { choices[$0] } ?? false
    case "passed": rules.passed = passed(value)
    default: value.reportUnknown(key, known: Self.names)
    }
  }

  private mutating func readRate() {
    guard let rate else {
      if burst != nil { places["burst"]?.report("burst needs rate: how many come back, and when") }
      return
    }
    guard let burst else {
      places["rate"]?.report("rate needs burst: how many are allowed at once")
      return
    }
    rules.rate = Throttle.Rate(burst: Int64(burst), count: Int64(rate.count), period: rate.period)
    if rules.rate == nil {
      places["rate"]?.report(
        "a rate is 1 to \(Throttle.Rate.most) in 1ms to 3650d, in which all of burst comes back")
    }
  }

  private mutating func passed(_ value: ValueReader) -> LimitRules.Passed? {
    let before = problemCount
    var passed = LimitRules.Passed(least: 0, of: 0, within: .zero, block: .zero)
    var missing = Self.passedNames
    for (key, item) in value.entries(allowed: Self.passedNames.joined(separator: ", ")) {
      places["passed.\(key)"] = item
      missing.removeAll { $0 == key }
      switch key {
      case "least":
        passed.least =
          item.value("a share of codes, 1% to 100%") { text in
            guard text.hasSuffix("%"), let share = wholeNumber(String(text.dropLast())),
              (1...100).contains(share)
            else { return nil }
            return UInt32(share)
          } ?? 1
      case "of": passed.of = UInt32(number(item, 1...LimitRules.mostInWindow) ?? 1)
      case "in": passed.within = interval(item)
      case "block": passed.block = interval(item)
      default: item.reportUnknown(key, known: Self.passedNames)
      }
    }
    if problemCount == before, !missing.isEmpty {
      value.report(
        "needs \(missing.joined(separator: ", ")), such as "
          + "{least: 20%, of: 50, in: 1h, block: 1h}")
    }
    return problemCount == before ? passed : nil
  }

  private func interval(_ value: ValueReader) -> Interval {
    value.value(DurationText.allowed, DurationText.parse(written:)) ?? .zero
  }

  private func number(_ value: ValueReader, _ range: ClosedRange<Int>) -> Int? {
    var number = range.lowerBound
    let before = problemCount
    SettingType<Int>.count(range).read(&number, value)
    return problemCount == before ? number : nil
  }
}

extension LimitRules.Rules {
  /// The given rules, in the form in which they can be read back.
  fileprivate var list: [(name: String, value: String)] {
    let all: [(String, String?)] = [
      ("rate", rate.map { "\($0.count)/\($0.period.text)" }),
      ("burst", rate.map { "\($0.burst)" }),
      ("windows", windows.isEmpty ? nil : windows.map(\.text).joined(separator: ",")),
      ("without-last", withoutLast.map { "\($0)" }), ("global", isGlobal ? "true" : nil),
      ("passed.least", passed.map { "\($0.least)%" }), ("passed.of", passed.map { "\($0.of)" }),
      ("passed.in", passed?.within.text), ("passed.block", passed?.block.text),
    ]
    return all.compactMap { name, value in value.map { (name, $0) } }
  }
}
