/// Bytes on their way out, in the pieces they came in.
///
/// Little is put together, as each piece is handed on with a write; much is not, as it would be
/// copied over and over while a client is slow.
package struct OutputQueue {
  private static let fullPiece = 64 << 10

  private var pieces: [[UInt8]] = []
  private var head = 0
  /// Bytes in all pieces.
  package private(set) var count = 0

  /// How many pieces wait.
  package var pieceCount: Int { pieces.count - head }

  package init() {}

  package var isEmpty: Bool { count == 0 }

  package mutating func append(_ bytes: [UInt8]) {
    guard !bytes.isEmpty else { return }
    count += bytes.count
    if pieces.count > head, pieces[pieces.count - 1].count + bytes.count <= Self.fullPiece {
      pieces[pieces.count - 1] += bytes
    } else {
      pieces.append(bytes)
    }
  }

  /// The oldest piece; nil when there is none. O(1), amortized.
  package mutating func popFirst() -> [UInt8]? {
    guard head < pieces.count else { return nil }
    var first: [UInt8] = []
    swap(&first, &pieces[head])
    head += 1
    count -= first.count
    if head == pieces.count {
      pieces.removeAll(keepingCapacity: head <= 64)
      head = 0
    } else if head > 1_024, head * 2 > pieces.count {
      pieces.removeFirst(head)
      head = 0
    }
    return first
  }

  package mutating func removeAll() { self = OutputQueue() }
}
