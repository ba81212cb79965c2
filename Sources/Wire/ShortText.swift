/// Bytes put together in memory that is lent, and large enough for them: whoever lends it sees to that.
///
/// Public, as only then other modules have copies of its small steps, which cost less than the calls.
public struct ShortText {
  @usableFromInline let start: UnsafeMutableRawPointer
  @usableFromInline var end: UnsafeMutableRawPointer
  @usableFromInline let capacity: Int

  @inlinable
  public init(_ memory: UnsafeMutableRawBufferPointer) {
    start = memory.baseAddress!
    end = start
    capacity = memory.count
  }

  @inlinable
  public var count: Int { end - start }

  /// Takes room for so many bytes, and returns where it begins. Checks that there is room before
  /// anything is written.
  @inlinable @inline(__always)
  mutating func take(_ count: Int) -> UnsafeMutableRawPointer {
    precondition(count <= capacity - self.count, "the memory is large enough")
    defer { end += count }
    return end
  }

  @inlinable @inline(__always)
  public mutating func byte(_ byte: UInt8) {
    take(1).storeBytes(of: byte, as: UInt8.self)
  }

  @inlinable @inline(__always)
  public mutating func newline() {
    take(2).storeBytes(of: 0x0A0D, as: UInt16.self)
  }

  @inlinable @inline(__always)
  public mutating func raw(_ text: StaticString) {
    take(text.utf8CodeUnitCount)
      .copyMemory(from: text.utf8Start, byteCount: text.utf8CodeUnitCount)
  }

  @inlinable @inline(__always)
  public mutating func raw(_ text: UnsafeRawBufferPointer) {
    guard let source = text.baseAddress else { return }
    take(text.count).copyMemory(from: source, byteCount: text.count)
  }

  public mutating func decimal(_ value: Int64) {
    if value < 0 { byte(UInt8(ascii: "-")) }
    decimal(value.magnitude)
  }

  /// Eight digits at a time, as dividing is what takes time.
  public mutating func decimal(_ value: UInt64) {
    let part: UInt64 = 100_000_000
    if value < part { return leading(UInt32(truncatingIfNeeded: value)) }
    let (most, last) = value.quotientAndRemainder(dividingBy: part)
    decimal(most)
    let digits = Self.eightDigits(UInt32(truncatingIfNeeded: last))
    take(8).storeBytes(of: digits.littleEndian, as: UInt64.self)
  }

  /// A number of up to eight digits, without zeros before it.
  private mutating func leading(_ value: UInt32) {
    guard value >= 10 else { return byte(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value)) }
    let digits = Self.eightDigits(value)
    // What is a zero is the byte 0x30.
    let zeros = (digits ^ Self.zeros).trailingZeroBitCount & ~7
    let shown = (digits >> UInt64(zeros)).littleEndian
    let length = 8 - zeros / 8
    if capacity - count >= 8 {
      // The bytes behind its digits are overwritten by what follows.
      end.storeBytes(of: shown, as: UInt64.self)
      end += length
    } else {
      withUnsafeBytes(of: shown) { raw(UnsafeRawBufferPointer(rebasing: $0[..<length])) }
    }
  }

  private static let zeros: UInt64 = 0x3030_3030_3030_3030

  /// The digits of a number below 10⁸, the first in the lowest byte. It is halved, and all halves are
  /// halved at once, until each is a digit; a division by a constant is a multiplication and a shift.
  @inline(__always)
  private static func eightDigits(_ value: UInt32) -> UInt64 {
    let fours = UInt64(value / 10_000) | UInt64(value % 10_000) << 32
    let hundreds = (fours &* 10_486) >> 20 & 0x0000_007F_0000_007F
    let twos = hundreds | (fours &- hundreds &* 100) << 16
    let tens = (twos &* 103) >> 10 & 0x000F_000F_000F_000F
    return (tens | (twos &- tens &* 10) << 8) | zeros
  }

  // MARK: Replies

  public mutating func integer(_ value: Int64) {
    byte(UInt8(ascii: ":"))
    decimal(value)
    newline()
  }

  @inlinable @inline(__always)
  public mutating func bulk(_ text: StaticString) {
    bulk(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  public mutating func bulk(_ text: UnsafeRawBufferPointer) {
    byte(UInt8(ascii: "$"))
    decimal(UInt64(text.count))
    newline()
    raw(text)
    newline()
  }

  /// Two parts of one string.
  public mutating func bulk(_ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer) {
    byte(UInt8(ascii: "$"))
    decimal(UInt64(first.count + second.count))
    newline()
    raw(first)
    raw(second)
    newline()
  }
}
