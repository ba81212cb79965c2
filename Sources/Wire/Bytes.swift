/// Operations that borrowed bytes lack. The unsafe code of this module is here and in `ShortText`,
/// `GrowingText`, `ByteQueue` and `Array.append(atMost:_:)`.
///
/// Public so that other modules can inline these small functions: calls would cost more.
extension Span<UInt8> {
  /// Returns whether both have the same bytes. Compares eight at a time: keys are short.
  @inlinable
  public func hasSameBytes(as other: Span<UInt8>) -> Bool {
    guard count == other.count else { return false }
    var position = 0
    while position &+ 8 <= count {
      guard word(at: position) == other.word(at: position) else { return false }
      position &+= 8
    }
    return position == count
      || word(at: position, count: count &- position)
        == other.word(at: position, count: count &- position)
  }

  /// Returns eight bytes as a little-endian number.
  @inlinable @inline(__always)
  public func word(at position: Int) -> UInt64 {
    precondition(position >= 0 && position <= count &- 8)
    return load(at: position)
  }

  /// Returns up to eight bytes as a little-endian number, extended with zeros.
  @inlinable @inline(__always)
  public func word(at position: Int, count length: Int) -> UInt64 {
    precondition(position >= 0 && length >= 0 && position <= count &- length)
    if length >= 8 { return load(at: position) }
    // Loads two parts, which may overlap.
    if length >= 4 {
      let last: UInt32 = load(at: position &+ length &- 4)
      return UInt64(load(at: position) as UInt32)
        | UInt64(last) &<< UInt64(truncatingIfNeeded: (length &- 4) &* 8)
    }
    if length >= 2 {
      let last: UInt16 = load(at: position &+ length &- 2)
      return UInt64(load(at: position) as UInt16)
        | UInt64(last) &<< UInt64(truncatingIfNeeded: (length &- 2) &* 8)
    }
    return length == 0 ? 0 : UInt64(load(at: position) as UInt8)
  }

  /// Returns whether `\r\n` is at `position`.
  @inlinable @inline(__always)
  public func isLineEnd(at position: Int) -> Bool {
    precondition(position >= 0 && position <= count &- 2)
    return load(at: position) as UInt16 == 0x0A0D
  }

  /// Loads a little-endian number. The caller has checked the bounds.
  @inlinable @inline(__always)
  func load<Number: FixedWidthInteger & BitwiseCopyable>(at position: Int) -> Number {
    Number(
      littleEndian: unsafe bytes.unsafeLoadUnaligned(
        fromUncheckedByteOffset: position, as: Number.self))
  }

  @inlinable @inline(__always)
  public func allSatisfy(_ predicate: (UInt8) -> Bool) -> Bool {
    for index in indices where !predicate(self[index]) { return false }
    return true
  }

  @inlinable
  public func firstIndex(of byte: UInt8) -> Int? {
    for index in indices where self[index] == byte { return index }
    return nil
  }
}

extension [UInt8] {
  @inlinable
  public init(_ bytes: Span<UInt8>) {
    self = unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) }
  }

  @inlinable
  public mutating func append(contentsOf bytes: Span<UInt8>) {
    unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
  }

  @inlinable
  public static func + (first: [UInt8], second: Span<UInt8>) -> [UInt8] {
    var all = first
    all.append(contentsOf: second)
    return all
  }
}

extension String {
  /// Decodes UTF-8, and repairs invalid bytes.
  public init(decoding bytes: Span<UInt8>) {
    self = unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
  }

  /// Returns whether the bytes are valid UTF-8.
  public static func isValid(_ bytes: Span<UInt8>) -> Bool {
    (try? UTF8Span(validating: bytes)) != nil
  }
}

/// Calls `body` with `count` bytes, zero at first, that are valid only during the call.
@inlinable @inline(__always)
public func withTemporaryBytes<R>(_ count: Int, _ body: (inout MutableSpan<UInt8>) -> R) -> R {
  unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { memory in
    unsafe memory.initialize(repeating: 0)
    var bytes = unsafe memory.mutableSpan
    return body(&bytes)
  }
}

extension StaticString {
  /// The bytes of the literal, valid for as long as the program runs.
  @inlinable @inline(__always)
  public var bytes: Span<UInt8> {
    @_lifetime(immortal)
    get {
      let bytes = unsafe UnsafeBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
      return unsafe _overrideLifetime(bytes.span, copying: ())
    }
  }

  /// The address of the bytes: the same for the same literal.
  @inlinable @inline(__always)
  public var address: UInt { unsafe UInt(bitPattern: utf8Start) }
}
