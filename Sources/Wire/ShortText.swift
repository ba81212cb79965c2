/// Builds bytes in borrowed memory. Writing past the end of the memory is a runtime error.
///
/// Public so that other modules can inline its small functions: calls would cost more.
@safe
public struct ShortText {
  @usableFromInline let start: UnsafeMutableRawPointer
  @usableFromInline var end: UnsafeMutableRawPointer
  @usableFromInline let limit: UnsafeMutableRawPointer

  @inlinable @unsafe
  public init(_ memory: UnsafeMutableRawBufferPointer) {
    unsafe start = memory.baseAddress!
    unsafe end = start
    unsafe limit = start + memory.count
  }

  /// Calls `body` with temporary memory, valid only during the call.
  @inlinable @inline(__always)
  public static func withTemporary<R>(atMost maximum: Int, _ body: (inout ShortText) -> R) -> R {
    unsafe withUnsafeTemporaryAllocation(byteCount: maximum, alignment: 8) { memory in
      var text = unsafe ShortText(memory)
      return body(&text)
    }
  }

  @inlinable
  public var count: Int { unsafe end - start }

  /// The written bytes.
  @inlinable
  public var bytes: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let bytes = unsafe UnsafeRawBufferPointer(start: start, count: count)
      return unsafe _overrideLifetime(
        bytes.assumingMemoryBound(to: UInt8.self).span, borrowing: self)
    }
  }

  /// The number of bytes that still fit.
  @inlinable
  var room: Int { unsafe limit - end }

  /// Reserves `count` bytes, and returns where they begin. Checks first that they fit.
  @inlinable @inline(__always)
  mutating func take(_ count: Int) -> UnsafeMutableRawPointer {
    precondition(count <= room, "the memory is large enough")
    defer { unsafe end += count }
    return unsafe end
  }

  @inlinable @inline(__always)
  public mutating func byte(_ byte: UInt8) {
    unsafe take(1).storeBytes(of: byte, as: UInt8.self)
  }

  @inlinable @inline(__always)
  public mutating func newline() {
    unsafe take(2).storeBytes(of: 0x0A0D, as: UInt16.self)
  }

  @inlinable @inline(__always)
  public mutating func raw(_ text: StaticString) {
    raw(text.bytes)
  }

  @inlinable @inline(__always)
  public mutating func raw(_ text: Span<UInt8>) {
    // Writes names and most keys without a call: as one word, or as two that may overlap.
    if text.count < 8 { return word(text.word(at: 0, count: text.count), count: text.count) }
    let target = unsafe take(text.count)
    if text.count <= 16 {
      let last = text.count &- 8
      unsafe target.storeBytes(of: text.word(at: 0).littleEndian, as: UInt64.self)
      unsafe (target + last).storeBytes(of: text.word(at: last).littleEndian, as: UInt64.self)
      return
    }
    unsafe text.withUnsafeBytes {
      unsafe target.copyMemory(from: $0.baseAddress!, byteCount: $0.count)
    }
  }

  /// Writes the header of a value, such as `*3` or `$5`.
  mutating func header(_ type: Unicode.Scalar, _ count: Int) {
    byte(UInt8(ascii: type))
    decimal(UInt64(count))
    newline()
  }

  public mutating func decimal(_ value: Int64) {
    if value < 0 { byte(UInt8(ascii: "-")) }
    decimal(value.magnitude)
  }

  public mutating func decimal(_ value: UInt64) {
    if value < Self.shortEnd, room >= 16 { return digits(value) }
    let (maximum, last) = value.quotientAndRemainder(dividingBy: Self.eightDigitsEnd)
    let text = Self.eightDigits(UInt32(truncatingIfNeeded: last))
    if maximum > 0 {
      decimal(maximum)
      word(text, count: 8)
    } else {
      let zeros = Self.leadingZeros(text)
      word(text >> UInt64(8 * zeros), count: 8 - zeros)
    }
  }

  private static let eightDigitsEnd: UInt64 = 100_000_000
  private static let shortEnd = eightDigitsEnd * eightDigitsEnd

  /// Writes a number of up to 16 digits, such as milliseconds since 1970, where 16 bytes fit.
  /// Converts eight digits at a time, as divisions are slow.
  @inline(__always)
  private mutating func digits(_ value: UInt64) {
    guard value >= Self.eightDigitsEnd else {
      return fewDigits(UInt32(truncatingIfNeeded: value))
    }
    let (maximum, last) = value.quotientAndRemainder(dividingBy: Self.eightDigitsEnd)
    fewDigits(UInt32(truncatingIfNeeded: maximum))
    let text = Self.eightDigits(UInt32(truncatingIfNeeded: last))
    unsafe end.storeBytes(of: text.littleEndian, as: UInt64.self)
    unsafe end += 8
  }

  /// Writes a number of up to eight digits, where eight bytes fit.
  @inline(__always)
  private mutating func fewDigits(_ value: UInt32) {
    guard value >= 10 else {
      let digit = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value)
      unsafe end.storeBytes(of: digit, as: UInt8.self)
      unsafe end += 1
      return
    }
    let text = Self.eightDigits(value)
    let zeros = Self.leadingZeros(text)
    unsafe end.storeBytes(of: (text >> UInt64(8 * zeros)).littleEndian, as: UInt64.self)
    unsafe end += 8 &- zeros
  }

  /// Returns the number of leading zeros among eight digits; the last digit does not count.
  @inline(__always)
  private static func leadingZeros(_ digits: UInt64) -> Int {
    // A zero is the byte 0x30.
    min((digits ^ zeros).trailingZeroBitCount / 8, 7)
  }

  /// Writes the lowest `length` bytes of a number, lowest first.
  @inlinable @inline(__always)
  public mutating func word(_ word: UInt64, count length: Int) {
    precondition(length >= 0 && length <= 8)
    guard room >= 8 else { return lastWord(word, count: length) }
    // The next write overwrites the excess bytes.
    unsafe end.storeBytes(of: word.littleEndian, as: UInt64.self)
    unsafe end += length
  }

  /// Writes as `word` does, where fewer than eight bytes fit.
  @usableFromInline
  mutating func lastWord(_ word: UInt64, count length: Int) {
    precondition(length <= room, "the memory is large enough")
    for offset in 0..<UInt64(length) { byte(UInt8(truncatingIfNeeded: word >> (8 * offset))) }
  }

  /// Overwrites the four bytes at `offset`.
  @inlinable @inline(__always)
  public func overwrite(at offset: Int, with number: UInt32) {
    precondition(offset >= 0 && offset <= count - 4, "only what is there can be written over")
    unsafe (start + offset).storeBytes(of: number.littleEndian, as: UInt32.self)
  }

  private static let zeros: UInt64 = 0x3030_3030_3030_3030

  /// Returns the digits of a number below 10⁸, the first in the lowest byte. Halves the number, and
  /// then all halves at once, until each is a digit. A division by a constant is a multiplication
  /// and a shift.
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
    if value >= 0, value < 10 { return word(0x0A0D_303A | UInt64(value) << 8, count: 4) }
    guard value > 0, UInt64(truncatingIfNeeded: value) < Self.shortEnd, room >= 24 else {
      byte(UInt8(ascii: ":"))
      decimal(value)
      return newline()
    }
    unsafe end.storeBytes(of: UInt8(ascii: ":"), as: UInt8.self)
    unsafe end += 1
    digits(UInt64(truncatingIfNeeded: value))
    unsafe end.storeBytes(of: (0x0A0D as UInt16).littleEndian, as: UInt16.self)
    unsafe end += 2
  }

  /// Writes a bulk string. For a literal, length and header are constants: a few stores remain.
  @inlinable @inline(__always)
  public mutating func bulk(_ text: StaticString) {
    let count = text.utf8CodeUnitCount
    guard count <= 16, room >= 24 else { return bulk(text.bytes) }
    let header = UInt64(count)
    if count < 10 {
      unsafe end.storeBytes(of: (0x0A0D_3024 | header << 8).littleEndian, as: UInt64.self)
      unsafe end += 4
    } else {
      let digits = (header / 10) << 8 | (header % 10) << 16
      unsafe end.storeBytes(of: (0x0A_0D30_3024 | digits).littleEndian, as: UInt64.self)
      unsafe end += 5
    }
    // A store may write excess bytes, which the next one overwrites.
    let bytes = text.bytes
    unsafe end.storeBytes(of: bytes.word(at: 0, count: min(count, 8)).littleEndian, as: UInt64.self)
    if count > 8 {
      let last = count &- 8
      unsafe (end + last).storeBytes(of: bytes.word(at: last).littleEndian, as: UInt64.self)
    }
    unsafe (end + count).storeBytes(of: (0x0A0D as UInt16).littleEndian, as: UInt16.self)
    unsafe end += count &+ 2
  }

  public mutating func bulk(_ text: Span<UInt8>) {
    bulkHeader(text.count)
    raw(text)
    newline()
  }

  /// Writes two parts as one bulk string.
  public mutating func bulk(_ first: Span<UInt8>, _ second: Span<UInt8>) {
    bulkHeader(first.count + second.count)
    raw(first)
    raw(second)
    newline()
  }

  /// Writes the header of a bulk string, such as `$16\r\n`.
  private mutating func bulkHeader(_ count: Int) {
    let number = UInt64(count)
    guard number >= 10 else { return word(0x0A0D_3024 | number << 8, count: 4) }
    guard number >= 100 else {
      return word(0x0A_0D30_3024 | (number / 10) << 8 | (number % 10) << 16, count: 5)
    }
    byte(UInt8(ascii: "$"))
    decimal(number)
    newline()
  }
}
