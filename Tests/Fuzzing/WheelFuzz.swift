import TimerWheelOracle

/// Histories of the timer wheel against a naive model. The input is the seed.
package final class WheelFuzz: FuzzTarget {
  package static let name = "wheel"

  package init() {}

  package func input(seed: UInt64) -> [UInt8] { Array("\(seed)".utf8) }

  package func check(_ input: [UInt8]) throws {
    let seed = try seed(of: input)
    for spread in Spread.allCases {
      var history = History(seed: seed, spread: spread)
      try history.play(turns: 400)
    }
  }
}

/// Returns the seed that the input contains.
func seed(of input: [UInt8]) throws -> UInt64 {
  let text = String(decoding: input, as: UTF8.self).filter { !$0.isWhitespace }
  guard let seed = UInt64(text) else { throw FuzzFailure("'\(text)' is no seed") }
  return seed
}
