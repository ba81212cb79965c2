import DequeModule

/// Bytes to be written, in the pieces in which they came.
///
/// Small pieces are joined, as each takes a write; large ones are not, as they would be copied
/// again and again while a client is slow.
package struct OutputQueue {
  private static let fullPiece = 64 << 10

  private var pieces: Deque<[UInt8]> = []
  /// Bytes of the first piece that were removed already.
  private var taken = 0
  /// The bytes of all pieces in memory. A piece removed in parts counts until the last part.
  package private(set) var count = 0

  /// The number of pieces that wait.
  package var pieceCount: Int { pieces.count }

  package init() {}

  package var isEmpty: Bool { count == 0 }

  package mutating func append(_ bytes: [UInt8]) {
    guard !bytes.isEmpty else { return }
    count += bytes.count
    if let last = pieces.last, last.count + bytes.count <= Self.fullPiece {
      pieces[pieces.count - 1] += bytes
    } else {
      pieces.append(bytes)
    }
  }

  /// Lends the oldest bytes, at most those of one piece; nil when there are none.
  package func withFirst<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R? {
    unsafe pieces.first?.withUnsafeBytes {
      unsafe body(UnsafeRawBufferPointer(rebasing: $0[taken...]))
    }
  }

  /// Removes some of the bytes that `withFirst` lends. O(1), amortized.
  package mutating func removeFirst(_ length: Int) {
    taken += length
    let piece = pieces[0].count
    precondition(taken <= piece, "more was removed than there is")
    guard taken == piece else { return }
    pieces.removeFirst()
    count -= piece
    taken = 0
  }

  package mutating func removeAll() { self = OutputQueue() }
}
