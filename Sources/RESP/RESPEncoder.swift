/// Writes replies, in the version of the protocol that the connection speaks.
///
/// What RESP2 has no type for is written as its nearest: maps as arrays of names and values in
/// turn, booleans as 1 and 0, doubles as bulk strings, pushes as arrays.
package struct RESPEncoder: Sendable {
  package enum Version: Int, Sendable {
    case resp2 = 2
    case resp3 = 3
  }

  package var version: Version
  package var bytes: [UInt8] = []

  package init(_ version: Version = .resp2) { self.version = version }

  package mutating func simple(_ text: StaticString) {
    byte("+")
    raw(text)
    newline()
  }

  /// An error. Line ends in it, which would end it early, are written as blanks.
  package mutating func error(_ text: String) {
    byte("-")
    for byte in text.utf8 { bytes.append(byte == 0x0D || byte == 0x0A ? 0x20 : byte) }
    newline()
  }

  package mutating func integer(_ value: Int64) {
    byte(":")
    decimal(value)
    newline()
  }

  package mutating func bulk(_ value: [UInt8]) {
    value.withUnsafeBytes { bulk($0) }
  }

  package mutating func bulk(_ value: UnsafeRawBufferPointer) {
    byte("$")
    decimal(Int64(value.count))
    newline()
    bytes.append(contentsOf: value)
    newline()
  }

  package mutating func bulk(_ value: String) {
    var value = value
    value.withUTF8 { bulk(UnsafeRawBufferPointer($0)) }
  }

  package mutating func bulk(_ value: StaticString) {
    bulk(UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
  }

  /// Text for people: RESP3 clients are told that it is.
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

  // MARK: Pairs

  // Replies are mostly pairs of a name and something short. Each is put together first and appended
  // in one go: an array looks at itself at each append.

  package mutating func pair(_ name: StaticString, _ value: Int64) {
    appendPair(name, atMost: 24) {
      $0.byte(":")
      $0.decimal(value)
      $0.newline()
    }
  }

  package mutating func pair(_ name: StaticString, _ value: StaticString) {
    pair(name, UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
  }

  package mutating func pair(_ name: StaticString, _ value: UnsafeRawBufferPointer) {
    guard value.count <= 512 else {
      bulk(name)
      return bulk(value)
    }
    appendPair(name, atMost: value.count + 24) {
      $0.byte("$")
      $0.decimal(Int64(value.count))
      $0.newline()
      $0.raw(value)
      $0.newline()
    }
  }

  package mutating func pairWithNull(_ name: StaticString) {
    let isRESP3 = version == .resp3
    appendPair(name, atMost: 8) { $0.raw(isRESP3 ? "_\r\n" : "$-1\r\n") }
  }

  private mutating func appendPair(
    _ name: StaticString, atMost most: Int, _ value: (inout ShortText) -> Void
  ) {
    withUnsafeTemporaryAllocation(
      of: UInt8.self, capacity: name.utf8CodeUnitCount + 24 + most
    ) { memory in
      var text = ShortText(memory)
      text.byte("$")
      text.decimal(Int64(name.utf8CodeUnitCount))
      text.newline()
      text.raw(name)
      text.newline()
      value(&text)
      bytes.append(contentsOf: UnsafeBufferPointer(rebasing: memory[..<text.count]))
    }
  }

  // MARK: Bytes

  private mutating func header(_ type: Unicode.Scalar, _ count: Int) {
    byte(type)
    decimal(Int64(count))
    newline()
  }

  private mutating func byte(_ scalar: Unicode.Scalar) { bytes.append(UInt8(ascii: scalar)) }

  private mutating func newline() {
    bytes.append(0x0D)
    bytes.append(0x0A)
  }

  private mutating func raw(_ text: StaticString) {
    bytes.append(
      contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  private mutating func decimal(_ value: Int64) {
    bytes.appendDecimal(value)
  }
}

/// A few bytes in memory that is large enough for them.
private struct ShortText {
  private let memory: UnsafeMutableBufferPointer<UInt8>
  private(set) var count = 0

  init(_ memory: UnsafeMutableBufferPointer<UInt8>) { self.memory = memory }

  mutating func byte(_ scalar: Unicode.Scalar) {
    memory[count] = UInt8(ascii: scalar)
    count &+= 1
  }

  mutating func newline() {
    byte("\r")
    byte("\n")
  }

  mutating func raw(_ text: StaticString) {
    raw(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  mutating func raw(_ text: UnsafeRawBufferPointer) {
    UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(memory)[count...])
      .copyMemory(from: text)
    count &+= text.count
  }

  mutating func decimal(_ value: Int64) {
    if value < 0 { byte("-") }
    var rest = value.magnitude
    var length = 1
    var power: UInt64 = 10
    while length < 20, rest >= power {
      length &+= 1
      if length < 20 { power &*= 10 }
    }
    var position = count &+ length
    repeat {
      position &-= 1
      memory[position] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest % 10)
      rest /= 10
    } while rest > 0
    count &+= length
  }
}

extension [UInt8] {
  /// Appends the decimal digits of `value`, without a String in between.
  package mutating func appendDecimal(_ value: Int64) {
    if value >= 0 && value < 10 {
      append(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value))
      return
    }
    if value < 0 { append(UInt8(ascii: "-")) }
    var rest = value.magnitude
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
      var first = 20
      while rest > 0 {
        first -= 1
        digits[first] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest % 10)
        rest /= 10
      }
      append(contentsOf: digits[first..<20])
    }
  }
}
