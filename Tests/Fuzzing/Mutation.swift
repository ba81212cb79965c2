import SeededRandom

extension SeededGenerator {
  mutating func number(below bound: Int) -> Int { Int.random(in: 0..<max(bound, 1), using: &self) }

  mutating func one<Choices: Collection>(of choices: Choices) -> Choices.Element {
    choices.randomElement(using: &self)!
  }

  /// Returns true with a probability of 1 in `times`.
  mutating func isOne(in times: Int) -> Bool { number(below: times) == 0 }

  mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: 0...255, using: &self) }
  }

  /// Returns an integer, mostly one at the edge of a range.
  mutating func edge() -> Int64 {
    let edges: [Int64] = [
      0, 1, -1, 2, 127, 255, 256, 65_536, 1 << 31, 1 << 32, 1 << 40, 1 << 53, .max, .min,
    ]
    return isOne(in: 4) ? Int64.random(in: .min ... .max, using: &self) : one(of: edges)
  }

  /// Damages bytes in one to `most` places.
  mutating func damage(_ bytes: inout [UInt8], atMost maximum: Int, inserting inserts: [UInt8]) {
    for _ in 0...number(below: maximum) {
      guard !bytes.isEmpty else {
        bytes = self.bytes(4)
        return
      }
      let place = number(below: bytes.count)
      switch number(below: 6) {
      case 0: bytes.removeSubrange(place..<min(bytes.count, place + 1 + number(below: 20)))
      case 1: bytes.insert(one(of: inserts), at: place)
      case 2: bytes[place] = one(of: inserts)
      case 3: bytes[place] ^= 1 << UInt8(number(below: 8))
      case 4: bytes.insert(contentsOf: Array(bytes[place...].prefix(number(below: 200))), at: place)
      default: bytes.removeLast(min(bytes.count, number(below: 40)))
      }
    }
  }
}

/// Returns the FNV-1a hash, which decides what the input does not, such as how it is split.
func hash(_ bytes: [UInt8]) -> UInt64 {
  bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
}
