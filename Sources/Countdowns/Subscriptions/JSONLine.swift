import Wire

/// JSON objects, each on one line, written field by field.
///
/// Bytes that are not UTF-8 cannot be JSON text; they are written as base64, and the field's
/// name gets the ending `_base64`.
struct JSONLine: FieldWriter, ~Copyable {
  /// Bytes for what is around a name or a value, and for the digits of a number.
  private static let overhead = 32

  private var text = GrowingText()
  /// Whether the next field is the first of the line, or of the record being written.
  private var isFirst = true

  /// The bytes so far: lines, and what was appended between them.
  var bytes: Span<UInt8> {
    @_lifetime(borrow self)
    get { text.bytes }
  }
  var count: Int { text.count }

  /// Begins a line.
  mutating func begin() {
    text.append(atMost: 1) { $0.byte(UInt8(ascii: "{")) }
    isFirst = true
  }

  /// Ends the line.
  mutating func end() { text.append(atMost: 1) { $0.byte(UInt8(ascii: "}")) } }

  /// Appends bytes that belong to no line.
  mutating func append(_ bytes: Span<UInt8>) {
    text.append(atMost: bytes.count) { $0.raw(bytes) }
  }

  /// Removes all lines. Keeps some of the memory.
  mutating func removeAll() { text.removeAll() }

  // MARK: Fields with names that are known when it is compiled

  mutating func field(_ name: StaticString, _ value: Int64) { field(named: name.bytes, value) }
  mutating func field(_ name: StaticString, _ value: Bool) { field(named: name.bytes, value) }
  mutating func field(_ name: StaticString, _ value: Double) { field(named: name.bytes, value) }
  mutating func null(_ name: StaticString) { null(named: name.bytes) }

  mutating func field(_ name: StaticString, _ value: String) {
    field(named: name.bytes, bytes: value.utf8.span)
  }

  /// Writes a field whose value needs no escapes.
  mutating func field(_ name: StaticString, _ value: StaticString) {
    append(name.bytes, atMost: value.utf8CodeUnitCount) {
      $0.byte(UInt8(ascii: "\""))
      $0.raw(value)
      $0.byte(UInt8(ascii: "\""))
    }
  }

  mutating func field(_ name: StaticString, bytes value: [UInt8]) {
    field(named: name.bytes, bytes: value.span)
  }

  mutating func field(_ name: StaticString, bytes value: Span<UInt8>) {
    field(named: name.bytes, bytes: value)
  }

  mutating func field(_ name: StaticString, list: [[UInt8]]) {
    field(named: name.bytes, list: list)
  }

  mutating func field(_ name: StaticString, records: [some FieldRecord]) {
    beginRecords(named: name.bytes)
    for (index, record) in records.enumerated() {
      beginRecord(isFirst: index == 0)
      record.write(to: &self)
      endRecord()
    }
    endRecords()
  }

  /// Appends fields that `body` writes itself, each with a comma before it.
  @inline(__always)
  mutating func fields(atMost maximum: Int, _ body: (inout ShortText) -> Void) {
    isFirst = false
    text.append(atMost: maximum, body)
  }

  /// Appends the fields of a whole line, as the first ones.
  mutating func fields(of line: Span<UInt8>) {
    fields(atMost: line.count) { $0.raw(line.extracting(1..<line.count - 1)) }
  }

  // MARK: Fields with any names; they need no escapes

  mutating func field(named name: Span<UInt8>, _ value: Int64) {
    append(name) { $0.decimal(value) }
  }

  mutating func field(named name: Span<UInt8>, _ value: Bool) {
    append(name) { $0.raw(value ? "true" : "false") }
  }

  mutating func field(named name: Span<UInt8>, _ value: Double) {
    let digits = "\(value)"
    append(name, atMost: digits.utf8.count) { $0.raw(digits.utf8.span) }
  }

  mutating func null(named name: Span<UInt8>) {
    append(name) { $0.raw("null") }
  }

  mutating func field(named name: Span<UInt8>, bytes value: Span<UInt8>) {
    guard !JSONString.isPlain(value) else {
      return append(name, atMost: value.count + 2) { JSONString.writePlain(value, to: &$0) }
    }
    let isText = JSONString.canBeText(value)
    append(name, ending: isText ? "" : "_base64", atMost: JSONString.maximumBytes(value)) {
      if isText {
        JSONString.write(value, to: &$0)
      } else {
        JSONString.writeBase64(value, to: &$0)
      }
    }
  }

