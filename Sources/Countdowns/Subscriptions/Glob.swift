import Wire

/// Patterns as in Redis: `*`, `?`, `[a-z]`, `[^a]`, `\` takes the next byte as it is.
package enum Glob {
  /// Returns whether a byte has a special meaning in a pattern.
  static func isSpecial(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "*"), UInt8(ascii: "?"), UInt8(ascii: "["), UInt8(ascii: "\\"): true
    default: false
    }
  }

  /// Returns the only text that a pattern matches; nil if it can match others.
  static func onlyMatch(of pattern: [UInt8]) -> [UInt8]? {
    var parts = Parts(pattern.span)
    var text: [UInt8] = []
    while let part = parts.next() {
      guard case .byte(let byte) = part else { return nil }
      text.append(byte)
    }
    return text
  }

  /// Returns whether a text matches a pattern. O(pattern × text) at worst: no part of the pattern
  /// is compared twice with the same byte. Single bytes between stars take O(pattern + text).
  package static func matches(_ pattern: [UInt8], _ text: [UInt8]) -> Bool {
    matches(pattern, text.span)
  }

  static func matches(_ pattern: [UInt8], _ text: Span<UInt8>) -> Bool {
    matches(Parts(pattern.span), text)
  }

  /// Returns what one comparison costs at most: 1 for a short one.
  package static func cost(_ pattern: [UInt8], _ textLength: Int) -> Int {
    1 + pattern.count * textLength / 4_096
  }

  private static func matches(_ parts: Parts, _ text: Span<UInt8>) -> Bool {
    var parts = parts
    var matched = 0
    // Up to the first star there is one way to match.
    while let part = parts.next() {
      if case .star = part {
        // Most patterns end with a star.
        return parts.isAtEnd
          || matchesAfterStar(parts, text.extracting(matched...))
      }
      guard matched < text.count, part.matches(text[matched]) else { return false }
      matched += 1
    }
    return matched == text.count
  }

  /// Returns whether the parts that follow a star match a text.
  ///
  /// The parts up to the next star are best found as early as possible, as a later position leaves
  /// less to the rest. Those after the last star must match the end.
  private static func matchesAfterStar(_ parts: Parts, _ text: Span<UInt8>) -> Bool {
    var parts = parts
    var first = 0
    while true {
      let section = parts
      var length = 0
      var isLast = true
      while let part = parts.next() {
        if case .star = part {
          isLast = false
          break
        }
        length += 1
      }
      guard first + length <= text.count else { return false }
      guard !isLast else {
        return section.matches(text, at: text.count - length, length)
      }
      guard let position = section.find(length, in: text, from: first) else { return false }
      first = position + length
    }
  }

  /// The parts of a pattern, one after the other.
  private struct Parts: ~Escapable {
    let pattern: Span<UInt8>
    var position = 0

    @_lifetime(copy pattern)
    init(_ pattern: Span<UInt8>) { self.pattern = pattern }

    var isAtEnd: Bool { position == pattern.count }

    /// Returns whether the next parts match a position of a text.
    func matches(_ text: Span<UInt8>, at position: Int, _ length: Int) -> Bool {
      var parts = self
      for index in position..<position + length where parts.next()?.matches(text[index]) != true {
        return false
      }
      return true
    }

    /// Returns the first position at which the next parts match a text.
    func find(_ length: Int, in text: Span<UInt8>, from first: Int) -> Int? {
      var parts = self
      guard length > 1 else {
        guard let part = parts.next(), length == 1 else { return first }
        return (first..<text.count).first { part.matches(text[$0]) }
      }
      // A row has a 1 for each position in the text where the parts read until now can end.
      let width = text.count + 1
      return withTemporaryBytes(2 * width) { rows in
        var row = 0
        for position in first..<width { rows[position] = 1 }
        for read in 0..<length {
          guard let part = parts.next(),
            part.advance(&rows, row, to: width - row, over: text, from: first + read)
          else { return nil }
          row = width - row
        }
        return (first + length...text.count).first { rows[row + $0] == 1 }.map { $0 - length }
      }
    }

    mutating func next() -> Part? {
      guard position < pattern.count else { return nil }
      defer { position += 1 }
      switch pattern[position] {
      case UInt8(ascii: "*"): return .star
      case UInt8(ascii: "?"): return .any
      case UInt8(ascii: "["): return .anyOf(bytes())
      case UInt8(ascii: "\\") where position + 1 < pattern.count:
        position += 1
        return .byte(pattern[position])
      default: return .byte(pattern[position])
      }
    }

    /// Reads a class of bytes. Leaves `position` at its bracket; without one it ends with the
    /// pattern.
    private mutating func bytes() -> ByteSet {
      position += 1
      let isNegated = position < pattern.count && pattern[position] == UInt8(ascii: "^")
      if isNegated { position += 1 }
      var bytes = ByteSet()
      while position < pattern.count, pattern[position] != UInt8(ascii: "]") {
        if pattern[position] == UInt8(ascii: "\\"), position + 1 < pattern.count {
          bytes.insert(pattern[position + 1]...pattern[position + 1])
          position += 2
        } else if position + 2 < pattern.count, pattern[position + 1] == UInt8(ascii: "-") {
          let ends = (pattern[position], pattern[position + 2])
          bytes.insert(min(ends.0, ends.1)...max(ends.0, ends.1))
          position += 3
        } else {
          bytes.insert(pattern[position]...pattern[position])
          position += 1
        }
      }
      // `next` steps over the bracket.
      position = min(position, pattern.count - 1)
      if isNegated { bytes.invert() }
      return bytes
    }
  }

  /// A part of a pattern: a condition for one byte, or a star.
  private enum Part {
    case star
    case any
    case byte(UInt8)
    case anyOf(ByteSet)

    func matches(_ byte: UInt8) -> Bool {
      switch self {
      case .star, .any: true
      case .byte(let wanted): wanted == byte
      case .anyOf(let bytes): bytes.contains(byte)
      }
    }

    /// Writes the row that follows this part. Returns false if it is empty. Each case has its own
    /// loop without bounds checks, so that the compiler can handle many bytes at a time.
    func advance(
      _ rows: inout MutableSpan<UInt8>, _ row: Int, to next: Int, over text: Span<UInt8>,
      from first: Int
    ) -> Bool {
      precondition(max(row, next) + text.count < rows.count && min(row, next) >= 0 && first >= 0)
      var all: UInt8 = 0
      switch self {
      case .star, .any:
        for position in first..<text.count {
          let isHit = unsafe rows[unchecked: row &+ position]
          unsafe rows[unchecked: next &+ position &+ 1] = isHit
          all |= isHit
        }
      case .byte(let wanted):
        for position in first..<text.count {
          let isHit =
            unsafe rows[unchecked: row &+ position] & (text[unchecked: position] == wanted ? 1 : 0)
          unsafe rows[unchecked: next &+ position &+ 1] = isHit
          all |= isHit
        }
      case .anyOf(let bytes):
        for position in first..<text.count {
          let isHit =
            unsafe rows[unchecked: row &+ position]
            & (bytes.contains(text[unchecked: position]) ? 1 : 0)
          unsafe rows[unchecked: next &+ position &+ 1] = isHit
          all |= isHit
        }
      }
      return all != 0
    }
  }

  private struct ByteSet {
    private var words = SIMD4<UInt64>()

    mutating func insert(_ range: ClosedRange<UInt8>) {
      for word in Int(range.lowerBound) / 64...Int(range.upperBound) / 64 {
        let low = max(Int(range.lowerBound) - 64 * word, 0)
        let high = min(Int(range.upperBound) - 64 * word, 63)
        words[word] |= UInt64.max << UInt64(low) & UInt64.max >> UInt64(63 - high)
      }
    }

    mutating func invert() { words = ~words }

    func contains(_ byte: UInt8) -> Bool { words[Int(byte >> 6)] >> UInt64(byte & 63) & 1 == 1 }
  }
}
