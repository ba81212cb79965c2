import Testing
import TimerWheelOracle

/// Seeded random histories, step by step against the naive model. `make fuzz` plays many more,
/// optimized.
@Suite struct OracleTests {
  @Test(arguments: Spread.allCases)
  func agreesWithASortedArray(_ spread: Spread) throws {
    for seed in 0..<10 as Range<UInt64> {
      var history = History(seed: seed, spread: spread)
      try history.play(turns: 120)
    }
  }
}
