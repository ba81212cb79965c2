import Testing

@testable import countdownd

/// Lines: so many of a kind, then a count.
@Suite struct FloodGateTests {
  private typealias Gate = FloodGate<String, String>
  private var gate = Gate(maximum: 2, interval: 100, maximumKinds: 3)
  private let a = Gate.Kind(message: "a", user: "1")

  @Test mutating func aFewOfAKindPassAndTheOthersAreCounted() {
    #expect(gate.admit("a", of: "1", at: 0) == .pass)
    #expect(gate.admit("a", of: "1", at: 1) == .pass)
    #expect(gate.admit("a", of: "1", at: 2) == .holdUntil(100, a))
    #expect(gate.admit("a", of: "1", at: 3) == .hold)
    #expect(gate.admit("b", of: "1", at: 4) == .pass)
    #expect(gate.close(a) == 2)
    #expect(gate.admit("a", of: "1", at: 101) == .pass)
  }

  @Test mutating func aUserDoesNotHideOthers() {
    for moment in 0..<5 { _ = gate.admit("a", of: "1", at: Int64(moment)) }
    #expect(gate.admit("a", of: "2", at: 5) == .pass)
    #expect(gate.close(a) == 3)
  }

  @Test mutating func usersBeyondTheBoundAreCountedTogether() {
    for user in 1...3 { #expect(gate.admit("a", of: "\(user)", at: 0) == .pass) }
    let others = Gate.Kind(message: "a", user: nil)
    #expect(gate.admit("a", of: "4", at: 1) == .pass)
    #expect(gate.admit("a", of: "5", at: 1) == .pass)
    #expect(gate.admit("a", of: "6", at: 1) == .holdUntil(101, others))
    #expect(gate.admit("a", of: "4", at: 1) == .hold)
    #expect(gate.admit("a", of: "1", at: 1) == .pass)
    #expect(gate.close(others) == 2)
    // Those that are over make room.
    #expect(gate.admit("a", of: "7", at: 200) == .pass)
    #expect(gate.admit("a", of: "7", at: 200) == .pass)
    #expect(
      gate.admit("a", of: "7", at: 200) == .holdUntil(300, Gate.Kind(message: "a", user: "7")))
  }

  @Test mutating func rareMessagesAlwaysPass() {
    for moment in stride(from: Int64(0), to: 10_000, by: 60) {
      #expect(gate.admit("a", of: "1", at: moment) == .pass)
    }
  }

  @Test mutating func countingContinuesUntilTheCountIsReported() {
    for moment in 0..<5 { _ = gate.admit("a", of: "1", at: Int64(moment)) }
    // The end has passed, but the first three were not reported yet.
    #expect(gate.admit("a", of: "1", at: 150) == .hold)
    #expect(gate.close(a) == 4)
    #expect(gate.close(a) == 0)
  }
}
