/// Packed keys: each is in a cell, after a header of two bytes, in units of four bytes. A separate
/// heap allocation would take 32 bytes more per key.
///
/// Cells come in a few sizes. A free cell is reused for a key of its size, or is cut up for smaller
/// keys.
public struct KeyArena: ~Copyable {
  /// The number of a key's first unit.
  public typealias Offset = UInt32

  /// In bytes; the keys of entities are shorter.
  package static var longestKey: Int { Int(UInt16.max) }

  @inlinable static var unit: Int { 4 }
  @inlinable static var headerBytes: Int { 2 }
  /// The number of bytes that offsets can address.
  public static var maximumBytes: Int { unit << 32 }

  /// So many units take too little memory to be worth giving back.
  private static let small = 4_096

  /// The most memory for keys, in bytes.
  public let limit: Int

  @usableFromInline var memory = GrowingArray<UInt32>(capacity: 256)
  @usableFromInline var base: Cells<UInt32>
  /// The first unit that was never used. Unit 0 holds no key: offset 0 means none.
  @usableFromInline var end = 1
  /// The first free cell of each size, which holds the offset of the next one; 0 means none.
  @usableFromInline var free = [UInt32](repeating: 0, count: 64)
  /// A bit for each size that may have a free cell.
  @usableFromInline var freeSizes: UInt64 = 0

  /// The bytes in use, with those of free cells.
  package var bytes: Int { end * Self.unit }

  public init(limit: Int = maximumBytes) {
    self.limit = min(limit, Self.maximumBytes)
    base = memory.cells
  }

  /// Returns the smallest size that fits a key. Each number of units up to 16 is a size, then each
  /// doubling has four sizes, so at most a fifth of a cell is unused.
  @inlinable
  static func size(forLength length: Int) -> Int {
    size(ofUnits: (headerBytes + length + unit - 1) / unit)
  }

  @inlinable
  static func size(ofUnits units: Int) -> Int {
    guard units > 16 else { return units - 1 }
    let doubling = 59 - (units - 1).leadingZeroBitCount
    return 16 + doubling * 4 + (units - 1) >> (doubling + 2) & 3
  }

  @inlinable
  static func units(ofSize size: Int) -> Int {
    guard size >= 16 else { return size + 1 }
    return (20 + (size - 16) % 4 * 4) << ((size - 16) / 4)
  }

  /// The key at an offset, valid until that key is removed or another one is added.
  @inlinable public subscript(offset: Offset) -> Span<UInt8> {
    @inline(__always) @_lifetime(borrow self)
    get { Self.key(offset, in: base) }
  }

  @inlinable @inline(__always)
  public func with<R>(_ offset: Offset, _ body: (Span<UInt8>) -> R) -> R { body(self[offset]) }

  @inlinable @inline(__always) @_lifetime(borrow base)
  static func key(_ offset: Offset, in base: borrowing Cells<UInt32>) -> Span<UInt8> {
    // The length is in the lower half of the first unit.
    base.bytes(
      of: Int(offset), after: headerBytes,
      count: Int(UInt16(truncatingIfNeeded: UInt32(littleEndian: base[Int(offset)]))))
  }

  /// Adds a key and returns its offset; nil if there is no room left. O(length).
  ///
  /// - Precondition: `key` has at most `longestKey` bytes.
  @inlinable
  public mutating func add(_ key: Span<UInt8>) -> Offset? {
    let size = Self.size(forLength: key.count)
    guard let offset = takeCell(size) else { return nil }
    base[Int(offset)] = UInt32(UInt16(key.count)).littleEndian
    base.write(key, to: Int(offset), after: Self.headerBytes)
    return offset
  }

  @inlinable
  public mutating func remove(_ offset: Offset) {
    release(offset, Self.size(forLength: self[offset].count))
  }

  /// Removes all keys, and gives back the memory of long ones.
  public mutating func startOver() {
    if memory.capacity > Self.small { self = KeyArena(limit: limit) }
    end = 1
    freeSizes = 0
    for size in free.indices { free[size] = 0 }
  }

  @inlinable @inline(__always)
  mutating func takeCell(_ size: Int) -> Offset? {
    let offset = free[size]
    if offset != 0 {
      free[size] = base[Int(offset)]
      return offset
    }
    if freeSizes >> UInt64(size) != 0, let offset = cutCell(size) { return offset }
    let units = Self.units(ofSize: size)
    guard (end + units) * Self.unit <= limit else { return nil }
    defer { end += units }
    if end + units > memory.capacity {
      memory.grow(atLeast: end + units)
      base = memory.cells
    }
    return Offset(end)
  }

  /// Cuts a cell from a larger free cell; the rest becomes free cells.
  @usableFromInline @inline(never)
  mutating func cutCell(_ wanted: Int) -> Offset? {
    while true {
      let fitting = freeSizes >> UInt64(wanted)
      guard fitting != 0 else { return nil }
      let size = wanted + fitting.trailingZeroBitCount
      let offset = free[size]
      guard offset != 0 else {
        freeSizes &= ~(1 << UInt64(size))
        continue
      }
      free[size] = base[Int(offset)]
      let end = Int(offset) + Self.units(ofSize: size)
      var rest = Int(offset) + Self.units(ofSize: wanted)
      while rest < end {
        var size = Self.size(ofUnits: end - rest)
        if Self.units(ofSize: size) > end - rest { size -= 1 }
        release(Offset(rest), size)
        rest += Self.units(ofSize: size)
      }
      return offset
    }
  }

  @inlinable
  mutating func release(_ offset: Offset, _ size: Int) {
    base[Int(offset)] = free[size]
    free[size] = offset
    freeSizes |= 1 << UInt64(size)
  }
}
