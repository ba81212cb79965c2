import TimerWheel

/// Keys, packed: each in a cell of its length and two bytes more, in units of four bytes. A key on the
/// heap of its own would take 32 bytes more.
///
/// A cell that is free is used again for a key that needs as many units.
struct KeyArena: ~Copyable {
  /// Where a key is.
  typealias Place = UInt32

  /// Far longer than commands allow; but what was kept is taken as it is.
  static let longestKey = Int(UInt16.max)

  private static let unit = 4
  fileprivate static let headerBytes = 2

  private var memory = GrowingArray<UInt32>(capacity: 256)
  private var base: UnsafeMutablePointer<UInt32>
  /// The first unit that never was used; the one at 0 is none.
  private var end = 1
  /// The first free cell of so many units, and in it the next; 0 is none.
  private var free: [UInt32] = []

  init() { base = memory.base }

  private static func units(_ length: Int) -> Int { (headerBytes + length + unit - 1) / unit }

  /// A key is where it is until it is removed, or another one is added.
  subscript(place: Place) -> UnsafeRawBufferPointer {
    @inline(__always) get { cells[place] }
  }

  var cells: Cells { Cells(base: base) }

  /// The keys that are there now.
  struct Cells {
    fileprivate let base: UnsafeMutablePointer<UInt32>

    subscript(place: Place) -> UnsafeRawBufferPointer {
      @inline(__always) get {
        let cell = UnsafeRawPointer(base + Int(place))
        return UnsafeRawBufferPointer(
          start: cell + KeyArena.headerBytes, count: Int(cell.load(as: UInt16.self)))
      }
    }
  }

  /// O(length).
  mutating func add(_ key: UnsafeRawBufferPointer) -> Place {
    precondition(key.count <= Self.longestKey, "a key has at most 65535 bytes")
    let units = Self.units(key.count)
    var place = units < free.count ? free[units] : 0
    if place != 0 {
      free[units] = base[Int(place)]
    } else {
      precondition(end + units <= 1 << 32, "more than 16 GiB of keys")
      place = UInt32(end)
      end += units
      if end > memory.capacity {
        memory.grow(atLeast: end)
        base = memory.base
      }
    }
    let cell = UnsafeMutableRawPointer(base + Int(place))
    cell.storeBytes(of: UInt16(key.count), as: UInt16.self)
    if let bytes = key.baseAddress {
      (cell + Self.headerBytes).copyMemory(from: bytes, byteCount: key.count)
    }
    return place
  }

  mutating func remove(_ place: Place) {
    let units = Self.units(self[place].count)
    while free.count <= units { free.append(0) }
    base[Int(place)] = free[units]
    free[units] = place
  }
}

extension UnsafeRawBufferPointer {
  /// Eight bytes at a time: keys are short.
  func hasSameBytes(as other: UnsafeRawBufferPointer) -> Bool {
    guard count == other.count else { return false }
    var position = 0
    while position + 8 <= count {
      guard
        loadUnaligned(fromByteOffset: position, as: UInt64.self)
          == other.loadUnaligned(fromByteOffset: position, as: UInt64.self)
      else { return false }
      position += 8
    }
    while position < count {
      guard self[position] == other[position] else { return false }
      position += 1
    }
    return true
  }
}
