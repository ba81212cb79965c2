import Wire

/// A JSON text as a value. Objects keep the order of their members, integers their digits.
public indirect enum JSONValue: Sendable, Hashable {
  case null
  case bool(Bool)
  case integer(Int)
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object([Member])

  /// One name and its value.
  public struct Member: Sendable, Hashable {
    public let name: String
    public let value: JSONValue

    public init(_ name: String, _ value: JSONValue) {
      self.name = name
      self.value = value
    }
  }

  /// The first member of that name; nil where there is none and for what is not an object. O(n).
  public subscript(name: String) -> JSONValue? {
    guard case .object(let members) = self else { return nil }
    return members.first { $0.name == name }?.value
  }

  /// The text of a string.
  public var string: String? {
    guard case .string(let text) = self else { return nil }
    return text
  }

  /// An integer.
  public var int: Int? {
    guard case .integer(let value) = self else { return nil }
    return value
  }

  /// An integer or a number with a fraction.
  public var double: Double? {
    switch self {
    case .integer(let value): return Double(value)
    case .number(let value): return value
    case .null, .bool, .string, .array, .object: return nil
    }
  }

  /// A boolean, or the `1` and `0` that stand for one.
  public var bool: Bool? {
    switch self {
    case .bool(let value): return value
    case .integer(1): return true
    case .integer(0): return false
    case .null, .integer, .number, .string, .array, .object: return nil
    }
  }
}

// MARK: - Writing

extension JSONValue {
  /// The value as JSON, in one line and without spaces.
  public var text: String {
    var output = ""
    write(to: &output)
    return output
  }

  private func write(to output: inout String) {
    switch self {
    case .null: output += "null"
    case .bool(let value): output += value ? "true" : "false"
    case .integer(let value): output += String(value)
    // JSON has no infinities.
    case .number(let value): output += value.isFinite ? String(value) : "null"
    case .string(let text): Self.write(text, to: &output)
    case .array(let values):
      output += "["
      for (index, value) in values.enumerated() {
        if index > 0 { output += "," }
        value.write(to: &output)
      }
      output += "]"
    case .object(let members):
      output += "{"
      for (index, member) in members.enumerated() {
        if index > 0 { output += "," }
        Self.write(member.name, to: &output)
        output += ":"
        member.value.write(to: &output)
      }
      output += "}"
    }
  }

  private static func write(_ text: String, to output: inout String) {
    output += "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": output += "\\\""
      case "\\": output += "\\\\"
      case "\n": output += "\\n"
      case "\r": output += "\\r"
      case "\t": output += "\\t"
      // Also what JSON need not escape: the text may be printed on a terminal.
      case _ where !scalar.isPrintable:
        let digits = String(scalar.value, radix: 16)
        output += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: output.unicodeScalars.append(scalar)
      }
    }
    output += "\""
  }
}
