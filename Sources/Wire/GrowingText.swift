/// Bytes put together in memory that grows, and is used again for the next text. Public as `ShortText` is.
public struct GrowingText: ~Copyable {
  private static let mostKept = 64 << 10

  @usableFromInline var memory: UnsafeMutableRawBufferPointer
  @usableFromInline var length = 0

  public var count: Int { length }

  public init(capacity: Int = 512) {
    memory = .allocate(byteCount: capacity, alignment: 8)
  }

  deinit { memory.deallocate() }

  /// What has been appended so far. Moves with any change.
  public var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<length]) }

  /// Forgets the text, and keeps the memory.
  public mutating func removeAll() {
    length = 0
    if memory.count > Self.mostKept { resize(to: Self.mostKept) }
  }

  /// Appends what `body` writes.
  ///
  /// - Parameter most: how many bytes it may be.
  @inlinable @inline(__always)
  public mutating func append(atMost most: Int, _ body: (inout ShortText) -> Void) {
    if memory.count - length < most { resize(to: max(memory.count * 2, length + most)) }
    var text = ShortText(UnsafeMutableRawBufferPointer(rebasing: memory[length...]))
    body(&text)
    length += text.count
  }

  @usableFromInline
  mutating func resize(to capacity: Int) {
    let resized = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 8)
    resized.copyMemory(from: bytes)
    memory.deallocate()
    memory = resized
  }
}
