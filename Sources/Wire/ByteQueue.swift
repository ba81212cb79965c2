/// A first-in, first-out queue of bytes. When empty it keeps at most 4 KiB of memory.
@safe
struct ByteQueue: ~Copyable {
  private static let keptWhenEmpty = 4 << 10

  private var memory: UnsafeMutableRawPointer?
  private var capacity = 0
  private var head = 0
  private var tail = 0

  init() {}
  deinit { unsafe memory?.deallocate() }

  var count: Int { tail - head }

  subscript(index: Int) -> UInt8 {
    precondition(index >= 0 && index < count)
    return unsafe memory!.load(fromByteOffset: head + index, as: UInt8.self)
  }

  var bytes: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let start = unsafe memory.map { unsafe UnsafeRawPointer($0 + head) }
      let bytes = unsafe UnsafeRawBufferPointer(start: start, count: count)
      return unsafe _overrideLifetime(
        bytes.assumingMemoryBound(to: UInt8.self).span, borrowing: self)
    }
  }

  mutating func append(_ bytes: RawSpan) {
    guard !bytes.isEmpty else { return }
    if tail + bytes.byteCount > capacity { makeRoom(for: bytes.byteCount) }
    unsafe bytes.withUnsafeBytes {
      unsafe (memory! + tail).copyMemory(from: $0.baseAddress!, byteCount: $0.count)
    }
    tail += bytes.byteCount
  }

  mutating func removeFirst(_ length: Int) {
    precondition(length <= count)
    head += length
    guard head == tail else { return }
    head = 0
    tail = 0
    if capacity > Self.keptWhenEmpty {
      unsafe memory?.deallocate()
      unsafe memory = nil
      capacity = 0
    }
  }

  private mutating func makeRoom(for extra: Int) {
    let needed = count + extra
    if needed <= capacity, head >= capacity / 2 {
      unsafe memory!.copyMemory(from: memory! + head, byteCount: count)
    } else {
      let bigger = max(needed, min(capacity * 2, needed + (1 << 20)), 512)
      let moved = UnsafeMutableRawPointer.allocate(byteCount: bigger, alignment: 16)
      if let memory = unsafe memory {
        unsafe moved.copyMemory(from: memory + head, byteCount: count)
        unsafe memory.deallocate()
      }
      unsafe memory = moved
      capacity = bigger
    }
    tail -= head
    head = 0
  }
}
