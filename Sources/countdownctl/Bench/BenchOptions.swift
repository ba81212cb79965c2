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

/// The options of a load test.
struct BenchOptions: ParsableArguments, Sendable {
  @Option(help: "What the load does.") var mix = BenchMix.start

  @Option(name: [.customShort("n"), .long], help: "How many countdowns.")
  var countdowns = 100_000

  @Option(name: .shortAndLong, help: "Connections that send commands.") var connections = 50

  @Option(
    name: [.customShort("P"), .long],
    help: "Commands that a connection sends before it waits for the replies.")
  var pipeline = 1

  @Option(help: "Commands a second, of all connections together (default: as many as possible).")
  var rate: Int?

  @Option(
    duration:
      "When they are ready (default: burst 5s, spread 10s, others as configured); not with watched."
  ) var due: Duration?

  @Option(help: "Steps of each countdown; watched only.") var steps = 10

  @Option(
    duration: "The length of a step (default: 1s); watched only.")
  var every: Duration?

  @Option(help: "Threads that send commands.") var threads = 1

  @Flag(help: "Leave the countdowns running; the report says how to clear them.")
  var keep = false

  func validate() throws {
    func check(_ name: String, _ value: Int?, _ range: ClosedRange<Int>) throws {
      guard let value, !range.contains(value) else { return }
      throw ValidationError("--\(name) is \(range.lowerBound) to \(range.upperBound)")
    }
    try check("countdowns", countdowns, 1...KeyCommand.maximumKeys)
    try check("connections", connections, 1...1_000_000)
    try check("pipeline", pipeline, 1...10_000)
    try check("rate", rate, 1...1_000_000_000)
    try check("steps", steps, 1...1_000_000)
    try check("threads", threads, 1...min(256, connections))
    for (name, value) in [("due", due), ("every", every)] where value == .zero {
      throw ValidationError("--\(name) is 1ms to 3650d")
    }
    if mix == .watched, due != nil {
      throw ValidationError("--mix watched takes --steps and --every instead of --due")
    }
  }

  private var dueMS: Int? { due.map { Int($0.millisecondsRoundedUp) } }
  private var everyMS: Int { every.map { Int($0.millisecondsRoundedUp) } ?? 1_000 }

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
  var dueOfKeys: KeyCommand.Due {
    switch mix {
    case .start, .startCancel, .get: dueMS.map { .steps(1, everyMS: $0) } ?? .asConfigured
    case .watched: .steps(steps, everyMS: everyMS)
    case .burst: .at(.now() + TimeAmount.milliseconds(Int64(longestMS)))
    case .spread: .within(milliseconds: longestMS)
    }
  }

  /// Returns when the first event is due if countdowns start now.
  func firstDue(_ due: KeyCommand.Due) -> NIODeadline {
    if case .at(let moment) = due { return moment }
    return mix == .watched ? .now() + .milliseconds(Int64(everyMS)) : .now()
  }
}
