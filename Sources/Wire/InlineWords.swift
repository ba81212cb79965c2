/// Splits a typed line into words as redis-cli and redis-server do: blanks separate words; in
/// double quotes `\n \r \t \a \b \\ \" \xHH` are escapes, in single quotes only `\'`. A NUL is a
/// character like any other, as in keys; redis-server ignores what follows it.
package enum InlineWords {
  /// Returns the words of a line, without their quotes.
  ///
  /// - Throws: if a quote is not closed, or no blank follows a closing quote.
  package static func split(_ line: String) throws(RESPProtocolError) -> [[UInt8]] {
    var text: [UInt8] = []
    let ranges = try split(line.utf8.span, into: &text)
    return ranges.map { Array(text[Int($0.start)..<Int($0.start + $0.count)]) }
  }

  static func split(
    _ line: Span<UInt8>, into text: inout [UInt8]
  ) throws(RESPProtocolError) -> [ArgumentRange] {
    let unbalanced = RESPProtocolError(description: "unbalanced quotes in request")
    var words: [ArgumentRange] = []
    var index = 0
    while true {
      while index < line.count, isBlank(line[index]) { index += 1 }
      guard index < line.count else { return words }
      let start = text.count
      while index < line.count, !isBlank(line[index]) {
        let quote = line[index]
        guard quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else {
          text.append(quote)
          index += 1
          continue
        }
        index += 1
        while true {
          guard index < line.count else { throw unbalanced }
          if line[index] == quote { break }
          index += unescape(line, at: index, quote: quote, into: &text)
        }
        index += 1
        guard index == line.count || isBlank(line[index]) else { throw unbalanced }
      }
      words.append(ArgumentRange(start: UInt32(start), count: UInt32(text.count - start)))
    }
  }

  /// Appends the character at `index`, unescaped; returns how many bytes of the line it takes.
  private static func unescape(
    _ line: Span<UInt8>, at index: Int, quote: UInt8, into text: inout [UInt8]
  ) -> Int {
    guard line[index] == UInt8(ascii: "\\"), index + 1 < line.count else {
      text.append(line[index])
      return 1
    }
    let escaped = line[index + 1]
    if quote == UInt8(ascii: "'") {
      guard escaped == quote else {
        text.append(line[index])
        return 1
      }
      text.append(escaped)
      return 2
    }
    if escaped == UInt8(ascii: "x"), index + 3 < line.count,
      let high = hexDigit(line[index + 2]), let low = hexDigit(line[index + 3])
    {
      text.append(high << 4 | low)
      return 4
    }
    switch escaped {
    case UInt8(ascii: "n"): text.append(0x0A)
    case UInt8(ascii: "r"): text.append(0x0D)
    case UInt8(ascii: "t"): text.append(0x09)
    case UInt8(ascii: "a"): text.append(0x07)
    case UInt8(ascii: "b"): text.append(0x08)
    default: text.append(escaped)
    }
    return 2
  }

  private static func isBlank(_ byte: UInt8) -> Bool {
    byte == 0x20 || (0x09...0x0D).contains(byte)
  }

  private static func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
