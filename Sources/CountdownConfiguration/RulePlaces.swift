import Countdowns

/// The places of rules in a file, to report problems of their combination.
struct RulePlaces {
  private var places: [String: ValueReader] = [:]

  subscript(rule: String) -> ValueReader? {
    get { places[rule] }
    set { places[rule] = newValue }
  }

  /// Reports problems at the places of their rules, or else of the section.
  func report(_ problems: [SendPolicy.Problem], in section: ValueReader) {
    for problem in problems {
      let rule = problem.rule.prefix { $0 != "[" }
      (places[problem.rule] ?? places[String(rule)] ?? section).report(problem.text)
    }
  }

  /// Reads a list that is not empty, and remembers the places of its items.
  mutating func list<Item>(
    _ value: ValueReader, _ allowed: String, _ parse: (String) -> Item?
  ) -> [Item] {
    guard let items = value.items(allowed: "a list, each item " + allowed) else { return [] }
    if items.isEmpty { value.report("empty; allowed: a list, each item " + allowed) }
    return items.enumerated().compactMap { index, item in
      places["\(value.name.split(separator: ".").last ?? "")[\(index)]"] = item
      return item.value(allowed, parse)
    }
  }

  mutating func windows(_ value: ValueReader) -> [SendPolicy.Window] {
    list(value, "LIMIT/DURATION, such as 5/10m") { text in
      Self.rate(text).map { SendPolicy.Window(limit: $0.count, length: $0.period) }
    }
  }

  /// Parses a count and a duration, such as `5/10m`.
  static func rate(_ text: String) -> (count: Int, period: Interval)? {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, let count = wholeNumber(String(parts[0])),
      let period = DurationText.parse(written: String(parts[1]))
    else { return nil }
    return (count, period)
  }
}
