import ArgumentParser
import CountdownClient
import Countdowns

/// Parses a duration with its unit, for `transform:`, whose errors can explain what is allowed,
/// unlike those of `ExpressibleByArgument`.
@Sendable func duration(_ argument: String) throws -> Duration {
  if let interval = DurationText.parse(written: argument) {
    return .milliseconds(interval.millisecondsRoundedUp)
  }
  guard DurationText.isBareNumber(argument) else {
    throw ValidationError("not \(DurationText.allowed)")
  }
  throw ValidationError("a unit is missing: write \(argument)s or \(argument)ms")
}

extension Option where Value == Duration? {
  init(duration help: String) {
    self.init(help: .init(help, valueName: "duration"), transform: countdownctl.duration)
  }
}

extension Argument where Value == Duration? {
  init(duration help: ArgumentHelp) { self.init(help: help, transform: countdownctl.duration) }
}

/// Returns a parser of integers within a range, for `transform:`.
func integer(_ range: ClosedRange<Int>) -> @Sendable (String) throws -> Int {
  { argument in
    guard let value = Int(argument), range.contains(value) else {
      throw ValidationError("not an integer from \(range.lowerBound) to \(range.upperBound)")
    }
    return value
  }
}

/// Converts a rate, such as `5/10m`, to the form of the protocol; for `transform:`.
@Sendable func rate(_ argument: String) throws -> String {
  let parts = argument.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
  guard parts.count == 2, Int(parts[0]) != nil else {
    throw ValidationError("not a number and a duration, such as 5/10m")
  }
  return try "\(parts[0])/\(duration(parts[1]).millisecondsRoundedUp)ms"
}
