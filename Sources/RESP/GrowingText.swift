/// Bytes put together in memory that grows, and is used again for the next text.
package struct GrowingText: ~Copyable {
  private static let mostKept = 64 << 10

  private var memory: UnsafeMutableRawBufferPointer
  package private(set) var count = 0

  package init(capacity: Int = 512) {
    memory = .allocate(byteCount: capacity, alignment: 8)
  }

  deinit { memory.deallocate() }

  /// What has been appended so far. Moves with any change.
  package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }

  /// Begins anew.
  package mutating func removeAll() {
    count = 0
    if memory.count > Self.mostKept { resize(to: Self.mostKept) }
  }

  /// Appends what `body` writes.
  ///
  /// - Parameter most: how many bytes it may be.
  @inline(__always)
  package mutating func append(atMost most: Int, _ body: (inout ShortText) -> Void) {
    if memory.count - count < most { resize(to: max(memory.count * 2, count + most)) }
    var text = ShortText(UnsafeMutableRawBufferPointer(rebasing: memory[count...]))
    body(&text)
    count += text.count
  }

  private mutating func resize(to capacity: Int) {
    let resized = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 8)
    resized.copyMemory(from: bytes)
    memory.deallocate()
    memory = resized
  }
}
