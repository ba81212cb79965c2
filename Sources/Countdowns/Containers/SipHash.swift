/// A hash of bytes under a secret key: without the key, nobody can choose texts that collide.
///
/// The same function as Swift's `Hasher` (SipHash-1-3), without its three calls per key, which take
/// longer than the function when keys are short.
///
/// Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF" (INDOCRYPT 2012).
struct SipHash {
  private let key: (UInt64, UInt64)

  init(key: (UInt64, UInt64)) { self.key = key }

  /// The hash with the random key of this process.
  static let ofProcess = SipHash(key: (.random(in: 0...UInt64.max), .random(in: 0...UInt64.max)))

  /// - Parameters:
  ///   - compression: the number of rounds for each eight bytes.
  ///   - finalization: the number of rounds at the end.
  @inline(__always)
  func callAsFunction(
    _ bytes: Span<UInt8>, compression: Int = 1, finalization: Int = 3
  ) -> UInt64 {
    var state = State(key)
    var position = 0
    while position &+ 8 <= bytes.count {
      state.take(bytes.word(at: position), rounds: compression)
      position &+= 8
    }
    // The rest of the bytes, with the length in the highest byte.
    let last = bytes.word(at: position, count: bytes.count &- position)
    state.take(last | UInt64(truncatingIfNeeded: bytes.count) << 56, rounds: compression)
    return state.finish(rounds: finalization)
  }

  private struct State {
    private var v0: UInt64
    private var v1: UInt64
    private var v2: UInt64
    private var v3: UInt64

    @inline(__always)
    init(_ key: (UInt64, UInt64)) {
      v0 = key.0 ^ 0x736F_6D65_7073_6575
      v1 = key.1 ^ 0x646F_7261_6E64_6F6D
      v2 = key.0 ^ 0x6C79_6765_6E65_7261
      v3 = key.1 ^ 0x7465_6462_7974_6573
    }

    @inline(__always)
    mutating func take(_ word: UInt64, rounds: Int) {
      v3 ^= word
      for _ in 0..<rounds { round() }
      v0 ^= word
    }

    @inline(__always)
    mutating func finish(rounds: Int) -> UInt64 {
      v2 ^= 0xFF
      for _ in 0..<rounds { round() }
      return v0 ^ v1 ^ v2 ^ v3
    }

    @inline(__always)
    private mutating func round() {
      v0 = v0 &+ v1
      v1 = Self.rotate(v1, by: 13) ^ v0
      v0 = Self.rotate(v0, by: 32)
      v2 = v2 &+ v3
      v3 = Self.rotate(v3, by: 16) ^ v2
      v0 = v0 &+ v3
      v3 = Self.rotate(v3, by: 21) ^ v0
      v2 = v2 &+ v1
      v1 = Self.rotate(v1, by: 17) ^ v2
      v2 = Self.rotate(v2, by: 32)
    }

    @inline(__always)
    private static func rotate(_ value: UInt64, by bits: UInt64) -> UInt64 {
      value &<< bits | value &>> (64 &- bits)
    }
  }
}
