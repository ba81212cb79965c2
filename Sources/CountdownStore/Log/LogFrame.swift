import CLog

/// A frame of the change log: the changes of one batch. Numbers are little-endian.
///
///     0   CRC32C of all that follows, without the padding
///     4   length of the payload in bytes
///     8   number of the batch: one more than that of the frame before
///     16  number of the start that wrote it
///     20  seal of the log: a random number that no client knows. Segments are used again, and bytes
///         of a record may look like a frame; 0 in logs without one
///     24  payload; zeros up to a multiple of 8
struct LogFrame {
  static let headerLength = 24
  /// The most bytes of a payload: its length has 4 bytes.
  static let longestPayload = Int(UInt32.max)

  let number: UInt64
  let start: UInt32
  let seal: UInt32
  /// The range of the payload in the bytes that the frame was read from.
  let payload: Range<Int>

  /// Where the next frame begins.
  var end: Int { Self.padded(payload.upperBound) }

  static func padded(_ length: Int) -> Int { (length + 7) & ~7 }

  /// Writes a frame to `frame`, reusing its memory.
  static func write(
    _ payload: [UInt8], number: UInt64, start: UInt32, seal: UInt32 = 0, to frame: inout [UInt8]
  ) {
    frame.removeAll(keepingCapacity: frame.capacity <= 1 << 20)
    frame.reserveCapacity(padded(headerLength + payload.count))
    frame.append(contentsOf: repeatElement(0, count: headerLength))
    frame += payload
    put(UInt32(payload.count), at: 4, in: &frame)
    put(number, at: 8, in: &frame)
    put(start, at: 16, in: &frame)
    put(seal, at: 20, in: &frame)
    put(CRC32C.checksum(frame[4...]), at: 0, in: &frame)
    frame.append(contentsOf: repeatElement(0, count: padded(frame.count) - frame.count))
  }

  /// Reads the frame at an offset. Returns nil if there is no complete, unchanged one.
  ///
  /// - Parameter numbers: the batch numbers to accept; others are rejected at once.
  init?(in bytes: [UInt8], at offset: Int, numbers: ClosedRange<UInt64> = 1...UInt64.max) {
    guard offset + Self.headerLength <= bytes.count else { return nil }
    number = Self.get(at: offset + 8, in: bytes)
    guard numbers.contains(number) else { return nil }
    let length: UInt32 = Self.get(at: offset + 4, in: bytes)
    guard Int(length) <= bytes.count - offset - Self.headerLength else { return nil }
    start = Self.get(at: offset + 16, in: bytes)
    seal = Self.get(at: offset + 20, in: bytes)
    payload = offset + Self.headerLength..<offset + Self.headerLength + Int(length)
    guard
      CRC32C.checksum(bytes[(offset + 4)..<payload.upperBound]) == Self.get(at: offset, in: bytes)
    else { return nil }
  }

  /// Whether this may be a frame of a log.
  ///
  /// - Parameter seal: of the frames before; 0 if none of them has one.
  func isOfLog(sealed seal: UInt32) -> Bool { seal == 0 || self.seal == seal }

  static func put<Number: FixedWidthInteger>(
    _ number: Number, at offset: Int, in bytes: inout [UInt8]
  ) {
    unsafe withUnsafeBytes(of: number.littleEndian) { number in
      for index in number.indices { bytes[offset + index] = unsafe number[index] }
    }
  }

  static func get<Number: FixedWidthInteger>(at offset: Int, in bytes: [UInt8]) -> Number {
    unsafe bytes.withUnsafeBytes {
      unsafe Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
  }
}

/// CRC32C of bytes. A sum may continue with `after`, the sum of the bytes before.
enum CRC32C {
  private static let isFast = countdownd_has_crc32c() != 0

  static func checksum(_ bytes: Span<UInt8>, after sum: UInt32 = 0) -> UInt32 {
    guard isFast else { return slowChecksum(bytes, after: sum) }
    return unsafe bytes.withUnsafeBufferPointer {
      unsafe countdownd_crc32c_fast(sum, $0.baseAddress, $0.count)
    }
  }

  static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt32 { checksum(bytes.span) }

  static func checksum(of number: Int64, after sum: UInt32 = 0) -> UInt32 {
    guard isFast else {
      let bytes = (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
      return slowChecksum(bytes.span, after: sum)
    }
    return unsafe withUnsafeBytes(of: number.littleEndian) {
      unsafe countdownd_crc32c_fast(sum, $0.bindMemory(to: UInt8.self).baseAddress, 8)
    }
  }

  /// Computes the checksum on processors without an instruction for it.
  static func slowChecksum(_ bytes: Span<UInt8>, after sum: UInt32 = 0) -> UInt32 {
    unsafe bytes.withUnsafeBufferPointer {
      unsafe countdownd_crc32c_slow(sum, $0.baseAddress, $0.count)
    }
  }
}
