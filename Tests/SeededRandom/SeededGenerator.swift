import Glibc

/// A random number generator (SplitMix64). A seed gives the same numbers on every machine, so that
/// a failure can be played again.
///
/// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
package struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  /// The seed of tests whose threads and clocks never repeat exactly: SEED, or a random one. A test
  /// that takes it as an argument prints it if it fails.
  package static let seeds: [UInt64] = {
    let chosen = unsafe getenv("SEED").flatMap { unsafe UInt64(String(cString: $0)) }
    return [chosen ?? .random(in: 0 ... .max)]
  }()

  package init(seed: UInt64) { state = seed }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}
