import DequeModule

/// What a send or a request has in a limit.
package struct LimitPlace: Equatable, Sendable {
  package let key: [UInt8]
  /// By which the limit knows it: the generation of the countdown, or one of the limit.
  package let id: Int64
}

/// The sends that a named limit has on record, oldest first, in pages of a few.
///
/// Each page is stored by itself, so that a send changes a page and not ten thousand sends. A page
/// has no number until the engine gives it a place. A fleet gives it none: it has all sends in the
/// record of the limit.
package struct LimitSends: Equatable, Sendable {
  /// Whether the code of a send was entered.
  package enum Outcome: Int64, Sendable {
    case unknown, entered, missed
    /// It counts for nothing: there is no code, or the send was cancelled.
    case ignored
  }

  /// A send: when it was, which it was, and the outcome of its code.
  package struct Send: Equatable, Sendable {
    package var at: Instant
    private var bits: Int64

    package init(at: Instant, id: Int64, _ outcome: Outcome) {
      self.at = at
      bits = id << 2 | outcome.rawValue
    }

    /// The generation of the countdown, or of the limit for a TAKE. Never falls from one to the
    /// next.
    package var id: Int64 { bits >> 2 }
    package var outcome: Outcome {
      get { Outcome(rawValue: bits & 3)! }
      set { bits = bits & ~3 | newValue.rawValue }
    }
  }

  private struct Page: Equatable {
    var place: UInt32?
    /// How many of its sends are left, and how many it has had.
    var count: UInt32
    var filled: UInt32
  }

  static let pageSize: UInt32 = 4

  private var all: Deque<Send> = []
  private var pages: Deque<Page> = []
  /// The places of pages that have changed, and of pages that are empty, since they were taken.
  private var changed: [UInt32] = []
  private var freed: [UInt32] = []

  init() {}

  package static func == (a: LimitSends, b: LimitSends) -> Bool { a.all == b.all }

  var count: Int { all.count }
  var last: Send? { all.last }
  package var newestFirst: ReversedCollection<Deque<Send>> { all.reversed() }

  /// Returns the index of the first send that is still in a window at a moment. O(log count).
  func firstIndex(at moment: Instant, within length: Interval) -> Int {
    var (low, high) = (0, all.count)
    while low < high {
      let middle = (low + high) / 2
      if all[middle].at + length <= moment { low = middle + 1 } else { high = middle }
    }
    return low
  }

  subscript(index: Int) -> Send { all[index] }

  // MARK: Changes

  mutating func append(_ send: Send) {
    all.append(send)
    if let last = pages.indices.last, pages[last].filled < Self.pageSize {
      pages[last].count += 1
      pages[last].filled += 1
      note(last)
    } else {
      pages.append(Page(place: nil, count: 1, filled: 1))
    }
  }

  /// Drops the first sends. Their pages are not written again.
  mutating func removeFirst(_ count: Int) {
    all.removeFirst(count)
    var left = UInt32(count)
    while left > 0 {
      let gone = min(left, pages[0].count)
      pages[0].count -= gone
      left -= gone
      if pages[0].count == 0 { removePage(0) }
    }
  }

  /// Removes the newest sends.
  mutating func removeLast(_ count: Int) {
    for _ in 0..<min(count, all.count) { remove(at: all.count - 1) }
  }

  /// Removes the send with an id. Returns false if it is not on record.
  mutating func remove(_ id: Int64) -> Bool {
    guard let index = index(of: id) else { return false }
    remove(at: index)
    return true
  }

  /// Sets the outcome of a send. Returns false if that changes nothing.
  mutating func set(_ outcome: Outcome, of id: Int64) -> Bool {
    guard let index = index(of: id), all[index].outcome == .unknown else { return false }
    all[index].outcome = outcome
    note(page(of: index).number)
    return true
  }

  private mutating func remove(at index: Int) {
    let page = page(of: index).number
    all.remove(at: index)
    pages[page].count -= 1
    note(page)
    if pages[page].count == 0 { removePage(page) }
  }

  private func index(of id: Int64) -> Int? {
    var (low, high) = (0, all.count)
    while low < high {
      let middle = (low + high) / 2
      if all[middle].id < id { low = middle + 1 } else { high = middle }
    }
    return low < all.count && all[low].id == id ? low : nil
  }

  // MARK: Pages

  /// Returns the page of a send, and the index of the page's first send. O(pages after it).
  private func page(of index: Int) -> (number: Int, start: Int) {
    var start = all.count
    for number in pages.indices.reversed() {
      start -= Int(pages[number].count)
      if start <= index { return (number, start) }
    }
    preconditionFailure("each send has a page")
  }

  private mutating func note(_ page: Int) {
    if let place = pages[page].place, changed.last != place { changed.append(place) }
  }

  private mutating func removePage(_ page: Int) {
    if let place = pages.remove(at: page).place { freed.append(place) }
  }

  /// Takes the places of the pages that have changed, and of those that are empty. New pages get
  /// their places from `reserve`.
  mutating func takeChanges(reserve: () -> UInt32) -> (changed: [UInt32], freed: [UInt32]) {
    for page in pages.indices.reversed() {
      guard pages[page].place == nil else { break }
      pages[page].place = reserve()
      note(page)
    }
    defer { (changed, freed) = ([], []) }
    return (changed, freed)
  }

  /// Returns the places of all pages, and forgets all sends.
  mutating func removeAll() -> [UInt32] {
    defer { self = LimitSends() }
    return pages.compactMap(\.place) + freed
  }

  /// Returns the sends of a page. O(pages after it).
  func page(at place: UInt32) -> [Send] {
    var start = all.count
    for page in pages.reversed() {
      start -= Int(page.count)
      if page.place == place { return Array(all[start..<start + Int(page.count)]) }
    }
    return []
  }

  /// Whether the sends are in the record of the limit.
  var isWhole: Bool { pages.last.map { $0.place == nil } ?? false }

  /// Visits all sends.
  mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    var count = UInt32(all.count)
    visitor.field("sends", &count)
    visitor.require(count <= LimitRules.mostInWindow)
    guard !visitor.hasFailed else { return }
    for index in 0..<Int(count) {
      var send = Visitor.isReading ? .blank : all[index]
      send.fields(&visitor)
      guard Visitor.isReading else { continue }
      guard !visitor.hasFailed, add(send) else { return visitor.fail() }
    }
  }

  /// Adds a send that was stored. Returns false if it is older than the last one.
  mutating func add(_ send: Send) -> Bool {
    guard all.last.map({ $0.at <= send.at && $0.id <= send.id }) ?? true else { return false }
    append(send)
    return true
  }

  /// All sends, divided as pages would have them.
  var inPages: [[Send]] {
    let size = Int(Self.pageSize)
    return stride(from: 0, to: all.count, by: size).map {
      Array(all[$0..<min($0 + size, all.count)])
    }
  }

  /// Adds a stored page. Returns false if it contradicts the others.
  mutating func attach(_ sends: [Send], at place: UInt32) -> Bool {
    guard let first = sends.first, let last = sends.last, sends.count <= Self.pageSize,
      all.count + sends.count <= LimitRules.mostInWindow,
      zip(sends, sends.dropFirst()).allSatisfy({ $0.at <= $1.at && $0.id <= $1.id })
    else { return false }
    // Most often it is the newest.
    var (number, start) = (pages.count, all.count)
    while number > 0, all[start - 1].id > first.id {
      number -= 1
      start -= Int(pages[number].count)
    }
    guard start == 0 || (all[start - 1].at <= first.at && all[start - 1].id <= first.id),
      start == all.count || (last.at <= all[start].at && last.id <= all[start].id)
    else { return false }
    all.insert(contentsOf: sends, at: start)
    // A page that is not full is never filled up: a page before it may be attached later.
    pages.insert(
      Page(place: place, count: UInt32(sends.count), filled: Self.pageSize), at: number)
    return true
  }
}

extension LimitSends.Send: Stored {
  package static var blank: LimitSends.Send { LimitSends.Send(at: .zero, id: 0, .ignored) }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.instant("at", &at)
    visitor.field("bits", &bits)
  }
}
