import Countdowns
import SeededRandom

extension SendPolicy {
  /// Policies of all kinds, the same ones in each history.
  static let samples: [SendPolicy] = {
    var random = SeededGenerator(seed: 1)
    return (1...40).map { sample("policy-\($0)", &random) }
  }()

  private static func sample(_ name: String, _ random: inout SeededGenerator) -> SendPolicy {
    while true {
      if let policy = try? SendPolicy(name: name, rules(&random)) { return policy }
    }
  }

  /// Returns random rules, which may contradict each other.
  private static func rules(_ random: inout SeededGenerator) -> Rules {
    func number<T: FixedWidthInteger>(_ range: ClosedRange<T>) -> T {
      T.random(in: range, using: &random)
    }
    var rules = Rules()
    rules.every = .milliseconds(number(0...1) == 0 ? 100 : 1_000)
    if number(0...1) == 0 {
      rules.ladder = (1...number(1...4)).map { _ in rules.every * number(1...9) }
    } else {
      rules.count = number(1...9)
    }
    // Some windows end within the usual steps of time, others last for hours.
    let unit: Int64 = [500, 5_000, 300_000].randomElement(using: &random)!
    for _ in 0..<number(0...3) {
      let length = Interval.milliseconds(unit * number(1...60))
      rules.windows.append(Window(limit: number(1...6), length: length))
    }
    if number(0...1) == 0 {
      rules.channels = Array(["sms", "call", "mail", "post"].prefix(number(1...4)))
    }
    if number(0...3) > 0 {
      rules.validity = .milliseconds(unit / 2 * number(1...40))
      if number(0...3) > 0 { rules.attempts = number(1...3) }
      if rules.attempts != nil, number(0...3) > 0 {
        rules.lockout = (1...number(1...3)).map { _ in .milliseconds(unit / 4 * number(1...20)) }
      }
    }
    rules.onResend = number(0...1) == 0 ? .keep : .replace
    if rules.validity != nil, number(0...2) > 0 {
      rules.guesses = Window(
        limit: number(1...5), length: .milliseconds(unit * number(1...60)))
    }
    if number(0...2) > 0 {
      rules.refunds = Window(
        limit: number(1...3), length: .milliseconds(unit * number(1...60)))
    }
    return rules
  }
}

extension SendPolicy: CustomStringConvertible {
  package var description: String {
    let windows = rules.windows.map(\.text).joined(separator: ", ")
    let ladder = rules.ladder.map(\.text).joined(separator: ", ")
    let lockout = rules.lockout.map(\.text).joined(separator: ", ")
    return "\(name) (\(rules.plainCount) × \(rules.every.text), ladder [\(ladder)], "
      + "windows [\(windows)], "
      + "\(rules.channels.count) channels, validity \(rules.validity?.text ?? "none"), "
      + "attempts \(rules.attempts.map { "\($0)" } ?? "any"), lockout [\(lockout)], "
      + "guesses \(rules.guesses?.text ?? "any"), "
      + "refunds \(rules.refunds?.text ?? "any"), \(rules.onResend))"
  }
}
