import CPrefetch

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// A possibly large array of plain values that grows in place. Values that were never written are
/// zero.
///
/// Up to 32 KiB the memory comes from `calloc`. A larger array is a mapping, beyond 2 MiB with huge
/// pages if the system has them: timers are touched in any order, and looking up small pages would
/// cost about as much as the memory itself. A mapping reserves far more addresses than needed, but
/// takes memory only where it is touched, so it grows without a copy.
public struct GrowingArray<Element: BitwiseCopyable>: ~Copyable {
  @usableFromInline var current: Cells<Element>
  private var mapping: Mapping?

  public init(capacity: Int) { current = .allocate(capacity) }

  deinit { Self.release(current, mapping) }

  /// Valid until the array grows.
  @inlinable public var cells: Cells<Element> { current }
  @inlinable public var capacity: Int { cells.count }

  package var allocatedBytes: Int { capacity * MemoryLayout<Element>.stride }

  /// Doubles the capacity until it is at least `needed`.
  public mutating func grow(atLeast needed: Int) {
    var capacity = capacity
    while capacity < needed { capacity *= 2 }
    let bytes = capacity * MemoryLayout<Element>.stride
    if let mapping, bytes <= mapping.usableBytes {
      mapping.prepare(allocatedBytes..<bytes)
      current = mapping.cells(capacity)
      return
    }
    guard capacity > self.capacity else { return }
    let (old, oldMapping) = (current, mapping)
    mapping = Mapping(for: bytes)
    if let mapping {
      mapping.prepare(0..<bytes)
      current = mapping.cells(capacity)
    } else {
      current = .allocate(capacity)
    }
    current.copy(old, count: old.count)
    Self.release(old, oldMapping)
  }

  /// Discards all values and shrinks to a capacity of `small`.
  package mutating func startOver(_ small: Int) {
    Self.release(current, mapping)
    mapping = nil
    current = .allocate(small)
  }

  /// Releases the memory of a range. Its values are then zero or unchanged.
  package func returnToSystem(_ range: Range<Int>) {
    let stride = MemoryLayout<Element>.stride
    mapping?.returnToSystem(
      range.lowerBound * stride..<min(range.upperBound * stride, allocatedBytes))
  }

  private static func release(_ cells: Cells<Element>, _ mapping: Mapping?) {
    if let mapping { mapping.unmap() } else { cells.deallocate() }
  }
}

/// Reserved addresses for an array and its growth.
@safe
private struct Mapping {
  private static let hugePage = 2 << 20
  /// The ratio of reserved to requested bytes.
  private static let reserve = 64

  private let start: UnsafeMutableRawPointer
  private let length: Int
  /// The start of the array, at the start of a huge page.
  private let base: UnsafeMutableRawPointer

  /// Returns nil for at most 32 KiB, outside Linux, or if the system refuses.
  init?(for bytes: Int) {
    #if os(Linux)
      guard bytes > 32 << 10 else { return nil }
      length = max(bytes, 1 << 20) * Self.reserve + Self.hugePage
      let mapped = unsafe mmap(
        nil, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
      guard let mapped = unsafe mapped, unsafe mapped != MAP_FAILED else { return nil }
      unsafe start = mapped
      unsafe base = UnsafeMutableRawPointer(
        bitPattern: (Int(bitPattern: start) + Self.hugePage - 1) & ~(Self.hugePage - 1))!
      // Asks for huge pages beyond the first one: an array that reaches there is large.
      unsafe advise(base + Self.hugePage, usableBytes - Self.hugePage, Advice.hugePage)
    #else
      return nil
    #endif
  }

  var usableBytes: Int { length - Self.hugePage }

  func cells<Element>(_ count: Int) -> Cells<Element> {
    unsafe Cells(base.bindMemory(to: Element.self, capacity: count), count: count)
  }

  func unmap() { unsafe munmap(start, length) }

  /// Populates the small pages of a range at once, which is cheaper than one by one.
  func prepare(_ range: Range<Int>) {
    let end = min(range.upperBound, Self.hugePage)
    guard range.lowerBound < end else { return }
    let first = range.lowerBound & ~4_095
    unsafe advise(base + first, end - first, Advice.populate)
  }

  func returnToSystem(_ range: Range<Int>) {
    guard !range.isEmpty else { return }
    unsafe advise(base + range.lowerBound, range.count, Advice.dontNeed)
  }

  /// Calls `madvise` and ignores errors: an old kernel may refuse the advice.
  private func advise(_ start: UnsafeMutableRawPointer, _ bytes: Int, _ advice: CInt) {
    #if os(Linux)
      unsafe madvise(start, bytes, advice)
    #endif
  }

  private enum Advice {
    static let dontNeed: CInt = 4
    static let hugePage: CInt = 14
    /// Since Linux 5.14.
    static let populate: CInt = 23
  }
}

/// The address and number of plain values in memory. Only debug builds check indices: callers find
/// an index in a table that vouches for it.
///
/// A copy of the cells saves an indirection on each access. Code that frees the memory or moves the
/// values must ensure that no copy is used afterwards.
///
/// Public, so that other modules can inline its small functions, which cost less than the calls.
@safe
public struct Cells<Element: BitwiseCopyable> {
  @usableFromInline let base: UnsafeMutablePointer<Element>
  public let count: Int

