/// A part of a listing, and where to continue; 0 when it is complete.
package struct Page<View> {
  package var cursor: Int
  package var views: [View]
}

/// Which entities a listing is about, and how much of it one call may do.
package struct ListQuery: Sendable {
  package var pattern: [UInt8]?
  package var owner: Owner?
  package var cursor = 0
  package var limit = 100

  /// How many entities one call looks at for each that it may return.
  static let looksPerResult = 10

  package init() {}
}

extension ListQuery {
  /// The indices that a page may look at, of those below `indexEnd`.
  func range(below indexEnd: Int) -> Range<UInt32> {
    let start = min(cursor, indexEnd)
    return UInt32(start)..<UInt32(min(indexEnd, start + limit * Self.looksPerResult))
  }

  /// Whatever is in a table from the first page to the last is visited exactly once, because
  /// nothing changes its index. O(limit): a page is shorter where its pattern or its views are
  /// long.
  ///
  /// - Parameters:
  ///   - look: what is at an index, if anything.
  ///   - parts: how many parts a view has that a client can make many.
  func page<View>(
    below indexEnd: Int, _ look: (UInt32) -> (owner: Owner, key: [UInt8])?,
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
      let view = view(next)
      budget -= parts(view)
      page.views.append(view)
    }
    page.cursor = Int(next) < indexEnd ? Int(next) : 0
    return page
  }
}
