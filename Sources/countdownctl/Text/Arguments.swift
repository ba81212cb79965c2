import ArgumentParser
import CountdownClient
import Countdowns

/// A duration in the protocol's spelling, checked here so that a typing error is a usage error.
struct DurationArgument: Equatable {
  let text: String
  /// 0 to 3650 days.
  let milliseconds: Int

  /// For `transform:`, which unlike `ExpressibleByArgument` shows what is allowed.
  init(parsing argument: String) throws {
    let bytes = Array(argument.utf8)
    guard let interval = DurationText.parse(bytes.span) else {
      throw ValidationError("not a duration: an integer with ms, s, m, h or d, 0 to 3650d")
    }
    text = argument
    milliseconds = Int(interval.millisecondsRoundedUp)
  }

  var duration: Duration { .milliseconds(milliseconds) }
}

extension DurationArgument: CommandWord {
  var bytes: [UInt8] { Array(text.utf8) }
}

extension Option where Value == DurationArgument? {
  init(duration help: ArgumentHelp) {
    self.init(help: help, transform: DurationArgument.init(parsing:))
  }
}

extension Option where Value == DurationArgument {
  init(duration help: ArgumentHelp) {
    self.init(help: help, transform: DurationArgument.init(parsing:))
  }
}

extension Argument where Value == DurationArgument {
  init(duration help: ArgumentHelp) {
    self.init(help: help, transform: DurationArgument.init(parsing:))
  }
}

extension Option where Value == String? {
  /// One of a few words, which the daemon checks.
  init(oneOf words: [String], help: ArgumentHelp) {
    self.init(help: help, completion: .list(words))
  }
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
