/// Builds bytes in memory that grows, and is used again for the next text. Public for the same
/// reason as `ShortText`.
@safe
public struct GrowingText: ~Copyable {
  private static let maximumKept = 64 << 10

  @usableFromInline var memory: UnsafeMutableRawBufferPointer
  @usableFromInline var length = 0

  public var count: Int { length }

  public init(capacity: Int = 512) {
    unsafe memory = .allocate(byteCount: capacity, alignment: 8)
  }

  deinit { unsafe memory.deallocate() }

  /// The appended bytes.
  public var bytes: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let bytes = unsafe UnsafeRawBufferPointer(rebasing: memory[..<length])
      return unsafe _overrideLifetime(
        bytes.assumingMemoryBound(to: UInt8.self).span, borrowing: self)
    }
  }

  /// Removes the text, but keeps up to 64 KiB of memory.
  public mutating func removeAll() {
    length = 0
    if unsafe memory.count > Self.maximumKept { resize(to: Self.maximumKept) }
  }

  /// Appends what `body` writes.
  ///
  /// - Parameter maximum: the most bytes that `body` may write.
  @inlinable @inline(__always)
  public mutating func append(atMost maximum: Int, _ body: (inout ShortText) -> Void) {
    if unsafe memory.count - length < maximum {
      resize(to: max(unsafe memory.count * 2, length + maximum))
    }
    var text = unsafe ShortText(UnsafeMutableRawBufferPointer(rebasing: memory[length...]))
    body(&text)
    length += text.count
  }

  @usableFromInline
  mutating func resize(to capacity: Int) {
    let resized = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 8)
    unsafe bytes.withUnsafeBytes { unsafe resized.copyMemory(from: $0) }
    unsafe memory.deallocate()
    unsafe memory = resized
  }
}
