/// The rules of a named limit: an entry of `throttles` in the configuration.
///
/// Immutable, so all keys of the limit share it.
package final class LimitRules: Sendable, Hashable {
  package let rules: Rules
  /// How long a send is on record: for the windows, and until its code counts for `passed`; zero
  /// if no send is recorded.
  package let retention: Interval
  /// How long a send counts at most: to windows and for `passed`, and until the rate has it back.
  package let memory: Interval
  /// The length of the longest window; zero without windows.
  package let longest: Interval
  /// The rate, or one that nothing reaches.
  package let rate: Throttle.Rate

  /// Throws the problems of the rules; see `Rules.problems`.
  package init(_ rules: Rules) throws(SendPolicy.Invalid) {
    let problems = rules.problems
    guard problems.isEmpty else { throw SendPolicy.Invalid(problems: problems) }
    self.rules = rules
    rate = rules.rate ?? .unlimited
    longest = rules.windows.map(\.length).max() ?? .zero
    retention = max(longest, rules.passed?.within ?? .zero)
    memory = max(retention, rules.rate?.fullTime ?? .zero)
  }

  /// Stops sends if too few of their codes are entered.
  package struct Passed: Hashable, Sendable {
    /// The least share of codes that must be entered, in percent.
    package var least: UInt32
    /// How many codes are looked at: the newest ones whose outcome is known.
    package var of: UInt32
    /// How old a send may be to be looked at.
    package var within: Interval
    /// How long sends are refused.
    package var block: Interval

    package init(least: UInt32, of: UInt32, within: Interval, block: Interval) {
      self.least = least
      self.of = of
      self.within = within
      self.block = block
    }

    /// The form in which messages have it: `20% of 50 in 1h`.
    package var text: String { "\(least)% of \(of) in \(within.text)" }
  }

  package struct Rules: Hashable, Sendable {
    package var rate: Throttle.Rate?
    package var windows: [SendPolicy.Window] = []
    /// Its key is the countdown's without so many characters at the end.
    package var droppedSuffixLength: Int?
    /// It has one key for all.
    package var isGlobal = false
    package var passed: Passed?

    package init() {}
  }

  /// The most that one request can take.
  package var maximumCost: Int64 {
    min(
      rules.rate.map { Int64($0.burst) } ?? Throttle.Rate.maximum,
      rules.windows.map { Int64($0.limit) }.min() ?? Throttle.Rate.maximum)
  }

  /// Returns whether a key, which begins with the name, is one of the limit: of a global one only
  /// the name with its colon is.
  func hasKey(_ key: Span<UInt8>) -> Bool {
    !rules.isGlobal || key.firstIndex(of: Self.colon) == key.count - 1
  }

  /// Whether START gives the key.
  package var needsKey: Bool { !rules.isGlobal && rules.droppedSuffixLength == nil }

  package static func == (a: LimitRules, b: LimitRules) -> Bool { a === b || a.rules == b.rules }
  package func hash(into hasher: inout Hasher) { hasher.combine(rules) }

  // MARK: Names and keys

  /// The highest limit of a window: each send in it is stored.
  package static let maximumInWindow = 10_000
  /// The highest in a fleet, which stores them all at once.
  package static let maximumInFleet = 1_000
  package static let maximumDroppedSuffixLength = 64
  /// The most limits of a policy, and of a request.
  package static let maximumAtOnce = 8

  private static let colon = UInt8(ascii: ":")

  /// Returns the key of a limit: its name, a colon, and whatever it is kept for.
  package static func key(_ name: String, _ rest: some Sequence<UInt8>) -> [UInt8] {
    Array(name.utf8) + CollectionOfOne(colon) + rest
  }

  /// Returns the name of a limit: its key up to the first colon; nil without one.
  package static func name(of key: Span<UInt8>) -> String? {
    key.firstIndex(of: colon).map { String(decoding: key.extracting(..<$0)) }
  }

  /// Returns whether a key belongs to the limit with a name.
  static func has(_ name: String, _ key: [UInt8]) -> Bool {
    let name = name.utf8
    return key.count > name.count && key[name.count] == colon && key.starts(with: name)
  }

  /// Returns a key without its last `droppedSuffixLength` characters (in UTF-8).
  package static func shortened(_ key: Span<UInt8>, by count: Int) -> [UInt8] {
    var end = key.count
    for _ in 0..<count where end > 0 {
      repeat { end -= 1 } while end > 0 && key[end] & 0xC0 == 0x80
    }
    return Array(key.extracting(..<end))
  }
}

extension LimitRules.Rules {
  /// All problems of the rules, alone and in combination; empty for valid rules.
  package var problems: [SendPolicy.Problem] {
    var found: [SendPolicy.Problem] = []
    func report(_ rule: String, _ text: String) { found.append(.init(rule: rule, text: text)) }

    if rate == nil, windows.isEmpty {
      report("", "limits nothing; it needs rate and burst, or windows")
    }
    found += SendPolicy.Window.problems(
      of: windows, atMost: LimitRules.maximumInWindow, beyond: "; for more, use rate and burst")
    if isGlobal, droppedSuffixLength != nil {
      report("without-last", "global has one key for all; drop one of them")
    }
    if let droppedSuffixLength,
      !(1...LimitRules.maximumDroppedSuffixLength).contains(droppedSuffixLength)
    {
      report("without-last", "1 to \(LimitRules.maximumDroppedSuffixLength) characters")
    }
    if let passed {
      if !(1...100).contains(passed.least) { report("passed.least", "1% to 100%") }
      if !(1...UInt32(LimitRules.maximumInWindow)).contains(passed.of) {
        report("passed.of", "1 to \(LimitRules.maximumInWindow)")
      }
      for (rule, length) in [("in", passed.within), ("block", passed.block)]
      where length < .milliseconds(1) || length > .longest {
        report("passed.\(rule)", "1ms to 3650d")
      }
    }
    return found
  }
}

extension Throttle.Rate {
  /// More than can ever be asked.
  static let unlimited = Throttle.Rate(burst: maximum, count: maximum, period: .milliseconds(1))!
}
