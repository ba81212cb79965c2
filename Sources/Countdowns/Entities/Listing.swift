/// A page of a listing, and the cursor to continue from; 0 when the listing is complete.
package struct Page<View> {
  package var cursor: Int
  package var views: [View]
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

  /// Returns a page. An entity that is in a table from the first page to the last is visited
  /// exactly once, because its index never changes. O(limit): a long pattern or long views make a
  /// page shorter.
  ///
  /// - Parameters:
  ///   - look: returns the entity at an index, if there is one.
  ///   - parts: returns the number of variable parts of a view, such as the pages of a stack.
  func page<View>(
    of kind: EntityKind, below indexEnd: Int, _ look: (UInt32) -> (owner: Owner, key: [UInt8])?,
    parts: (View) -> Int, view: (UInt32) -> View
  ) -> Page<View> {
    var page = Page<View>(cursor: 0, views: [])
    let range = range(below: indexEnd)
    var next = range.lowerBound
    var budget = limit * Self.looksPerResult
    while next < range.upperBound, page.views.count < limit, budget > 0 {
      defer { next += 1 }
      guard let found = look(next) else { continue }
      if let owner, found.owner != owner { continue }
      if let pattern {
        budget -= Glob.cost(pattern, found.key.count)
        guard Glob.matches(pattern, found.key) else { continue }
      }
      if let rights, !rights.mayRead(kind, found.key, budget: &budget) { continue }
      let view = view(next)
      budget -= parts(view)
      page.views.append(view)
    }
    page.cursor = Int(next) < indexEnd ? Int(next) : 0
    return page
  }
}
