extension EventCoding {
  /// Writes into memory that is large enough.
  struct Writer {
    private let memory: UnsafeMutableRawBufferPointer
    private(set) var count = 0

    init(_ memory: UnsafeMutableRawBufferPointer) { self.memory = memory }

    mutating func skip(_ length: Int) { count += length }

    mutating func byte(_ value: UInt8) {
      precondition(count < memory.count, "the memory is large enough")
      memory[count] = value
      count += 1
    }

    mutating func unsigned(_ value: Int64) {
      var value = UInt64(bitPattern: value)
      if value < 0x80 { return byte(UInt8(truncatingIfNeeded: value)) }
      // Seven bits in each byte.
      let length = (63 - value.leadingZeroBitCount) / 7 + 1
      precondition(length <= memory.count - count, "the memory is large enough")
      if length <= 8, memory.count - count >= 8 {
        // All at once: seven bits, seven bits… spread to a byte each, by halves.
        value = value & 0x0fff_ffff | (value & 0xff_ffff_f000_0000) << 4
        value = value & 0x3fff_0000_3fff | (value & 0x0fff_c000_0fff_c000) << 2
        value = value & 0x7f_007f_007f_007f | (value & 0x3f80_3f80_3f80_3f80) << 1
        value |= 0x8080_8080_8080_8080 & (1 << UInt64(8 * (length - 1)) &- 1)
        memory.storeBytes(of: value.littleEndian, toByteOffset: count, as: UInt64.self)
        count += length
        return
      }
      for place in count..<count + length - 1 {
        memory[place] = UInt8(truncatingIfNeeded: value) | 0x80
        value >>= 7
      }
      count += length
      memory[count - 1] = UInt8(truncatingIfNeeded: value)
    }

    mutating func signed(_ value: Int64) { unsigned(value << 1 ^ value >> 63) }

    mutating func optional(_ value: Int64?) {
      guard let value else { return byte(0) }
      byte(1)
      signed(value)
    }

    mutating func text(_ value: [UInt8]) { value.withUnsafeBytes { text($0) } }

    mutating func text(_ value: UnsafeRawBufferPointer) {
      unsigned(Int64(value.count) + 1)
      precondition(value.count <= memory.count - count, "the memory is large enough")
      UnsafeMutableRawBufferPointer(rebasing: memory[count...]).copyMemory(from: value)
      count += value.count
    }

    mutating func text(_ value: [UInt8]?) {
      if let value { text(value) as Void } else { unsigned(0) }
    }
  }

  struct Reader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0
    /// Something was not there; what was read since is 0 or nil.
    private(set) var hasFailed = false

    init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    mutating func byte() -> UInt8 {
      guard position < bytes.count else {
        hasFailed = true
        return 0
      }
      defer { position += 1 }
      return bytes[position]
    }

    mutating func unsigned() -> Int64 {
      var value: UInt64 = 0
      for place in 0..<10 as Range<UInt64> {
        let next = byte()
        value |= UInt64(next & 0x7F) << (7 * place)
        if next < 0x80 { return Int64(bitPattern: value) }
      }
      hasFailed = true
      return 0
    }

    mutating func signed() -> Int64 {
      let value = UInt64(bitPattern: unsigned())
      return Int64(bitPattern: value >> 1) ^ -Int64(bitPattern: value & 1)
    }

    mutating func optional() -> Int64? { byte() == 0 ? nil : signed() }

    mutating func text() -> [UInt8]? {
      let length = unsigned()
      guard length != 0 else { return nil }
      guard length > 0, length - 1 <= Int64(bytes.count - position) else {
        hasFailed = true
        return nil
      }
      defer { position += Int(length) - 1 }
      return Array(bytes[position..<position + Int(length) - 1])
    }
  }
}
