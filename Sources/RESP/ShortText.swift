/// Bytes put together in memory that is lent, and large enough for them: whoever lends it sees to that.
package struct ShortText {
  private let start: UnsafeMutableRawPointer
  private var end: UnsafeMutableRawPointer
  private let capacity: Int

  package init(_ memory: UnsafeMutableRawBufferPointer) {
    start = memory.baseAddress!
    end = start
    capacity = memory.count
  }

  package var count: Int { end - start }

  @inline(__always)
  private mutating func advance(_ count: Int) {
    precondition(self.count + count <= capacity)
    end += count
  }

  @inline(__always)
  package mutating func byte(_ byte: UInt8) {
    end.storeBytes(of: byte, as: UInt8.self)
    advance(1)
  }

  @inline(__always)
  package mutating func newline() {
    end.storeBytes(of: 0x0A0D, as: UInt16.self)
    advance(2)
  }

  @inline(__always)
  package mutating func raw(_ text: StaticString) {
    end.copyMemory(from: text.utf8Start, byteCount: text.utf8CodeUnitCount)
    advance(text.utf8CodeUnitCount)
  }

  @inline(__always)
  package mutating func raw(_ text: UnsafeRawBufferPointer) {
    guard let source = text.baseAddress else { return }
    end.copyMemory(from: source, byteCount: text.count)
    advance(text.count)
  }

  package mutating func decimal(_ value: Int64) {
    if value < 0 { byte(UInt8(ascii: "-")) }
    decimal(value.magnitude)
  }

  /// Two digits at a time, as dividing is what takes time.
  package mutating func decimal(_ value: UInt64) {
    if value < 10 { return byte(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value)) }
    var length = 2
    var power: UInt64 = 100
    while length < 20, value >= power {
      length &+= 1
      // 10²⁰ is more than fits; there are no more digits then.
      power = length < 20 ? power &* 10 : power
    }
    var place = end + length
    advance(length)
    var rest = value
    while rest >= 10 {
      let (quotient, remainder) = rest.quotientAndRemainder(dividingBy: 100)
      place -= 2
      place.copyMemory(from: Self.pairs.utf8Start + 2 * Int(remainder), byteCount: 2)
      rest = quotient
      if rest == 0 { return }
    }
    place -= 1
    place.storeBytes(of: UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest), as: UInt8.self)
  }

  private static let pairs: StaticString = """
    0001020304050607080910111213141516171819\
    2021222324252627282930313233343536373839\
    4041424344454647484950515253545556575859\
    6061626364656667686970717273747576777879\
    8081828384858687888990919293949596979899
    """

  // MARK: Replies

  package mutating func integer(_ value: Int64) {
    byte(UInt8(ascii: ":"))
    decimal(value)
    newline()
  }

  @inline(__always)
  package mutating func bulk(_ text: StaticString) {
    bulk(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  package mutating func bulk(_ text: UnsafeRawBufferPointer) {
    byte(UInt8(ascii: "$"))
    decimal(UInt64(text.count))
    newline()
    raw(text)
    newline()
  }

  /// Two parts of one string.
  package mutating func bulk(_ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer) {
    byte(UInt8(ascii: "$"))
    decimal(UInt64(first.count + second.count))
    newline()
    raw(first)
    raw(second)
    newline()
  }
}
