/// The width of a text on a terminal, in columns, and texts fitted to a width.
enum DisplayWidth {
  /// Returns the width of a printable text: 2 for CJK and emoji, 0 for combining marks.
  static func of(_ text: some StringProtocol) -> Int {
    // Fast path: most texts are ASCII, and screens measure many.
    if text.utf8.allSatisfy({ $0 < 0x80 }) { return text.utf8.count }
    return text.reduce(0) { $0 + of($1) }
  }

  static func of(_ character: Character) -> Int {
    var width = 0
    for scalar in character.unicodeScalars {
      // This variation selector turns a character into an emoji.
      if scalar == "\u{FE0F}" { width = 2 }
      width = max(width, of(scalar))
    }
    return width
  }

  private static func of(_ scalar: Unicode.Scalar) -> Int {
    if scalar.value < 0x300 { return 1 }
    switch scalar.properties.generalCategory {
    case .nonspacingMark, .enclosingMark, .format: return 0
    default: break
    }
    if wide.contains(where: { $0.contains(scalar.value) }) { return 2 }
    return scalar.properties.isEmojiPresentation ? 2 : 1
  }

  /// The relevant blocks of wide and fullwidth characters in Unicode's EastAsianWidth.txt.
  private static let wide: [ClosedRange<UInt32>] = [
    0x1100...0x115F, 0x2E80...0x303E, 0x3041...0x33FF, 0x3400...0x4DBF, 0x4E00...0x9FFF,
    0xA000...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
    0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1F9FF,
    0x1FA70...0x1FAFF, 0x20000...0x3FFFD,
  ]

  /// Returns the text in exactly this many columns: padded with spaces, or cut with an ellipsis.
  static func fit(_ text: String, _ columns: Int, alignRight: Bool = false) -> String {
    let cut = truncate(text, columns)
    let space = String(repeating: " ", count: max(0, columns - of(cut)))
    return alignRight ? space + cut : cut + space
  }

  /// Returns the text in at most this many columns; a longer one is cut with an ellipsis.
  static func truncate(_ text: String, _ columns: Int) -> String {
    guard of(text) > columns else { return text }
    guard columns > 0 else { return "" }
    var result = ""
    var used = 0
    for character in text {
      let width = of(character)
      guard used + width <= columns - 1 else { break }
      result.append(character)
      used += width
    }
    return result + "…"
  }

  /// Wraps the text at spaces, to lines of at most this many columns; all but the first are
  /// indented. Colours take no columns.
  static func wrap(_ text: String, _ columns: Int, indent: Int) -> [String] {
    var lines = [""]
    var used = 0
    for (number, word) in text.split(separator: " ", omittingEmptySubsequences: false).enumerated()
    {
      // An escape starts a colour, which ends with "m".
      let parts = word.split(separator: "\u{1B}", omittingEmptySubsequences: false)
      let width = parts.dropFirst().reduce(of(parts[0])) {
        $0 + of($1.drop { $0 != "m" }.dropFirst())
      }
      if used > indent, used + 1 + width > columns {
        lines.append(String(repeating: " ", count: indent) + word)
        used = indent + width
      } else {
        lines[lines.count - 1] += (number > 0 ? " " : "") + word
        used += (number > 0 ? 1 : 0) + width
      }
    }
    return lines
  }
}
