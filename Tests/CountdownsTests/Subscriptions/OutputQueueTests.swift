import Testing

@testable import Countdowns

extension OutputQueue {
  /// Removes the oldest bytes, like a socket that takes at most `most` bytes at once.
  mutating func take(atMost maximum: Int = .max) -> [UInt8]? {
    guard let bytes = withFirst({ Array($0.prefix(maximum)) }) else { return nil }
    removeFirst(bytes.count)
    return bytes
  }
}

@Suite struct OutputQueueTests {
  @Test func piecesComeOutInOrderAndOnlySmallOnesAreMerged() {
    var queue = OutputQueue()
    var all: [UInt8] = []
    var taken: [UInt8] = []
    for step in 0..<5_000 {
      let bytes = Array(repeating: UInt8(truncatingIfNeeded: step), count: step * 37 % 9_000)
      queue.append(bytes)
      all += bytes
      if step % 7 == 0, let piece = queue.take() { taken += piece }
      #expect(queue.count == all.count - taken.count)
    }
    while let piece = queue.take() {
      #expect(!piece.isEmpty)
      taken += piece
    }
    #expect(taken == all)
    #expect(queue.isEmpty)
    #expect(queue.take() == nil)
    queue.append([UInt8](repeating: 7, count: 150_000))
    var lengths: [Int] = []
    while let piece = queue.take(atMost: 65_536) {
      lengths.append(piece.count)
      #expect(queue.count == (queue.isEmpty ? 0 : 150_000), "all of it takes memory to the last")
    }
    #expect(lengths == [65_536, 65_536, 18_928])
    for _ in 0..<100 { queue.append([1]) }
    #expect(queue.take()?.count == 100)
  }
}
