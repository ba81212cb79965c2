import Simulation
import Testing

/// Seeded random histories of the whole engine against naive models: 20,000 steps of named limits,
/// whose lists get slower as they grow, and 100,000 of everything else. `make simulate` plays many
/// more, optimized.
@Suite struct SimulationTests {
  @Test(arguments: 0..<50)
  func theEngineAgreesWithNaiveModels(seed: UInt64) throws {
    var history = Simulation(seed: seed)
    try history.play(steps: 2_000)
  }

  @Test(arguments: 0..<50)
  func namedLimitsAgreeWithListsOfMoments(seed: UInt64) throws {
    var history = LimitSimulation(seed: seed)
    try history.play(steps: 400)
  }

  @Test(arguments: 0..<50)
  func scopesStacksAndPagesAgreeWithNaiveModels(seed: UInt64) throws {
    var history = InteractionSimulation(seed: seed)
    try history.play(steps: 2_000)
  }
}
