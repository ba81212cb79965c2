import Simulation
import Testing

/// Seeded random histories of the whole engine against naive models: ten of each.
/// `make simulate` plays many more, optimized.
@Suite struct SimulationTests {
  @Test(arguments: 0..<10)
  func theEngineAgreesWithNaiveModels(seed: UInt64) throws {
    var history = Simulation(seed: seed)
    try history.play(steps: 2_000)
  }

  @Test(arguments: 0..<10)
  func namedLimitsAgreeWithListsOfMoments(seed: UInt64) throws {
    var history = LimitSimulation(seed: seed)
    try history.play(steps: 1_000)
  }

  @Test(arguments: 0..<6)
  func aReplayWithTheSameRulesDecidesTheSame(seed: UInt64) throws {
    try ReplaySimulation(seed: seed).play(steps: 1_000)
  }

  @Test(arguments: 0..<6)
  func aShadowWithTheSameRulesDecidesTheSame(seed: UInt64) throws {
    try ShadowSimulation(seed: seed).play(steps: 1_000)
  }

  @Test(arguments: 0..<10)
  func scopesStacksAndPagesAgreeWithNaiveModels(seed: UInt64) throws {
    var history = InteractionSimulation(seed: seed)
    try history.play(steps: 2_000)
  }
}
