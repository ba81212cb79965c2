import Wire

extension RESPValue {
  /// The reply as one line of JSON, in the format of events: maps become objects, and bytes that
  /// are not UTF-8 become base64, as a member named `NAME_base64`.
  public var json: String {
    var output: [UInt8] = []
    append(to: &output)
    return String(decoding: output, as: UTF8.self)
  }

  fileprivate func append(to output: inout [UInt8]) {
    switch self {
    case .null: output.append("null")
    case .boolean(let value): output.append(value ? "true" : "false")
    case .integer(let value): output.append(String(value))
    // JSON has no infinities.
    case .double(let value): output.append(value.isFinite ? String(value) : "null")
    case .error(let text), .simpleString(let text), .bigNumber(let text):
      output.append(quoted: text)
    case .bulkString(let bytes), .verbatim(_, let bytes): output.append(quoted: bytes)
    case .array(let values), .set(let values), .push(let values):
      output.append(values, in: "[]") { $1.append(to: &$0) }
    case .map(let pairs):
      output.append(pairs, in: "{}") { output, pair in
        output.append(quoted: pair.jsonName)
        output.append(UInt8(ascii: ":"))
        pair.value.append(to: &output)
      }
    }
  }
}

extension RESPValue.Pair {
  /// The name of the member in JSON; it ends in `_base64` if the value is base64.
  package var jsonName: String {
    let name = key.string ?? key.json
    switch value {
    case .bulkString(let bytes), .verbatim(_, let bytes):
      return String(validating: bytes, as: UTF8.self) == nil ? name + "_base64" : name
    default: return name
    }
  }
}

extension [UInt8] {
  fileprivate mutating func append(_ text: String) { append(contentsOf: text.utf8) }

  /// Appends values with commas between them.
  fileprivate mutating func append<Value>(
    _ values: [Value], in brackets: String, _ one: (inout Self, Value) -> Void
  ) {
    append(brackets.utf8.first!)
    for (index, value) in values.enumerated() {
      if index > 0 { append(UInt8(ascii: ",")) }
      one(&self, value)
    }
    append(brackets.utf8.last!)
  }

  /// Appends a text as a JSON string.
  fileprivate mutating func append(quoted text: String) {
    append(UInt8(ascii: "\""))
    if text.utf8.allSatisfy(\.isPlainInJSON) {
      append(text)
    } else {
      append(text.escapedInJSON)
    }
    append(UInt8(ascii: "\""))
  }

  /// Appends a text, or the base64 of bytes that are none, as a JSON string.
  fileprivate mutating func append(quoted bytes: [UInt8]) {
    guard bytes.allSatisfy(\.isPlainInJSON) else { return append(quoted: bytes.textOrBase64) }
    append(UInt8(ascii: "\""))
    append(contentsOf: bytes)
    append(UInt8(ascii: "\""))
  }
}

extension UInt8 {
  /// Whether a JSON string has this byte as it is, as nearly all of nearly all texts.
  fileprivate var isPlainInJSON: Bool {
    (0x20..<0x7F).contains(self) && self != UInt8(ascii: "\"") && self != UInt8(ascii: "\\")
  }
}

extension String {
  /// The text as in a JSON string, without the quotes.
  fileprivate var escapedInJSON: String {
    var output = ""
    for scalar in unicodeScalars {
      switch scalar {
      case "\"": output += "\\\""
      case "\\": output += "\\\\"
      case "\n": output += "\\n"
      case "\r": output += "\\r"
      case "\t": output += "\\t"
      default: output.append(escaping: scalar)
      }
    }
    return output
  }

  /// This JSON text with every unprintable character in its strings escaped.
  package var escapedForJSON: String {
    unicodeScalars.reduce(into: "") { $0.append(escaping: $1) }
  }

  /// Appends a character, escaped if unprintable: JSON need not do so, but a terminal may show it.
  private mutating func append(escaping scalar: Unicode.Scalar) {
    guard !scalar.isPrintable else { return unicodeScalars.append(scalar) }
    let digits = String(scalar.value, radix: 16)
    self += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
  }
}
