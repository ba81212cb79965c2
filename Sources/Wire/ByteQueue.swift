/// Bytes in the order they came. Holds no memory when empty, unless it was little.
struct ByteQueue: ~Copyable {
  private static let keptWhenEmpty = 4 << 10

  private var memory: UnsafeMutableRawPointer?
  private var capacity = 0
  private var head = 0
  private var tail = 0

  init() {}
  deinit { memory?.deallocate() }

  var count: Int { tail - head }

  /// The first byte. Moves with any change.
  var base: UnsafeRawPointer? { memory.map { UnsafeRawPointer($0 + head) } }

  subscript(index: Int) -> UInt8 {
    assert(index >= 0 && index < count)
    return memory!.load(fromByteOffset: head + index, as: UInt8.self)
  }

  func prefix(_ length: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: base, count: length)
  }

  mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard let source = bytes.baseAddress, bytes.count > 0 else { return }
    if tail + bytes.count > capacity { makeRoom(for: bytes.count) }
    (memory! + tail).copyMemory(from: source, byteCount: bytes.count)
    tail += bytes.count
  }

  mutating func removeFirst(_ length: Int) {
    precondition(length <= count)
    head += length
    guard head == tail else { return }
    head = 0
    tail = 0
    if capacity > Self.keptWhenEmpty {
      memory?.deallocate()
      memory = nil
      capacity = 0
    }
  }

  private mutating func makeRoom(for extra: Int) {
    let needed = count + extra
    if needed <= capacity, head >= capacity / 2 {
      memory!.copyMemory(from: memory! + head, byteCount: count)
    } else {
      let bigger = max(needed, min(capacity * 2, needed + (1 << 20)), 512)
      let moved = UnsafeMutableRawPointer.allocate(byteCount: bigger, alignment: 16)
      if let memory {
        moved.copyMemory(from: memory + head, byteCount: count)
        memory.deallocate()
      }
      memory = moved
      capacity = bigger
    }
    tail -= head
    head = 0
  }
}
