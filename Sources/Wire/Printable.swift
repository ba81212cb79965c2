extension StringProtocol {
  /// The text with every character that is not printable written as an escape such as `\u{1b}`.
  ///
  /// Meant for all text that reaches a terminal or a log: users choose keys, titles and file names.
  package var printable: String { escaped { $0.isPrintable } }

  /// Like ``printable``, but line feeds stay.
  package var printableLines: String { escaped { $0.isPrintable || $0 == "\n" } }

  private func escaped(unless isAllowed: (Unicode.Scalar) -> Bool) -> String {
    // Nearly all texts: going through scalars costs much more.
    let isPlain = utf8.withContiguousStorageIfAvailable { bytes in
      unsafe bytes.allSatisfy { 0x20 <= $0 && $0 < 0x7F }
    }
    if isPlain == true { return String(self) }
    if unicodeScalars.allSatisfy(isAllowed) { return String(self) }
    var result = String.UnicodeScalarView()
    for scalar in unicodeScalars {
      if isAllowed(scalar) {
        result.append(scalar)
      } else {
        result.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars)
      }
    }
    return String(result)
  }
}

extension Unicode.Scalar {
  /// Whether a terminal just draws this character: false if it may move the cursor, change colours,
  /// begin a line or reverse the reading order.
  ///
  /// Source: the Unicode Character Database, General_Category (Cc, Zl, Zp) and Bidi_Control.
  package var isPrintable: Bool {
    switch value {
    case 0..<0x20, 0x7F..<0xA0, 0x61C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: false
    default: true
    }
  }
}