  /// Writes a list of texts: all of them as base64 if one of them has to be.
  mutating func field(named name: Span<UInt8>, list: [[UInt8]]) {
    let isText = list.allSatisfy { JSONString.canBeText($0.span) }
    append(name, ending: isText ? "" : "_base64") { $0.byte(UInt8(ascii: "[")) }
    for (index, element) in list.enumerated() {
      let element = element.span
      text.append(atMost: JSONString.maximumBytes(element) + 1) {
        if index > 0 { $0.byte(UInt8(ascii: ",")) }
        if isText {
          JSONString.write(element, to: &$0)
        } else {
          JSONString.writeBase64(element, to: &$0)
        }
      }
    }
    text.append(atMost: 1) { $0.byte(UInt8(ascii: "]")) }
  }

  // MARK: Records

  mutating func beginRecords(named name: Span<UInt8>) {
    append(name) { $0.byte(UInt8(ascii: "[")) }
  }

  mutating func beginRecord(isFirst: Bool) {
    text.append(atMost: 2) { $0.raw(isFirst ? "{" : ",{") }
    self.isFirst = true
  }

  mutating func endRecord() { text.append(atMost: 1) { $0.byte(UInt8(ascii: "}")) } }

  mutating func endRecords() {
    text.append(atMost: 1) { $0.byte(UInt8(ascii: "]")) }
    isFirst = false
  }

  static let base64Digits = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  /// Appends a field. `body` writes its value: a number, or at most `most` bytes.
  @inline(__always)
  private mutating func append(
    _ name: Span<UInt8>, ending: StaticString = "", atMost maximum: Int = 0,
    _ body: (inout ShortText) -> Void
  ) {
    let isFirst = isFirst
    self.isFirst = false
    text.append(atMost: name.count + ending.utf8CodeUnitCount + maximum + Self.overhead) {
      if !isFirst { $0.byte(UInt8(ascii: ",")) }
      $0.byte(UInt8(ascii: "\""))
      $0.raw(name)
      $0.raw(ending)
      $0.raw("\":")
      body(&$0)
    }
  }
}

/// Strings of JSON, quotes included.
private enum JSONString {
  /// Returns the most bytes of a string: each byte may be an escape of six.
  static func maximumBytes(_ bytes: Span<UInt8>) -> Int { bytes.count * 6 + 4 }

  /// Returns whether a text is ASCII without anything to escape.
  static func isPlain(_ bytes: Span<UInt8>) -> Bool {
    var position = 0
    while position < bytes.count {
      let count = min(bytes.count - position, 8)
      let blanks: UInt64 = count == 8 ? 0 : 0x2020_2020_2020_2020 << UInt64(count * 8)
      guard (bytes.word(at: position, count: count) | blanks).isPlainText else { return false }
      position += count
    }
    return true
  }

  static func writePlain(_ bytes: Span<UInt8>, to text: inout ShortText) {
    text.byte(UInt8(ascii: "\""))
    text.raw(bytes)
    text.byte(UInt8(ascii: "\""))
  }

  static func canBeText(_ bytes: Span<UInt8>) -> Bool {
    bytes.allSatisfy { $0 < 0x80 } || String.isValid(bytes)
  }

  static func write(_ utf8: Span<UInt8>, to text: inout ShortText) {
    text.byte(UInt8(ascii: "\""))
    if utf8.allSatisfy({ $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) {
      text.raw(utf8)
    } else {
      for index in utf8.indices { writeEscaped(utf8[index], to: &text) }
    }
    text.byte(UInt8(ascii: "\""))
  }

  private static func writeEscaped(_ byte: UInt8, to text: inout ShortText) {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"):
      text.byte(UInt8(ascii: "\\"))
      text.byte(byte)
    case 0x0A: text.raw("\\n")
    case 0x0D: text.raw("\\r")
    case 0x09: text.raw("\\t")
    case 0..<0x20:
      text.raw("\\u00")
      text.byte(hexDigit(byte >> 4))
      text.byte(hexDigit(byte & 15))
    default: text.byte(byte)
    }
  }

  private static func hexDigit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
  }

  /// Writes base64 (RFC 4648, section 4) without Foundation, which the engine does not import.
  static func writeBase64(_ bytes: Span<UInt8>, to text: inout ShortText) {
    text.byte(UInt8(ascii: "\""))
    var index = 0
    while index < bytes.count {
      let available = min(3, bytes.count - index)
      var group: UInt32 = 0
      for offset in 0..<3 {
        group = group << 8 | (offset < available ? UInt32(bytes[index + offset]) : 0)
      }
      for digit in 0..<4 {
        let value = Int(group >> UInt32(18 - 6 * digit) & 63)
        text.byte(digit > available ? UInt8(ascii: "=") : JSONLine.base64Digits[value])
      }
      index += 3
    }
    text.byte(UInt8(ascii: "\""))
  }
}
