#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// An array of plain values that grows in place, and can be large. What was not written yet is zero.
///
/// Up to 32 KiB it is ordinary memory. Beyond, it is a mapping, from 2 MiB on in pages of that size
/// if the system has them: timers are touched in any order, and looking up small pages would cost
/// about as much as the memory itself. A mapping takes up addresses far beyond what is needed, and
/// memory only where it is touched; so it grows without a copy.
package struct GrowingArray<Element: BitwiseCopyable>: ~Copyable {
  package private(set) var base: UnsafeMutablePointer<Element>
  package private(set) var capacity: Int
  private var mapping: Mapping?

  package init(capacity: Int) {
    self.capacity = capacity
    base = Self.allocate(capacity)
  }

  deinit { Self.release(base, mapping) }

  var allocatedBytes: Int { capacity * MemoryLayout<Element>.stride }

  /// Doubles the capacity until it is at least `needed`.
  package mutating func grow(atLeast needed: Int) {
    let old = capacity
    while capacity < needed { capacity *= 2 }
    if let mapping, allocatedBytes <= mapping.usableBytes {
      mapping.prepare(old * MemoryLayout<Element>.stride..<allocatedBytes)
      return
    }
    guard capacity > old else { return }
    let oldBase = base
    let oldMapping = mapping
    mapping = Mapping(for: allocatedBytes)
    if let mapping {
      mapping.prepare(0..<allocatedBytes)
      base = mapping.base.bindMemory(to: Element.self, capacity: capacity)
    } else {
      base = Self.allocate(capacity)
    }
    base.update(from: oldBase, count: old)
    Self.release(oldBase, oldMapping)
  }

  /// Becomes a small one again. What it held is gone.
  mutating func startOver(_ small: Int) {
    Self.release(base, mapping)
    mapping = nil
    capacity = small
    base = Self.allocate(small)
  }

  /// Gives back the memory of a range whose values are not needed any more; they are zero then, or
  /// what they were.
  func giveBack(_ range: Range<Int>) {
    let stride = MemoryLayout<Element>.stride
    mapping?.giveBack(range.lowerBound * stride..<min(range.upperBound * stride, allocatedBytes))
  }

  private static func allocate(_ count: Int) -> UnsafeMutablePointer<Element> {
    guard let memory = calloc(count, MemoryLayout<Element>.stride) else {
      fatalError("out of memory")
    }
    return memory.bindMemory(to: Element.self, capacity: count)
  }

  private static func release(_ base: UnsafeMutablePointer<Element>, _ mapping: Mapping?) {
    if let mapping { mapping.unmap() } else { free(base) }
  }
}

/// Addresses for an array and its growth.
private struct Mapping {
  private static let hugePage = 2 << 20
  /// How much larger than asked a mapping is.
  private static let reserve = 64

  private let start: UnsafeMutableRawPointer
  private let length: Int
  /// Where the array begins, at the start of a huge page.
  let base: UnsafeMutableRawPointer

  /// Nil if it is for few, or the system refuses.
  init?(for bytes: Int) {
    #if os(Linux)
      guard bytes > 32 << 10 else { return nil }
      length = max(bytes, 1 << 20) * Self.reserve + Self.hugePage
      let mapped = mmap(
        nil, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
      guard let mapped, mapped != MAP_FAILED else { return nil }
      start = mapped
      base = UnsafeMutableRawPointer(
        bitPattern: (Int(bitPattern: start) + Self.hugePage - 1) & ~(Self.hugePage - 1))!
      // What follows the first huge page will be large: ask for huge pages there.
      advise(base + Self.hugePage, usableBytes - Self.hugePage, Advice.hugePage)
    #else
      return nil
    #endif
  }

  var usableBytes: Int { length - Self.hugePage }

  func unmap() { munmap(start, length) }

  /// A part is about to be used: has small pages fetched at once, which is cheaper than one by one.
  func prepare(_ range: Range<Int>) {
    let end = min(range.upperBound, Self.hugePage)
    guard range.lowerBound < end else { return }
    let first = range.lowerBound & ~4_095
    advise(base + first, end - first, Advice.populate)
  }

  func giveBack(_ range: Range<Int>) {
    guard !range.isEmpty else { return }
    advise(base + range.lowerBound, range.count, Advice.dontNeed)
  }

  /// It is only advice: an old kernel may refuse it.
  private func advise(_ start: UnsafeMutableRawPointer, _ bytes: Int, _ advice: CInt) {
    #if os(Linux)
      madvise(start, bytes, advice)
    #endif
  }

  private enum Advice {
    static let dontNeed: CInt = 4
    static let hugePage: CInt = 14
    /// Since Linux 5.14.
    static let populate: CInt = 23
  }
}
