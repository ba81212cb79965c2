import ArgumentParser
import NIOCore

/// What the load does.
enum BenchMix: String, CaseIterable, ExpressibleByArgument, Sendable {
  case start
  case startCancel = "start-cancel"
  case get
  case watched
  case burst
  case spread

  /// Whether events are listened to.
  var isWatched: Bool {
    switch self {
    case .start, .startCancel, .get: false
    case .watched, .burst, .spread: true
    }
  }
}

/// What a load test was asked for; values checked.
struct BenchOptions: Sendable {
  var mix = BenchMix.start
  var countdowns = 100_000
  var connections = 50
  var pipeline = 1
  var threads = 1
  /// Commands a second of all connections together; nil: flat out.
  var rate: Int?
  /// How far away ready is, in milliseconds; nil: as usual for the mix.
  var dueMS: Int?
  var steps = 10
  var everyMS = 1_000
  var keep = false

  /// How long after their start the last of them may be due, in milliseconds.
  var longestMS: Int {
    switch mix {
    case .start, .startCancel, .get: dueMS ?? 0
    case .watched: steps * everyMS
    case .burst: dueMS ?? 5_000
    case .spread: dueMS ?? 10_000
    }
  }

  /// Commands a second. Ticking countdowns start over one step, which spreads their ticks over it.
  var effectiveRate: Double? {
    if let rate { return Double(rate) }
    return mix == .watched ? Double(countdowns) * 1_000 / Double(everyMS) : nil
  }

  /// What each key is started with.
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
  /// When the first event of countdowns that start from now on is due.
  func firstDue(_ due: KeyCommand.Due) -> NIODeadline {
    if case .at(let moment) = due { return moment }
    return mix == .watched ? .now() + .milliseconds(Int64(everyMS)) : .now()
  }
}
