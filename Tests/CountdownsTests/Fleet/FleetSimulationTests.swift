import Simulation
import Testing

/// Seeded random histories of fleets: several daemons, the servers that they share, and failures.
/// `make simulate-fleet` plays many more, optimized.
@Suite struct FleetSimulationTests {
  @Test(arguments: 0..<4)
  func aFleetAnswersAsOneDaemonDoesWhateverGoesWrong(seed: UInt64) throws {
    try FleetSimulation(seed: seed).play(steps: 300)
  }

  @Test(arguments: FleetSimulation.Fault.allCases)
  func theCheckFindsFleetsThatBreakTheirWord(fault: FleetSimulation.Fault) {
    var problems: [String] = []
    for seed in fault.firstSeed..<fault.firstSeed + 140 {
      do {
        try FleetSimulation(seed: seed, fault: fault, isAllMirrored: true).play(steps: 300)
      } catch {
        problems.append("\(error)")
        if problems.last!.contains(fault.symptom) { return }
      }
    }
    Issue.record("\(problems)")
  }
}

extension FleetSimulation.Fault {
  /// The first seed that shows the fault. Histories change when a feature is added to them; then the
  /// first one is further on, and the search takes longer.
  fileprivate var firstSeed: UInt64 {
    switch self {
    case .noReplicas: 13
    case .ignoredVersions: 2
    case .noMajority: 3
    case .countedReplicas: 38
    case .shortLeases: 0
    case .endlessLeases: 5
    }
  }

  /// Text of a problem that the check must report at least once.
  fileprivate var symptom: String {
    switch self {
    case .noReplicas: "sends in"
    case .ignoredVersions, .shortLeases: "nothing explains the change"
    case .noMajority, .countedReplicas: "was confirmed and is lost"
    case .endlessLeases: "though its owner is not"
    }
  }
}
