#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// An array of plain values that only grows, and can be large.
///
/// Up to a megabyte it is ordinary memory. Beyond, it is a mapping in pages of 2 MiB if the system
/// has them: timers are touched in any order, and looking up small pages would cost about as much as
/// the memory itself. A mapping takes up addresses far beyond what is needed, and memory only where
/// it is touched; so it grows in place, without a copy.
struct GrowingArray<Element: BitwiseCopyable>: ~Copyable {
  private(set) var base: UnsafeMutablePointer<Element>
  private(set) var capacity: Int
  /// The mapping, when it is one: where it begins, and its length in bytes.
  private var mapping: (start: UnsafeMutableRawPointer, length: Int)?

  init(capacity: Int) {
    self.capacity = capacity
    base = Self.allocate(capacity)
  }

  deinit { Self.release(base, mapping) }

  var allocatedBytes: Int { capacity * MemoryLayout<Element>.stride }

  /// Doubles the capacity, at least to `needed`.
  mutating func grow(atLeast needed: Int) {
    let old = capacity
    while capacity < needed { capacity *= 2 }
    if let mapping, allocatedBytes <= mapping.length - HugePages.size { return }
    let oldBase = base
    let oldMapping = mapping
    mapping = HugePages.map(allocatedBytes)
    if let mapping {
      base = HugePages.align(mapping.start).bindMemory(to: Element.self, capacity: capacity)
    } else {
      base = Self.allocate(capacity)
    }
    base.update(from: oldBase, count: old)
    Self.release(oldBase, oldMapping)
  }

  /// Starts over with a small one. What it held is gone.
  mutating func shrink(to small: Int) {
    guard capacity > small else { return }
    Self.release(base, mapping)
    mapping = nil
    capacity = small
    base = Self.allocate(small)
  }

  private static func allocate(_ count: Int) -> UnsafeMutablePointer<Element> {
    guard let memory = malloc(count * MemoryLayout<Element>.stride) else {
      fatalError("out of memory")
    }
    return memory.bindMemory(to: Element.self, capacity: count)
  }

  private static func release(
    _ base: UnsafeMutablePointer<Element>,
    _ mapping: (start: UnsafeMutableRawPointer, length: Int)?
  ) {
    if let mapping { munmap(mapping.start, mapping.length) } else { free(base) }
  }
}

private enum HugePages {
  static let size = 2 << 20
  /// How much larger than asked a mapping is: it is moved once in six doublings.
  private static let reserve = 64

  /// A mapping for `bytes` and more; nil if they are few, or the system refuses.
  static func map(_ bytes: Int) -> (start: UnsafeMutableRawPointer, length: Int)? {
    #if os(Linux)
      guard bytes >= 1 << 20 else { return nil }
      let length = max(bytes, 1 << 20) * reserve + size
      let start = mmap(
        nil, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
      guard let start, start != MAP_FAILED else { return nil }
      madvise(start, length, 14)  // MADV_HUGEPAGE; only advice, it may be refused
      return (start, length)
    #else
      return nil
    #endif
  }

  static func align(_ start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
    UnsafeMutableRawPointer(bitPattern: (Int(bitPattern: start) + size - 1) & ~(size - 1))!
  }
}
