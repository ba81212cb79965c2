import Wire

extension JSONValue {
  /// A reply as the events spell the same things: maps become objects, and bytes that are not
  /// UTF-8 become base64, in an object under a name that says so (`key_base64`).
  public init(_ reply: RESPValue) {
    switch reply {
    case .null: self = .null
    case .simpleString(let text), .error(let text), .bigNumber(let text): self = .string(text)
    case .integer(let value): self = .integer(value)
    case .double(let value): self = .number(value)
    case .boolean(let value): self = .bool(value)
    case .bulkString(let bytes), .verbatim(_, let bytes):
      self = .string(Self.utf8(bytes) ?? Self.base64(bytes))
    case .array(let values), .set(let values), .push(let values):
      self = .array(values.map { JSONValue($0) })
    case .map(let pairs):
      self = .object(
        pairs.map { pair in
          let name = pair.key.string ?? JSONValue(pair.key).text
          if case .bulkString(let bytes) = pair.value, Self.utf8(bytes) == nil {
            return Member(name + "_base64", .string(Self.base64(bytes)))
          }
          return Member(name, JSONValue(pair.value))
        })
    }
  }

  private static func utf8(_ bytes: [UInt8]) -> String? {
    String(validating: bytes, as: UTF8.self)
  }

  /// RFC 4648, with padding.
  static func base64(_ bytes: [UInt8]) -> String {
    let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    var output: [UInt8] = []
    output.reserveCapacity((bytes.count + 2) / 3 * 4)
    for start in stride(from: 0, to: bytes.count, by: 3) {
      let group = bytes[start..<min(start + 3, bytes.count)]
      var bits: UInt32 = 0
      for offset in 0..<3 {
        bits = bits << 8 | (offset < group.count ? UInt32(group[start + offset]) : 0)
      }
      for place in 0..<4 {
        let digit = digits[Int(bits >> (18 - 6 * UInt32(place)) & 63)]
        output.append(place <= group.count ? digit : UInt8(ascii: "="))
      }
    }
    return String(decoding: output, as: UTF8.self)
  }
}
