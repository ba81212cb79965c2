import ArgumentParser

/// A duration as the protocol spells it, checked here so that a typing error is a usage error.
struct DurationArgument: Equatable {
  let text: String
  /// 0 to 3650 days.
  let milliseconds: Int

  /// For `transform:`, which unlike `ExpressibleByArgument` says what is allowed.
  init(parsing argument: String) throws {
    let digits = argument.prefix { $0.isASCII && $0.isNumber }
    let units = ["": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000]
    guard let value = Int(digits), let unit = units[argument.dropFirst(digits.count).lowercased()],
      case (let product, let overflow) = value.multipliedReportingOverflow(by: unit), !overflow,
      product <= 3_650 * 86_400_000
    else {
      throw ValidationError("not a duration: an integer with ms, s, m, h or d, 0 to 3650d")
    }
    text = argument
    milliseconds = product
  }

  var duration: Duration { .milliseconds(milliseconds) }
}

/// An integer within a range, for `transform:`.
func integer(_ range: ClosedRange<Int>) -> @Sendable (String) throws -> Int {
  { argument in
    guard let value = Int(argument), range.contains(value) else {
      throw ValidationError("not an integer from \(range.lowerBound) to \(range.upperBound)")
    }
    return value
  }
}
