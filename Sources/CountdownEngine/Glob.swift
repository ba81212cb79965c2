/// Patterns as in Redis: `*`, `?`, `[a-z]`, `[^a]`, `\` takes the next byte as it is.
package enum Glob {
  /// Whether a byte of a pattern may stand for others.
  static func isSpecial(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "*"), UInt8(ascii: "?"), UInt8(ascii: "["), UInt8(ascii: "\\"): true
    default: false
    }
  }

  /// O(pattern × text) at worst: only the last star is ever gone back to.
  package static func matches(_ pattern: [UInt8], _ text: [UInt8]) -> Bool {
    text.withUnsafeBytes { matches(pattern, $0) }
  }

  static func matches(_ pattern: [UInt8], _ text: UnsafeRawBufferPointer) -> Bool {
    pattern.withUnsafeBufferPointer { matches($0, text) }
  }

  private static func matches(
    _ pattern: UnsafeBufferPointer<UInt8>, _ text: UnsafeRawBufferPointer
  ) -> Bool {
    var p = 0
    var t = 0
    var afterStar: Int?
    var starText = 0
    while t < text.count {
      if p < pattern.count, pattern[p] == UInt8(ascii: "*") {
        p += 1
        // Most patterns end with it.
        if p == pattern.count { return true }
        afterStar = p
        starText = t
      } else if p < pattern.count, let next = matchOne(pattern, p, text[t]) {
        p = next
        t += 1
      } else if let star = afterStar {
        starText += 1
        p = star
        t = starText
      } else {
        return false
      }
    }
    while p < pattern.count, pattern[p] == UInt8(ascii: "*") { p += 1 }
    return p == pattern.count
  }

  /// Where the pattern goes on after matching `byte` at `start`; nil if it does not match.
  private static func matchOne(
    _ pattern: UnsafeBufferPointer<UInt8>, _ start: Int, _ byte: UInt8
  ) -> Int? {
    switch pattern[start] {
    case UInt8(ascii: "?"):
      return start + 1
    case UInt8(ascii: "["):
      return matchClass(pattern, start, byte)
    case UInt8(ascii: "\\") where start + 1 < pattern.count:
      return pattern[start + 1] == byte ? start + 2 : nil
    default:
      return pattern[start] == byte ? start + 1 : nil
    }
  }

  private static func matchClass(
    _ pattern: UnsafeBufferPointer<UInt8>, _ start: Int, _ byte: UInt8
  ) -> Int? {
    var p = start + 1
    let negated = p < pattern.count && pattern[p] == UInt8(ascii: "^")
    if negated { p += 1 }
    var found = false
    while p < pattern.count, pattern[p] != UInt8(ascii: "]") {
      if pattern[p] == UInt8(ascii: "\\"), p + 1 < pattern.count {
        found = found || pattern[p + 1] == byte
        p += 2
      } else if p + 2 < pattern.count, pattern[p + 1] == UInt8(ascii: "-") {
        let low = min(pattern[p], pattern[p + 2])
        let high = max(pattern[p], pattern[p + 2])
        found = found || (low...high).contains(byte)
        p += 3
      } else {
        found = found || pattern[p] == byte
        p += 1
      }
    }
    // A class without its end goes to the end of the pattern.
    return found != negated ? min(p + 1, pattern.count) : nil
  }
}
