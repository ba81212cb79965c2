import Simulation
import Testing

/// Seeded random histories of fleets: several daemons, the servers that they share, and trouble.
/// `make simulate-fleet` plays many more, optimized.
@Suite struct FleetSimulationTests {
  @Test("A fleet is as one daemon, whatever goes wrong", arguments: 0..<24)
  func fleet(seed: UInt64) throws {
    try FleetSimulation(seed: seed).play(steps: 250)
  }

  @Test("The check finds a fleet that does not do what it must", arguments: FleetSimulation.Fault.allCases)
  func isNotBlind(fault: FleetSimulation.Fault) {
    let found = (0..<12 as Range<UInt64>).count { seed in
      do {
        try FleetSimulation(seed: seed, fault: fault).play(steps: 250)
        return false
      } catch {
        return true
      }
    }
    #expect(found > 0, "none of 12 histories was found to be wrong")
  }
}
