import Wire

/// A checksum that detects rows that were changed after they were written: SQLite has none.
///
/// The values may be added in any order. NULL adds nothing, so a column that a later version adds
/// does not change the sums of older rows. One changed row in 2³² goes unnoticed.
struct RowSum {
  private var bits: UInt64 = 0

  /// The sum, reduced to the 32 bits that are stored.
  var value: Int64 { Int64(Int32(truncatingIfNeeded: bits ^ bits >> 32)) }

  /// - Parameter place: the place of the value in the row, counted from 1.
  @inline(__always)
  mutating func add(_ number: Int64, at place: Int32) {
    add(UInt64(bitPattern: number), Self.seed(place))
  }

  @inline(__always)
  mutating func add(_ bytes: Span<UInt8>, at place: Int32) {
    // The seed differs from that of a number, and has the length, so that trailing zeros count.
    var seed = Self.seed(place) &+ UInt64(bytes.count) &+ 1
    var offset = 0
    while offset + 8 <= bytes.count {
      seed = Self.mix(seed ^ bytes.word(at: offset))
      offset += 8
    }
    var rest: UInt64 = 0
    while offset < bytes.count {
      rest = rest << 8 | UInt64(bytes[offset])
      offset += 1
    }
    add(rest, seed)
  }

  @inline(__always)
  private mutating func add(_ word: UInt64, _ seed: UInt64) { bits ^= Self.mix(word ^ seed) }

  @inline(__always)
  private static func seed(_ place: Int32) -> UInt64 {
    UInt64(truncatingIfNeeded: place &+ 1) &* 0x9e37_79b9_7f4a_7c15
  }

  /// Source: the finalizer of MurmurHash3.
  @inline(__always)
  private static func mix(_ word: UInt64) -> UInt64 {
    var word = word
    word = (word ^ word >> 33) &* 0xff51_afd7_ed55_8ccd
    word = (word ^ word >> 33) &* 0xc4ce_b9fe_1a85_ec53
    return word ^ word >> 33
  }
}
