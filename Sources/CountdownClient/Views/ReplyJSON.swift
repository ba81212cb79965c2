import Wire

extension RESPValue {
  /// The reply as one line of JSON, in the format of events: maps become objects, and bytes that
  /// are not UTF-8 become base64, as a member named `NAME_base64`.
  public var json: String {
    switch self {
    case .null: return "null"
    case .boolean(let value): return value ? "true" : "false"
    case .integer(let value): return String(value)
    // JSON has no infinities.
    case .double(let value): return value.isFinite ? String(value) : "null"
    case .error(let text): return text.quotedAsJSON
    case .simpleString, .bulkString, .bigNumber, .verbatim: return (textOrBase64 ?? "").quotedAsJSON
    case .array(let values), .set(let values), .push(let values):
      return "[" + values.map(\.json).joined(separator: ",") + "]"
    case .map(let pairs):
      let members = pairs.map { $0.jsonName.quotedAsJSON + ":" + $0.value.json }
      return "{" + members.joined(separator: ",") + "}"
    }
  }
}

extension RESPValue.Pair {
  /// The name of the member in JSON; it ends in `_base64` if the value is base64.
  package var jsonName: String {
    let name = key.string ?? key.json
    guard let bytes = value.bytes, String(validating: bytes, as: UTF8.self) == nil else {
      return name
    }
    return name + "_base64"
  }
}

extension String {
  /// The text as a JSON string.
  fileprivate var quotedAsJSON: String {
    var output = "\""
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
    return output + "\""
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
