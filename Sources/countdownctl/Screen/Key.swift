/// A key press, of the keys that screens use.
enum Key: Equatable, Sendable {
  case character(Character)
  case up, down, pageUp, pageDown, home, end
  case enter, escape, backspace
  /// Ctrl with a letter.
  case control(Character)

  /// Parses the bytes of one `read`. Terminals send the bytes of a key at once, so an escape at the
  /// end is the Escape key.
  static func parse(_ bytes: some Collection<UInt8>) -> [Key] {
    var rest = Substring(String(decoding: bytes, as: UTF8.self))
    var keys: [Key] = []
    while let first = rest.popFirst() {
      switch first {
      case "\u{1B}" where rest.first == "[" || rest.first == "O":
        rest.removeFirst()
        let parameters = rest.prefix { $0.isNumber || $0 == ";" }
        rest = rest.dropFirst(parameters.count)
        if let last = rest.popFirst(), let key = special(parameters, last) { keys.append(key) }
      case "\u{1B}": keys.append(.escape)
      case "\r", "\n", "\r\n": keys.append(.enter)
      case "\u{7F}", "\u{08}": keys.append(.backspace)
      case "\u{01}"..."\u{1A}":
        let letter = first.asciiValue.map { Unicode.Scalar($0 + 0x60) }
        if let letter { keys.append(.control(Character(letter))) }
      default:
        if first.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control }) {
          keys.append(.character(first))
        }
      }
    }
    return keys
  }

  /// Source: xterm's control sequences, which nearly all terminals send.
  private static func special(_ parameters: Substring, _ last: Character) -> Key? {
    switch (parameters, last) {
    case (_, "A"): .up
    case (_, "B"): .down
    case (_, "H"), ("1", "~"), ("7", "~"): .home
    case (_, "F"), ("4", "~"), ("8", "~"): .end
    case ("5", "~"): .pageUp
    case ("6", "~"): .pageDown
    default: nil
    }
  }
}
