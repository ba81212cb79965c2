/// Writes replies, in the protocol version of the connection.
///
/// Types that RESP2 lacks become the nearest one: maps become arrays of alternating names and
/// values, booleans 1 and 0, doubles bulk strings, sets and pushes arrays.
package struct RESPEncoder: Sendable {
  package enum Version: Int, Sendable {
    case resp2 = 2
    case resp3 = 3
  }

  package var version: Version
  /// Whether accepting replies have the reason `degraded`: other hosts may decide otherwise.
  package var isDegraded = false
  package var bytes: [UInt8] = []

  package init(_ version: Version = .resp2) { self.version = version }

  package mutating func simple(_ text: StaticString) {
    byte("+")
    raw(text)
    newline()
  }

  /// Writes an error. Escapes characters that are not printable: a line end would end the error
  /// early, and clients print errors unchanged.
  package mutating func error(_ text: String) {
    byte("-")
    bytes.append(contentsOf: text.printable.utf8)
    newline()
  }

  package mutating func integer(_ value: Int64) {
    append(atMost: 32) { $0.integer(value) }
  }

  package mutating func bulk(_ value: [UInt8]) { bulk(value.span) }

  package mutating func bulk(_ value: Span<UInt8>) {
    append(atMost: value.count + 32) { $0.bulk(value) }
  }

  package mutating func bulk(_ value: String) { bulk(value.utf8.span) }
  package mutating func bulk(_ value: StaticString) { bulk(value.bytes) }

  /// Writes human-readable text: a verbatim string in RESP3.
  package mutating func text(_ value: String) {
    guard version == .resp3 else { return bulk(value) }
    byte("=")
    decimal(Int64(value.utf8.count + 4))
    newline()
    raw("txt:")
    bytes.append(contentsOf: value.utf8)
    newline()
  }

  package mutating func null() {
    raw(version == .resp3 ? "_\r\n" : "$-1\r\n")
  }

  package mutating func boolean(_ value: Bool) {
    switch version {
    case .resp2: integer(value ? 1 : 0)
    case .resp3: raw(value ? "#t\r\n" : "#f\r\n")
    }
  }

  package mutating func double(_ value: Double) {
    switch version {
    case .resp2: bulk("\(value)")
    case .resp3:
      byte(",")
      bytes.append(contentsOf: "\(value)".utf8)
      newline()
    }
  }

  package mutating func array(_ count: Int) { header("*", count) }

  package mutating func map(_ count: Int) {
    switch version {
    case .resp2: header("*", count * 2)
    case .resp3: header("%", count)
    }
  }

  package mutating func set(_ count: Int) {
    switch version {
    case .resp2: header("*", count)
    case .resp3: header("~", count)
    }
  }

  package mutating func push(_ count: Int) {
    switch version {
    case .resp2: header("*", count)
    case .resp3: header(">", count)
    }
  }

  // MARK: Short texts

  /// Appends what `body` writes in one step: each append to an array checks its storage.
  ///
  /// - Parameter maximum: how many bytes it may be.
  @inline(__always)
  package mutating func append(atMost maximum: Int, _ body: (inout ShortText) -> Void) {
    bytes.append(atMost: maximum, body)
  }

  /// Writes an array of three integers, the first of which has one digit.
  package mutating func integers(_ digit: UInt8, _ second: Int64, _ third: Int64) {
    append(atMost: 80) {
      // `*3\r\n:0\r\n`, with the digit in place of the 0.
      $0.word(0x0A0D_303A_0A0D_332A + UInt64(digit) << 40, count: 8)
      $0.integer(second)
      $0.integer(third)
    }
  }

  package mutating func pair(_ name: StaticString, _ value: Int64) {
    append(atMost: name.utf8CodeUnitCount + 48) {
      $0.bulk(name)
      $0.integer(value)
    }
  }

  package mutating func pair(_ name: StaticString, _ value: StaticString) {
    append(atMost: name.utf8CodeUnitCount + value.utf8CodeUnitCount + 48) {
      $0.bulk(name)
      $0.bulk(value)
    }
  }

  package mutating func pair(_ name: StaticString, _ value: String) {
    bulk(name)
    bulk(value)
  }

  // MARK: Bytes

  private mutating func header(_ type: Unicode.Scalar, _ count: Int) {
    append(atMost: 32) { $0.header(type, count) }
  }

  private mutating func byte(_ scalar: Unicode.Scalar) { bytes.append(UInt8(ascii: scalar)) }

  private mutating func newline() {
    bytes.append(0x0D)
    bytes.append(0x0A)
  }

  private mutating func raw(_ text: StaticString) {
    bytes.append(contentsOf: text.bytes)
  }

  private mutating func decimal(_ value: Int64) {
    bytes.appendDecimal(value)
  }
}

extension [UInt8] {
  /// The decimal digits of a value of at most 64 bits.
  package init(decimal value: some FixedWidthInteger) {
    self = value < 0 ? [UInt8(ascii: "-")] : []
    let magnitude = UInt64(value.magnitude)
    append(atMost: 20) { $0.decimal(magnitude) }
  }

  /// Appends the decimal digits of `value`, without creating a String.
  package mutating func appendDecimal(_ value: Int64) {
    if value >= 0 && value < 10 {
      append(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value))
      return
    }
    if value < 0 { append(UInt8(ascii: "-")) }
    let magnitude = value.magnitude
    append(atMost: 20) { $0.decimal(magnitude) }
  }

  /// Appends what `body` writes. Public for the same reason as `ShortText`.
  ///
  /// - Parameter maximum: how many bytes it may be.
  @inlinable @inline(__always)
  public mutating func append(atMost maximum: Int, _ body: (inout ShortText) -> Void) {
    append(addingCapacity: maximum) { output in
      unsafe output.withUnsafeMutableBufferPointer { memory, count in
        var text = unsafe ShortText(UnsafeMutableRawBufferPointer(memory))
        body(&text)
        count = text.count
      }
    }
  }
}
