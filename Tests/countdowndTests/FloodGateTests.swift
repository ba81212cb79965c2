import Testing

@testable import countdownd

/// Lines: so many of a kind, then a count.
@Suite struct FloodGateTests {
  private var gate = FloodGate<String>(most: 2, interval: 100)

  @Test mutating func aFewOfAKindPassAndTheOthersAreCounted() {
    #expect(gate.admit("a", at: 0) == .pass)
    #expect(gate.admit("a", at: 1) == .pass)
    #expect(gate.admit("a", at: 2) == .holdUntil(100))
    #expect(gate.admit("a", at: 3) == .hold)
    #expect(gate.admit("b", at: 4) == .pass)
    #expect(gate.close("a") == 2)
    #expect(gate.admit("a", at: 101) == .pass)
  }

  @Test mutating func rareMessagesAlwaysPass() {
    for moment in stride(from: Int64(0), to: 10_000, by: 60) {
      #expect(gate.admit("a", at: moment) == .pass)
    }
  }

  @Test mutating func countingContinuesUntilTheCountIsReported() {
    for moment in 0..<5 { _ = gate.admit("a", at: Int64(moment)) }
    // The end has passed, but nobody has told of the first three.
    #expect(gate.admit("a", at: 150) == .hold)
    #expect(gate.close("a") == 4)
    #expect(gate.close("a") == 0)
  }
}
