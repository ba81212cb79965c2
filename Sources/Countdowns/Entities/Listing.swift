import Wire

/// What one reply of a listing contains: views, or events. All listings share its bound.
struct ReplyPage {
  /// The length in bytes from which a page ends, so that other clients need not wait long for it.
  static let length = 1 << 20

  private(set) var encoder: RESPEncoder
  private(set) var count = 0

  init(_ version: RESPEncoder.Version) { encoder = RESPEncoder(version) }

  var hasRoom: Bool { encoder.bytes.count < Self.length }

  /// Appends an element. Returns whether there is room for another one.
  mutating func append(_ write: (inout RESPEncoder) -> Void) -> Bool {
    write(&encoder)
    count += 1
    return hasRoom
  }
}

/// The filter of a listing, the cursor where a call begins, and the most results of the call.
package struct ListQuery: Sendable {
  package var pattern: [UInt8]?
  package var owner: Owner?
  /// Only entities that these let a user read; nil for all.
  package var rights: Rights?
  package var cursor = 0
  package var limit = 100

  /// The number of entities that one call may examine for each entity it may return.
  static let looksPerResult = 10

  package init() {}
}

extension ListQuery {
  /// Returns the indices below `indexEnd` that a page may examine.
  func range(below indexEnd: Int) -> Range<UInt32> {
    let start = min(cursor, indexEnd)
    return UInt32(start)..<UInt32(min(indexEnd, start + limit * Self.looksPerResult))
  }

  /// Visits a page. An entity that is in a table from the first page to the last is visited
  /// exactly once, because its index never changes. O(limit): a long pattern or long views make a
  /// page shorter.
  ///
  /// - Parameters:
  ///   - look: returns the entity at an index, if there is one.
  ///   - take: takes an entity; returns whether there is room for another one.
  /// - Returns: the cursor to continue from; 0 when the listing is complete.
  func visit(
    _ kind: EntityKind, below indexEnd: Int, look: (UInt32) -> (owner: Owner, key: [UInt8])?,
    take: (UInt32) -> Bool
  ) -> Int {
    let range = range(below: indexEnd)
    var next = range.lowerBound
    var (count, budget, hasRoom) = (0, limit * Self.looksPerResult, true)
    while next < range.upperBound, count < limit, budget > 0, hasRoom {
      defer { next += 1 }
      guard let found = look(next) else { continue }
      if let owner, found.owner != owner { continue }
      if let pattern {
        budget -= Glob.cost(pattern, found.key.count)
        guard Glob.matches(pattern, found.key) else { continue }
      }
      if let rights, !rights.mayRead(kind, found.key, budget: &budget) { continue }
      hasRoom = take(next)
      count += 1
    }
    return Int(next) < indexEnd ? Int(next) : 0
  }
}
