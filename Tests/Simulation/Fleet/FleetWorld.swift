import Countdowns
import SeededRandom

/// The kinds of trouble in a history.
struct FleetTrouble {
  /// Connections are closed, or lose all messages.
  var connections = false
  /// Servers and daemons stop for a while.
  var stops = false
  /// Servers end, and a replica takes over.
  var failovers = false
  /// Replicas lose their primary for a while.
  var absences = false
  /// The old primary still answers for a while after a failover.
  var splitBrain = false
  /// The replica that takes over may lack confirmed changes.
  var losesConfirmed = false
  /// Servers' clocks differ, and are set.
  var clocks = false
  /// Everything on the servers is deleted.
  var flushes = false
  /// Daemons end, and others start.
  var restarts = false
  /// Answers, entries and replication are sometimes slow.
  var delays = false

  var isAny: Bool {
    connections || stops || failovers || absences || clocks || flushes || restarts || delays
  }
}

struct FleetWorldSettings {
  var daemons = 3
  var shards = 1
  var replicasPerShard = 1
  var partitions = 2
  var replicas = FleetSettings.Replicas.all
  /// How long a missing replica still has to confirm changes; until then it may be promoted.
  var grace = Interval.milliseconds(1_000)
  /// The most entries of a stream; older ones are removed.
  var streamLength = 1_000
  var trouble = FleetTrouble()
  /// Whether the servers ignore versions: a fault that must be found.
  var ignoresVersions = false
  /// How long a lease is valid for the servers, in microseconds. Another length than
  /// hosts expect is a fault that must be found.
  var leaseLength = FleetLeases.length
  /// Whether missing replicas are forgotten without asking a majority: a fault that must be found.
  var asksNoMajority = false
  /// Whether replicas are counted, whichever they are: a fault that must be found.
  var countsReplicas = false
  /// How long a daemon's connection waits for an answer before it is closed, in microseconds.
  var patience: Int64 = 1_000_000
}

extension FleetWorldSettings {
  var text: String {
    let trouble = Mirror(reflecting: trouble).children.filter { $0.value as? Bool == true }
      .compactMap(\.label)
    return
      "\(daemons) daemons, \(shards) shards of \(1 + replicasPerShard), \(partitions) partitions, "
      + "streams of \(streamLength), replicas \(replicas), trouble: "
      + trouble.joined(separator: ", ")
  }
}

/// The servers, the network and time.
final class FleetWorld {
  /// When the history begins, in microseconds since 1970.
  static let clockStart: Int64 = 1_790_000_000_000_000

  let settings: FleetWorldSettings
  let agenda = Agenda()
  let journal = Journal()
  var random: SeededGenerator
  private(set) var shards: [ModelShard] = []
  var lastWrite = 0
  /// The first problem that was found.
  private(set) var problem: String?
  /// By how much servers' clocks were ever ahead, in microseconds.
  var clockErrors: [Int64] = [0]
  /// Whether trouble has ended.
  var isCalm = false

  init(_ settings: FleetWorldSettings, seed: UInt64) {
    self.settings = settings
    random = SeededGenerator(seed: seed)
    journal.world = self
    shards = (0..<settings.shards).map { shard in
      ModelShard((0...settings.replicasPerShard).map { ModelServer("\(shard).\($0)", self) })
    }
  }

  func fail(_ problem: String) {
    if self.problem == nil { self.problem = "at \(agenda.now) µs: \(problem)" }
  }

  // MARK: Partitions

  func shardIndex(of partition: Int) -> Int { partition % settings.shards }

  func partitions(of shard: Int) -> [Int] {
    (0..<settings.partitions).filter { shardIndex(of: $0) == shard }
  }

  /// Returns the record of the primary.
  func record(_ key: FleetKey) -> FleetRecord? {
    for (index, shard) in shards.enumerated() {
      for partition in partitions(of: index) {
        if let record = shard.primary.partitions[partition]?.records[key] { return record }
      }
    }
    return nil
  }

  // MARK: Chance

  func chance(oneIn n: Int) -> Bool { Int.random(in: 0..<n, using: &random) == 0 }
  func pick<T>(_ choices: [T]) -> T { choices.randomElement(using: &random)! }
  func number(_ range: ClosedRange<Int64>) -> Int64 { Int64.random(in: range, using: &random) }

  private func delay(_ usual: ClosedRange<Int64>, upTo long: Int64) -> Int64 {
    guard settings.trouble.delays, !isCalm, chance(oneIn: 40) else { return number(usual) }
    return number(usual.upperBound...long)
  }

  /// Returns the delay of a message between a daemon and a server, in microseconds.
  func latency() -> Int64 { delay(50...1_500, upTo: 400_000) }
  func streamDelay() -> Int64 { delay(50...3_000, upTo: 1_500_000) }
  func replicationDelay() -> Int64 { delay(50...2_000, upTo: 150_000) }
  func connectionDelay() -> Int64 { number(1_000...300_000) }
}
