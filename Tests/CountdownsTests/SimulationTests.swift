import Simulation
import Testing

/// Seeded random histories of the whole engine against naive models. `make simulate` plays many
/// more, optimized.
@Suite struct SimulationTests {
  @Test("The engine does what naive models do", arguments: 0..<24)
  func simulation(seed: UInt64) throws {
    var history = Simulation(seed: seed)
    try history.play(steps: 1_500)
  }

  @Test("Scopes, stacks and pages do what naive models do", arguments: 0..<24)
  func interactions(seed: UInt64) throws {
    var history = InteractionSimulation(seed: seed)
    try history.play(steps: 1_500)
  }
}
