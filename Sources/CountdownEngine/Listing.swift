import CountdownCore

/// A part of a listing, and where to go on; 0 when it is complete.
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

extension EntityTable {
  /// The indices that a page may look at.
  func lookedAt(_ query: ListQuery) -> Range<UInt32> {
    let start = min(query.cursor, indexEnd)
    let end = min(indexEnd, start + query.limit * ListQuery.looksPerResult)
    return UInt32(start)..<UInt32(end)
  }

  /// Whatever is in the table from the first page to the last is visited exactly once, because
  /// nothing changes its index. O(limit).
  func page<View>(
    _ query: ListQuery, owner: (Entity) -> Owner, view: (Entity) -> View
  ) -> Page<View> {
    var page = Page<View>(cursor: 0, views: [])
    let range = lookedAt(query)
    let end = Int(range.upperBound)
    var next = Int(range.lowerBound)
    while next < end, page.views.count < query.limit {
      defer { next += 1 }
      guard let entity = entity(at: next) else { continue }
      if let wanted = query.owner, owner(entity) != wanted { continue }
      if let pattern = query.pattern, !Glob.matches(pattern, entity.key) { continue }
      page.views.append(view(entity))
    }
    page.cursor = next < indexEnd ? next : 0
    return page
  }
}
