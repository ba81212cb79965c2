import CountdownClient

/// Replies as redis-cli prints them.
enum RedisText {
  /// Formats a reply as on a terminal: with types, quotes and numbered elements.
  static func formatted(_ value: RESPValue, indent: String = "") -> String {
    switch value {
    case .simpleString(let text): return text.printable
    case .error(let text): return "(error) \(text.printable)"
    case .integer(let value): return "(integer) \(value)"
    case .double(let value): return "(double) \(value)"
    case .boolean(let value): return value ? "(true)" : "(false)"
    case .bigNumber(let digits): return "(big number) \(digits)"
    case .null: return "(nil)"
    case .bulkString(let bytes): return quoted(bytes)
    case .verbatim(_, let text):
      // Drops a final line feed, because the caller ends the line.
      let isClosed = text.last == UInt8(ascii: "\n")
      return String(decoding: isClosed ? text.dropLast() : text[...], as: UTF8.self)
        .replacing("\r\n", with: "\n").printableLines
    case .array(let values), .push(let values):
      return numbered(values, mark: ")", empty: "(empty array)", indent: indent)
    case .set(let values):
      return numbered(values, mark: "~", empty: "(empty set)", indent: indent)
    case .map(let pairs):
      guard !pairs.isEmpty else { return "(empty hash)" }
      let digits = String(pairs.count).count
      return pairs.enumerated().map { index, pair in
        let prefix = pad(index + 1, digits) + "# "
        let name = formatted(pair.key, indent: indent + spaces(prefix.count))
        let isNested = pair.value.elements?.isEmpty == false || isFullMap(pair.value)
        let deeper = indent + spaces(prefix.count)
        let gap = isNested ? "\n" + deeper : " "
        return (index == 0 ? "" : indent) + prefix + name + " =>" + gap
          + formatted(pair.value, indent: deeper)
      }.joined(separator: "\n")
    }
  }

  /// Formats a reply as into a pipe: the bytes alone, one element per line.
  static func plain(_ value: RESPValue) -> [UInt8] {
    switch value {
    case .simpleString(let text), .error(let text), .bigNumber(let text): return Array(text.utf8)
    case .integer(let value): return Array(String(value).utf8)
    case .double(let value): return Array(String(value).utf8)
    case .boolean(let value): return Array((value ? "true" : "false").utf8)
    case .null: return []
    case .bulkString(let bytes), .verbatim(_, let bytes): return bytes
    case .array(let values), .push(let values), .set(let values):
      return Array(values.map { plain($0) }.joined(separator: [0x0A]))
    case .map(let pairs):
      return Array(
        pairs.map { plain($0.key) + [0x20] + plain($0.value) }.joined(separator: [0x0A]))
    }
  }

  private static func isFullMap(_ value: RESPValue) -> Bool {
    guard case .map(let pairs) = value else { return false }
    return !pairs.isEmpty
  }

  private static func numbered(
    _ values: [RESPValue], mark: String, empty: String, indent: String
  ) -> String {
    guard !values.isEmpty else { return empty }
    let digits = String(values.count).count
    return values.enumerated().map { index, value in
      let prefix = pad(index + 1, digits) + mark + " "
      return (index == 0 ? "" : indent) + prefix
        + formatted(value, indent: indent + spaces(prefix.count))
    }.joined(separator: "\n")
  }

  private static func pad(_ number: Int, _ digits: Int) -> String {
    let text = String(number)
    return spaces(digits - text.count) + text
  }

  private static func spaces(_ count: Int) -> String { String(repeating: " ", count: count) }

  /// Returns the bytes in double quotes. Unlike with redis-cli, printable UTF-8 stays readable;
  /// other bytes become `\xNN`, so that the text is valid as an argument.
  static func quoted(_ bytes: [UInt8]) -> String {
    guard let text = String(validating: bytes, as: UTF8.self) else {
      return "\"" + bytes.map { quoted(Unicode.Scalar($0), isText: false) }.joined() + "\""
    }
    return "\"" + text.unicodeScalars.map { quoted($0, isText: true) }.joined() + "\""
  }

  private static func quoted(_ scalar: Unicode.Scalar, isText: Bool) -> String {
    switch scalar {
    case "\"": return "\\\""
    case "\\": return "\\\\"
    case "\n": return "\\n"
    case "\r": return "\\r"
    case "\t": return "\\t"
    case _ where scalar.isPrintable && (isText || scalar.isASCII): return String(scalar)
    default:
      let bytes = isText ? Array(String(scalar).utf8) : [UInt8(truncatingIfNeeded: scalar.value)]
      return bytes.map { "\\x" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
  }
}
