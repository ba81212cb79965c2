/// One value of the Redis serialization protocol, as a reply carries it (RESP2 and RESP3).
///
/// Booleans, maps and nulls exist in RESP3 only; RESP2 sends `1`/`0`, a flat array and a null bulk.
/// The accessors below read both, so a caller need not know which version was negotiated.
public enum RESPValue: Sendable, Hashable {
  /// `+OK`: a short text without line breaks.
  case simpleString(String)
  /// `-ERR text` or `!21 …`: the whole text; its first word is the code.
  case error(String)
  /// `:42`
  case integer(Int)
  /// `$3 …`: any bytes.
  case bulkString([UInt8])
  /// `_`, and RESP2's `$-1` and `*-1`.
  case null
  /// `*2 …`
  case array([RESPValue])
  /// `%2 …`: in the server's order.
  case map([Pair])
  /// `~2 …`: in the server's order.
  case set([RESPValue])
  /// `>2 …`: sent without a request, between two replies.
  case push([RESPValue])
  /// `,3.25`
  case double(Double)
  /// `#t`
  case boolean(Bool)
  /// `(3492890328409238509324850943850943825024385`: decimal digits, perhaps with a sign.
  case bigNumber(String)
  /// `=15 txt:…`: a text with a format of three letters.
  indirect case verbatim(format: String, text: [UInt8])

  /// One name and its value.
  public struct Pair: Sendable, Hashable {
    public let key: RESPValue
    public let value: RESPValue

    public init(_ key: RESPValue, _ value: RESPValue) {
      self.key = key
      self.value = value
    }
  }
}

// MARK: - Reading

extension RESPValue {
  /// Whether this is a null of any spelling.
  public var isNull: Bool { self == .null }

  /// The bytes of a string of any kind; nil for everything else, errors included.
  public var bytes: [UInt8]? {
    switch self {
    case .simpleString(let text), .bigNumber(let text): return Array(text.utf8)
    case .bulkString(let bytes), .verbatim(_, let bytes): return bytes
    case .error, .integer, .null, .array, .map, .set, .push, .double, .boolean: return nil
    }
  }

  /// The text of a string of any kind, with invalid UTF-8 repaired; nil for everything else.
  public var string: String? {
    switch self {
    case .simpleString(let text), .bigNumber(let text): return text
    case .bulkString(let bytes), .verbatim(_, let bytes):
      return String(decoding: bytes, as: UTF8.self)
    case .error, .integer, .null, .array, .map, .set, .push, .double, .boolean: return nil
    }
  }

  /// The value of an integer, or of a string that spells one; nil for everything else.
  public var int: Int? {
    switch self {
    case .integer(let value): return value
    case .simpleString, .bulkString, .bigNumber: return string.flatMap { Int($0) }
    case .boolean, .error, .null, .array, .map, .set, .push, .double, .verbatim: return nil
    }
  }

  /// The value of a boolean, or of RESP2's `1` and `0`; nil for everything else.
  public var bool: Bool? {
    switch self {
    case .boolean(let value): return value
    case .integer(1): return true
    case .integer(0): return false
    case .integer, .simpleString, .bulkString, .bigNumber, .error, .null, .array, .map, .set,
      .push, .double, .verbatim:
      return nil
    }
  }

  /// The value of a number of any kind, or of a string that spells one (RESP2 has no doubles).
  public var number: Double? {
    switch self {
    case .double(let value): return value
    case .integer(let value): return Double(value)
    case .simpleString, .bulkString, .bigNumber: return string.flatMap { Double($0) }
    case .boolean, .error, .null, .array, .map, .set, .push, .verbatim: return nil
    }
  }

  /// The elements of an array, set or push; nil for everything else.
  public var elements: [RESPValue]? {
    switch self {
    case .array(let values), .set(let values), .push(let values): return values
    case .simpleString, .error, .integer, .bulkString, .null, .map, .double, .boolean, .bigNumber,
      .verbatim:
      return nil
    }
  }

  /// The names and values of a map, or of RESP2's flat array of alternating names and values.
  public var pairs: [Pair]? {
    switch self {
    case .map(let pairs): return pairs
    case .array(let values):
      guard values.count.isMultiple(of: 2) else { return nil }
      return stride(from: 0, to: values.count, by: 2).map { Pair(values[$0], values[$0 + 1]) }
    case .simpleString, .error, .integer, .bulkString, .null, .set, .push, .double, .boolean,
      .bigNumber, .verbatim:
      return nil
    }
  }

  /// The value that a map, or a flat array of names and values, has under a name. O(n).
  public subscript(name: String) -> RESPValue? {
    switch self {
    case .map(let pairs):
      return pairs.first { $0.key.spells(name) }?.value
    case .array(let values):
      for index in stride(from: 0, to: values.count - 1, by: 2)
      where values[index].spells(name) {
        return values[index + 1]
      }
      return nil
    case .simpleString, .error, .integer, .bulkString, .null, .set, .push, .double, .boolean,
      .bigNumber, .verbatim:
      return nil
    }
  }
}

extension RESPValue {
  /// Whether this is a string with that text. Comparing `bytes` takes five times as long, as it
  /// retains them.
  private func spells(_ name: String) -> Bool {
    switch self {
    case .simpleString(let text), .bigNumber(let text): text.utf8.elementsEqual(name.utf8)
    case .bulkString(let bytes): bytes.count == name.utf8.count && bytes.elementsEqual(name.utf8)
    case .verbatim(_, let bytes): bytes.elementsEqual(name.utf8)
    case .error, .integer, .null, .array, .map, .set, .push, .double, .boolean: false
    }
  }
}

// MARK: - Writing

extension RESPValue: ExpressibleByStringLiteral {
  public init(stringLiteral text: String) { self = .simpleString(text) }
}

extension RESPValue.Pair {
  package static func of(_ name: String, _ value: RESPValue) -> Self {
    Self(.simpleString(name), value)
  }
  package static func of(_ name: String, _ value: String) -> Self {
    of(name, .simpleString(value))
  }
  package static func of(_ name: String, _ value: Int) -> Self { of(name, .integer(value)) }
  package static func of(_ name: String, _ value: Bool) -> Self { of(name, .boolean(value)) }
  package static func of(_ name: String, _ value: [RESPValue]) -> Self { of(name, .array(value)) }
}

// MARK: - Requests

/// Encodes requests: a command is an array of bulk strings.
public enum RESPRequest {
  /// Appends a command to a buffer, so that several can go out in one write.
  public static func append(_ arguments: [[UInt8]], to output: inout [UInt8]) {
    append(arguments, followedBy: 0, to: &output)
  }

  /// - Parameter rest: how many arguments are appended later.
  package static func append(
    _ arguments: [[UInt8]], followedBy rest: Int, to output: inout [UInt8]
  ) {
    output.append(atMost: 32) { $0.header("*", arguments.count + rest) }
    for argument in arguments { append(argument, to: &output) }
  }

  /// Appends one of those arguments.
  package static func append(_ argument: [UInt8], to output: inout [UInt8]) {
    output.append(atMost: 32) { $0.header("$", argument.count) }
    output.append(contentsOf: argument)
    output.append(UInt8(ascii: "\r"))
    output.append(UInt8(ascii: "\n"))
  }
}
