import RESP

/// A JSON object on one line, written field by field.
///
/// Bytes that are not UTF-8 cannot be JSON text; they are written as base64, and the field's
/// name gets the ending `_base64`.
struct JSONLine: FieldWriter {
  private(set) var bytes: [UInt8] = [UInt8(ascii: "{")]

  init() { bytes.reserveCapacity(320) }

  mutating func finish() -> [UInt8] {
    bytes.append(UInt8(ascii: "}"))
    return bytes
  }

  mutating func field(_ name: StaticString, _ value: Int64) {
    begin(name)
    bytes.appendDecimal(value)
  }

  mutating func field(_ name: StaticString, _ value: Bool) {
    begin(name)
    raw(value ? "true" : "false")
  }

  mutating func field(_ name: StaticString, _ value: Double) {
    begin(name)
    bytes.append(contentsOf: "\(value)".utf8)
  }

  mutating func field(_ name: StaticString, _ value: String) {
    begin(name)
    string(Array(value.utf8))
  }

  /// `value` needs no escapes.
  mutating func field(_ name: StaticString, _ value: StaticString) {
    begin(name)
    bytes.append(UInt8(ascii: "\""))
    raw(value)
    bytes.append(UInt8(ascii: "\""))
  }

  mutating func field(_ name: StaticString, bytes value: [UInt8]) {
    if String(validating: value, as: UTF8.self) != nil {
      begin(name)
      string(value)
    } else {
      begin(name, ending: "_base64")
      bytes.append(UInt8(ascii: "\""))
      Base64.append(value, to: &bytes)
      bytes.append(UInt8(ascii: "\""))
    }
  }

  /// All of them as base64 if one of them has to be.
  mutating func field(_ name: StaticString, list: [[UInt8]]) {
    let isText = list.allSatisfy { String(validating: $0, as: UTF8.self) != nil }
    begin(name, ending: isText ? "" : "_base64")
    bytes.append(UInt8(ascii: "["))
    for (index, element) in list.enumerated() {
      if index > 0 { bytes.append(UInt8(ascii: ",")) }
      if isText {
        string(element)
      } else {
        bytes.append(UInt8(ascii: "\""))
        Base64.append(element, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
      }
    }
    bytes.append(UInt8(ascii: "]"))
  }

  mutating func null(_ name: StaticString) {
    begin(name)
    raw("null")
  }

  private mutating func begin(_ name: StaticString, ending: StaticString = "") {
    if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
    bytes.append(UInt8(ascii: "\""))
    raw(name)
    raw(ending)
    raw("\":")
  }

  private mutating func raw(_ text: StaticString) {
    bytes.append(
      contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  private mutating func string(_ utf8: [UInt8]) {
    bytes.append(UInt8(ascii: "\""))
    for byte in utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(byte)
      case 0x0A: raw("\\n")
      case 0x0D: raw("\\r")
      case 0x09: raw("\\t")
      case 0..<0x20:
        raw("\\u00")
        bytes.append(Self.hexDigits[Int(byte >> 4)])
        bytes.append(Self.hexDigits[Int(byte & 15)])
      default: bytes.append(byte)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }

  private static let hexDigits = Array("0123456789abcdef".utf8)
}

/// RFC 4648, section 4.
enum Base64 {
  private static let alphabet = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  static func append(_ value: [UInt8], to text: inout [UInt8]) {
    var index = 0
    while index < value.count {
      let available = min(3, value.count - index)
      var group: UInt32 = 0
      for offset in 0..<3 {
        group = group << 8 | (offset < available ? UInt32(value[index + offset]) : 0)
      }
      for digit in 0..<4 {
        let isPadding = digit > available
        text.append(
          isPadding ? UInt8(ascii: "=") : alphabet[Int(group >> UInt32(18 - 6 * digit) & 63)])
      }
      index += 3
    }
  }
}
