import ArgumentParser
import NIOCore

/// The kind of load.
enum BenchMix: String, CaseIterable, ExpressibleByArgument, Sendable {
  case start
  case startCancel = "start-cancel"
  case get
  case watched
  case burst
  case spread

  /// Whether a client subscribes to the events.
  var isWatched: Bool {
    switch self {
    case .start, .startCancel, .get: false
    case .watched, .burst, .spread: true
    }
  }
}

/// The options of a load test, already checked.
struct BenchOptions: Sendable {
  var mix = BenchMix.start
  var countdowns = 100_000
  var connections = 50
  var pipeline = 1
  var threads = 1
  /// Commands per second over all connections; nil: as many as possible.
  var rate: Int?
  /// Milliseconds until countdowns are ready; nil: the default of the mix.
  var dueMS: Int?
  var steps = 10
  var everyMS = 1_000
  var keep = false

  /// The longest time from a start to ready, in milliseconds; 0 if the daemon chooses it.
  var longestMS: Int {
    switch mix {
    case .start, .startCancel, .get: dueMS ?? 0
    case .watched: steps * everyMS
    case .burst: dueMS ?? 5_000
    case .spread: dueMS ?? 10_000
    }
  }

  /// Commands per second; nil: no limit. Ticking countdowns start over one step, to spread ticks.
  var effectiveRate: Double? {
    if let rate { return Double(rate) }
    return mix == .watched ? Double(countdowns) * 1_000 / Double(everyMS) : nil
  }

  /// When each countdown becomes ready.
  var due: KeyCommand.Due {
    switch mix {
    case .start, .startCancel, .get: dueMS.map { .steps(1, everyMS: $0) } ?? .asConfigured
    case .watched: .steps(steps, everyMS: everyMS)
    case .burst: .at(.now() + TimeAmount.milliseconds(Int64(longestMS)))
    case .spread: .within(milliseconds: longestMS)
    }
  }
}

extension BenchOptions {
  /// Returns when the first event is due if countdowns start now.
  func firstDue(_ due: KeyCommand.Due) -> NIODeadline {
    if case .at(let moment) = due { return moment }
    return mix == .watched ? .now() + .milliseconds(Int64(everyMS)) : .now()
  }
}