  @inlinable @unsafe
  init(_ base: UnsafeMutablePointer<Element>, count: Int) {
    unsafe self.base = unsafe base
    self.count = count
  }

  /// Allocates values whose bytes are all zero.
  package static func allocate(_ count: Int) -> Cells {
    guard let memory = unsafe calloc(count, MemoryLayout<Element>.stride) else {
      fatalError("out of memory")
    }
    return unsafe Cells(memory.bindMemory(to: Element.self, capacity: count), count: count)
  }

  package func deallocate() { unsafe free(base) }

  @inlinable
  public subscript(index: Int) -> Element {
    @inline(__always)
    unsafeAddress {
      assert(index >= 0 && index < count)
      return unsafe UnsafePointer(base + index)
    }
    @inline(__always)
    nonmutating unsafeMutableAddress {
      assert(index >= 0 && index < count)
      return unsafe base + index
    }
  }

  /// Begins to fetch a value, so that reading it a moment later does not wait for memory.
  @inlinable public func prefetch(_ index: Int) {
    assert(index >= 0 && index < count)
    unsafe countdownd_prefetch(base + index)
  }

  package func fill(_ range: Range<Int>, with value: Element) {
    precondition(range.lowerBound >= 0 && range.upperBound <= count)
    unsafe (base + range.lowerBound).update(repeating: value, count: range.count)
  }

  /// Copies the first `count` values of `others`.
  package func copy(_ others: Cells, count: Int) {
    precondition(count >= 0 && count <= min(self.count, others.count))
    unsafe base.update(from: others.base, count: count)
  }

  // MARK: Bytes

  /// Returns `count` bytes that begin `offset` bytes after the start of the value at `index`.
  @_lifetime(borrow self)
  @inlinable @inline(__always)
  public func bytes(of index: Int, after offset: Int, count: Int) -> Span<UInt8> {
    let bytes = unsafe UnsafeRawBufferPointer(
      start: start(index, offset, count), count: count)
    return unsafe _overrideLifetime(
      bytes.assumingMemoryBound(to: UInt8.self).span, borrowing: self)
  }

  @inlinable @inline(__always)
  public func write(_ bytes: Span<UInt8>, to index: Int, after offset: Int) {
    guard !bytes.isEmpty else { return }
    let target = unsafe start(index, offset, bytes.count)
    unsafe bytes.withUnsafeBytes {
      unsafe target.copyMemory(from: $0.baseAddress!, byteCount: $0.count)
    }
  }

  @inlinable @inline(__always)
  func start(_ index: Int, _ offset: Int, _ bytes: Int) -> UnsafeMutableRawPointer {
    assert(index >= 0 && index <= count && offset >= 0 && bytes >= 0)
    assert(offset + bytes <= (count - index) * MemoryLayout<Element>.stride)
    return unsafe UnsafeMutableRawPointer(base + index) + offset
  }
}
