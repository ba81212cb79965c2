import Countdowns
import Testing

/// A watched countdown on a virtual clock:
///
///     let code = CountdownTimeline()
///     code.at(0).start(count: 3)
///     code.at(1_500).start(count: 3)
///     code.at(9_000).expect(
///       "0 accepted 3", "1000 tick 2", "1500 refused 2", "2000 tick 1", "3000 ready 0")
///
/// Each line ends with the number of steps left. Times are in milliseconds.
final class CountdownTimeline {
  private(set) var machine: Countdown?
  private(set) var now = Instant(microseconds: 0)
  var isWatched = true
  var kept = Interval.seconds(600)
  private var lines: [String] = []

  @discardableResult
  func at(_ milliseconds: Int64) -> CountdownTimeline {
    let moment = Instant(microseconds: milliseconds * 1_000)
    while let next = machine?.nextExpiry(at: now, watched: isWatched, kept: kept), next <= moment {
      now = max(now, next)
      expire()
    }
    now = moment
    return self
  }

  /// Moves the clock in one jump, then expires the countdown once.
  @discardableResult
  func late(at milliseconds: Int64) -> CountdownTimeline {
    now = Instant(microseconds: milliseconds * 1_000)
    expire()
    return self
  }

  private func expire() {
    switch machine?.expire(at: now, kept: kept) {
    case .tick: record("tick")
    case .ready: record("ready")
    case .forgotten:
      record("forgotten")
      machine = nil
    case nil: break
    }
  }

  func start(count: UInt32 = 60, every: Int64 = 1_000, fire: Bool = false) {
    let plan = Countdown.Plan(count: count, every: .milliseconds(every), firesAtOnce: fire)!
    guard machine != nil else {
      machine = Countdown(plan, at: now)
      return record("accepted")
    }
    switch machine!.start(plan, at: now) {
    case .accepted: record("accepted")
    case .refused: record("refused")
    }
  }

  func pause() { record(machine!.pause(at: now) ? "paused" : "nothing to pause") }
  func resume() { record(machine!.resume(at: now) ? "resumed" : "nothing to resume") }

  func retime(_ left: Int64) {
    record(machine!.retime(.milliseconds(left), at: now) ? "retimed" : "nothing to retime")
  }

  var remaining: Int64 { machine!.remainingSteps(at: now) }
  var remainingMS: Int64 { machine!.remainingTime(at: now).millisecondsRoundedUp }

  private func record(_ what: String) {
    let microseconds = now.microseconds % 1_000
    precondition(microseconds == 0, "a test's moments are whole milliseconds")
    lines.append("\(now.microseconds / 1_000) \(what) \(remaining)")
  }

  /// Expects exactly these lines since the last call.
  func expect(_ expected: String..., sourceLocation: SourceLocation = #_sourceLocation) {
    let happened = lines
    lines = []
    #expect(happened == expected, sourceLocation: sourceLocation)
  }
}
