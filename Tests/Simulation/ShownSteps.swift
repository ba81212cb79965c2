import Countdowns

/// The number that the listeners of a countdown received last.
///
/// A tick must show the number that is right at its moment, and a smaller one than before. Which
/// ticks are sent depends on who watched when the wheel was armed.
struct ShownSteps {
  private var steps: Int64?

  /// - Parameter expected: the remaining steps; nil if it does not count.
  /// - Returns: whether it was a tick; with a `problem` if it was wrong.
  mutating func hears(_ event: SentEvent, expected: Int64?, problem: inout String?) -> Bool {
    guard let view = event.subject as? CountdownView else { return false }
    let before = steps
    steps = view.remaining
    guard event.name == .tick else { return false }
    guard let expected else {
      problem = "a tick of what does not count"
      return true
    }
    if view.remaining != expected { problem = "a tick shows \(view.remaining), not \(expected)" }
    if view.remaining <= 0 { problem = "a tick shows \(view.remaining)" }
    if let before, view.remaining >= before {
      problem = "a tick shows \(view.remaining) after \(before)"
    }
    return true
  }

  /// Returns what is wrong with the number, once nothing is due; nil if nothing.
  func problem(expected: Int64) -> String? {
    if steps == expected { return nil }
    return "listeners know \(steps.map { "\($0)" } ?? "nothing"), not \(expected)"
  }
}
