/// Why a text is not JSON, and at which byte.
public struct JSONParserError: Error, Hashable, Sendable {
  public let reason: String
  public let offset: Int
}

extension JSONValue {
  /// Reads one JSON text (RFC 8259), nested at most 32 deep.
  ///
  /// Integers that fit into 64 bits stay integers. Our own reader rather than Foundation's: it
  /// keeps generations exact and members in order, and spares every client Foundation's start.
  public init(parsing text: some Collection<UInt8>) throws(JSONParserError) {
    var parser = JSONParser(bytes: Array(text))
    self = try parser.parse()
  }
}

struct JSONParser {
  static let depthLimit = 32

  private let bytes: [UInt8]
  private var index = 0

  init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  mutating func parse() throws(JSONParserError) -> JSONValue {
    let value = try value(depth: 0)
    skipSpace()
    guard index == bytes.count else { throw failure("something follows the value") }
    return value
  }

  private mutating func value(depth: Int) throws(JSONParserError) -> JSONValue {
    skipSpace()
    guard depth <= Self.depthLimit else { throw failure("nested too deep") }
    guard index < bytes.count else { throw failure("the text ends too early") }
    switch bytes[index] {
    case UInt8(ascii: "{"): return try object(depth: depth)
    case UInt8(ascii: "["): return try array(depth: depth)
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "t"): return try word("true", .bool(true))
    case UInt8(ascii: "f"): return try word("false", .bool(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    default: return try number()
    }
  }

  private mutating func object(depth: Int) throws(JSONParserError) -> JSONValue {
    var members: [JSONValue.Member] = []
    index += 1
    skipSpace()
    if take("}") { return .object([]) }
    repeat {
      skipSpace()
      let name = try string()
      skipSpace()
      guard take(":") else { throw failure("a colon is missing") }
      members.append(.init(name, try value(depth: depth + 1)))
      skipSpace()
    } while take(",")
    guard take("}") else { throw failure("a brace is missing") }
    return .object(members)
  }

  private mutating func array(depth: Int) throws(JSONParserError) -> JSONValue {
    var values: [JSONValue] = []
    index += 1
    skipSpace()
    if take("]") { return .array([]) }
    repeat {
      values.append(try value(depth: depth + 1))
      skipSpace()
    } while take(",")
    guard take("]") else { throw failure("a bracket is missing") }
    return .array(values)
  }

  private mutating func word(
    _ word: StaticString, _ value: JSONValue
  ) throws(JSONParserError) -> JSONValue {
    let end = index + word.utf8CodeUnitCount
    let wanted = UnsafeBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount)
    guard end <= bytes.count, bytes[index..<end].elementsEqual(wanted) else {
      throw failure("unknown word")
    }
    index = end
    return value
  }

  private mutating func number() throws(JSONParserError) -> JSONValue {
    let start = index
    var isInteger = true
    scan: while index < bytes.count {
      switch bytes[index] {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"): break
      case UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E"), UInt8(ascii: "+"):
        isInteger = false
      default: break scan
      }
      index += 1
    }
    let text = String(decoding: bytes[start..<index], as: UTF8.self)
    if isInteger, let value = Int(text) { return .integer(value) }
    guard let value = Double(text), value.isFinite else { throw failure("not a number") }
    return .number(value)
  }

  private mutating func string() throws(JSONParserError) -> String {
    guard take("\"") else { throw failure("a quote is missing") }
    var output: [UInt8] = []
    while index < bytes.count {
      let byte = bytes[index]
      index += 1
      switch byte {
      case UInt8(ascii: "\""): return String(decoding: output, as: UTF8.self)
      case UInt8(ascii: "\\"): output.append(contentsOf: String(try escape()).utf8)
      case 0..<0x20: throw failure("a control character in a string")
      default: output.append(byte)
      }
    }
    throw failure("a quote is missing")
  }

  private mutating func escape() throws(JSONParserError) -> Character {
    guard index < bytes.count else { throw failure("the text ends too early") }
    let byte = bytes[index]
    index += 1
    switch byte {
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{C}"
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"):
      return Character(Unicode.Scalar(byte))
    case UInt8(ascii: "u"): return try unicode()
    default: throw failure("unknown escape")
    }
  }

  /// A scalar as one or, beyond the first plane, two groups of four digits; half a pair alone
  /// becomes the replacement character.
  private mutating func unicode() throws(JSONParserError) -> Character {
    let first = try fourDigits()
    guard (0xD800..<0xDC00).contains(first), index + 1 < bytes.count,
      bytes[index] == UInt8(ascii: "\\"), bytes[index + 1] == UInt8(ascii: "u")
    else { return Character(Unicode.Scalar(first) ?? "\u{FFFD}") }
    let before = index
    index += 2
    let second = try fourDigits()
    guard (0xDC00..<0xE000).contains(second) else {
      index = before
      return "\u{FFFD}"
    }
    let scalar = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
    return Character(Unicode.Scalar(scalar) ?? "\u{FFFD}")
  }

  private mutating func fourDigits() throws(JSONParserError) -> UInt32 {
    guard index + 4 <= bytes.count,
      let value = UInt32(String(decoding: bytes[index..<index + 4], as: UTF8.self), radix: 16)
    else { throw failure("an escape needs four digits") }
    index += 4
    return value
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard index < bytes.count, bytes[index] == UInt8(ascii: character) else { return false }
    index += 1
    return true
  }

  private mutating func skipSpace() {
    while index < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[index]) { index += 1 }
  }

  private func failure(_ reason: String) -> JSONParserError {
    JSONParserError(reason: reason, offset: index)
  }
}
