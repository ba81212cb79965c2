import DequeModule

/// Bytes on their way out, in the pieces they came in.
///
/// Little is put together, as each piece is handed on with a write; much is not, as it would be
/// copied over and over while a client is slow.
package struct OutputQueue {
  private static let fullPiece = 64 << 10

  private var pieces: Deque<[UInt8]> = []
  /// Bytes of the first piece that were handed out already.
  private var taken = 0
  /// Bytes in all pieces that take memory: one that is handed out in parts counts until the last.
  package private(set) var count = 0

  /// How many pieces wait.
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

  /// The oldest piece, or a part of it if it is long; nil when there is none. O(1), amortized.
  package mutating func popFirst() -> ArraySlice<UInt8>? {
    guard let piece = pieces.first else { return nil }
    let end = min(taken + Self.fullPiece, piece.count)
    defer { taken = end == piece.count ? 0 : end }
    if end == piece.count {
      pieces.removeFirst()
      count -= end
    }
    return piece[taken..<end]
  }

  package mutating func removeAll() { self = OutputQueue() }
}
