import DequeModule

/// What a send or a request has in a limit.
package struct LimitShare: Equatable, Sendable {
  package let key: [UInt8]
  /// By which the limit knows it: the generation of the countdown, or one of the limit.
  package let id: Int64
}

/// The sends that a named limit has on record, oldest first, in pages of a few.
///
/// What was taken at once is one send, however much it was. So everything here counts units, which
/// windows limit, and looks them up by their positions; 0 is the oldest unit.
///
/// Each page is stored by itself, so that a send changes a page and not ten thousand sends. A page
/// has no number until the engine gives it a slot. A fleet gives it none: it has all sends in the
/// record of the limit.
package struct LimitSends: Equatable, Sendable {
  /// Whether the code of a send was entered.
  package enum Outcome: Int64, Sendable {
    case unknown, entered, missed
    /// It counts for nothing: there is no code, or the send was cancelled.
    case ignored
  }

  /// A send: when it was, which it was, how many units it took, and the outcome of its code.
  package struct Send: Equatable, Sendable {
    package var at: Instant
    fileprivate var bits: Int64
    /// The number of units: 1 to `LimitRules.maximumInWindow`.
    package fileprivate(set) var count: UInt32
    /// How many units more it took, which were given back by its id.
    package fileprivate(set) var refunded: UInt32 = 0

    package init(at: Instant, id: Int64, count: UInt32 = 1, _ outcome: Outcome) {
      self.at = at
      bits = id << 2 | outcome.rawValue
      self.count = count
    }

    /// The generation of the countdown, or of the limit for a TAKE. Never falls from one to the
    /// next.
    package var id: Int64 { bits >> 2 }
    package var outcome: Outcome {
      get { Outcome(rawValue: bits & 3)! }
      set { bits = bits & ~3 | newValue.rawValue }
    }
  }

  /// A send, and the end of its units, counted from the first send ever.
  private struct Entry {
    var at: Instant
    var bits: Int64
    var end: Int64

    var id: Int64 { bits >> 2 }
  }

  private struct Page: Equatable {
    var slot: UInt32?
    /// How many of its sends are left, and how many it has had.
    var count: UInt32
    var filled: UInt32
  }

  static let pageSize: UInt32 = 4

  private var all: Deque<Entry> = []
  /// Where the units of the first send begin.
  private var start: Int64 = 0
  private var pages: Deque<Page> = []
  /// How many units of a send were given back by its id: another REFUND gives back what is more.
  /// Few sends have any.
  private var refunded: [Int64: UInt32] = [:]
  /// The slots of pages that have changed, and of pages that are empty, since they were taken.
  private var changed: [UInt32] = []
  private var freed: [UInt32] = []

  init() {}

  package static func == (a: LimitSends, b: LimitSends) -> Bool {
    a.newestFirst.elementsEqual(b.newestFirst)
  }

  /// The number of units.
  var count: Int { Int((all.last?.end ?? start) - start) }
  /// The number of sends.
  package var sendCount: Int { all.count }
  var last: Send? { all.isEmpty ? nil : send(all.count - 1) }
  package var newestFirst: some Sequence<Send> { all.indices.reversed().lazy.map(send) }

  /// Returns the position of the first unit that is still in a window at a moment. O(log sends).
  func firstUnit(at moment: Instant, within length: Interval) -> Int {
    let index = all.firstIndexAfter { $0.at + length <= moment }
    return Int(begin(index) - start)
  }

  /// Returns when a unit was taken. O(log sends).
  func time(ofUnit position: Int) -> Instant {
    all[all.firstIndexAfter { $0.end - start <= Int64(position) }].at
  }

  private func begin(_ index: Int) -> Int64 { index == 0 ? start : all[index - 1].end }

  private func send(_ index: Int) -> Send {
    let entry = all[index]
    var send = Send(
      at: entry.at, id: 0, count: UInt32(clamping: entry.end - begin(index)), .unknown)
    send.bits = entry.bits
    if !refunded.isEmpty { send.refunded = refunded[entry.id] ?? 0 }
    return send
  }

  // MARK: Changes

  mutating func append(_ send: Send) {
    let end = (all.last?.end ?? start) + Int64(send.count)
    all.append(Entry(at: send.at, bits: send.bits, end: end))
    if send.refunded > 0 { refunded[send.id] = send.refunded }
    if let last = pages.indices.last, pages[last].filled < Self.pageSize {
      pages[last].count += 1
      pages[last].filled += 1
      note(last)
    } else {
      pages.append(Page(slot: nil, count: 1, filled: 1))
    }
  }

  /// Whether the next send needs a new page.
  var isLastPageFull: Bool { pages.last.map { $0.filled >= Self.pageSize } ?? true }

  /// Drops the first units. Pages that only lose sends are not written again. O(sends that end).
  mutating func removeFirst(_ units: Int) {
    start += Int64(units)
    while let first = all.first, first.end <= start {
      all.removeFirst()
      forgetRefunds(of: first.id)
      pages[0].count -= 1
      if pages[0].count == 0 { removePage(0) }
    }
    if all.isEmpty { start = 0 }
  }

  /// Removes the newest units. O(sends that end).
  mutating func removeLast(_ units: Int) {
    var left = Int64(min(units, count))
    while left > 0 { left -= removeUnits(left, at: all.count - 1) }
  }

  /// Removes up to so many units of a send. Returns false if it is not on record. O(sends).
  mutating func remove(_ units: UInt32, of id: Int64) -> Bool {
    // A TAKE that an earlier release has stored is a send for each unit.
    var (left, index) = (Int64(units), all.firstIndexAfter { $0.id <= id } - 1)
    while left > 0, index >= 0, all[index].id == id {
      left -= removeUnits(left, at: index)
      index -= 1
    }
    return left < Int64(units)
  }

  /// Removes units of a send until so many are given back by its id, however often that is asked.
  ///
  /// - Returns: how many it removes, and when they were taken; nil if there is nothing to remove.
  mutating func refund(
    _ units: UInt32, of id: Int64
  ) -> (units: UInt32, taken: Instant)? {
    guard let index = index(of: id) else { return nil }
    let (before, taken, count) = (refunded[id] ?? 0, all[index].at, count)
    guard units > before, remove(units - before, of: id) else { return nil }
    let removed = UInt32(count - self.count)
    if self.index(of: id) != nil { refunded[id] = before + removed }
    return (removed, taken)
  }

  /// Whether anything was given back of a send that is on record.
  var hasRefunds: Bool { !refunded.isEmpty }

  private mutating func forgetRefunds(of id: Int64) {
    // What an earlier release has stored may be more than one send.
    if !refunded.isEmpty, index(of: id) == nil { refunded[id] = nil }
  }

  /// Sets the outcome of a send. Returns false if that changes nothing.
  mutating func set(_ outcome: Outcome, of id: Int64) -> Bool {
    guard let index = index(of: id), all[index].bits & 3 == Outcome.unknown.rawValue else {
      return false
    }
    all[index].bits = id << 2 | outcome.rawValue
    note(page(of: index).number)
    return true
  }

  /// Removes up to so many units of the send at an index. Returns how many. O(sends after it).
  private mutating func removeUnits(_ units: Int64, at index: Int) -> Int64 {
    let has = all[index].end - begin(index)
    let removed = min(units, has)
    for later in index..<all.count { all[later].end -= removed }
    let page = page(of: index).number
    note(page)
    guard removed == has else { return removed }
    forgetRefunds(of: all.remove(at: index).id)
    pages[page].count -= 1
    if pages[page].count == 0 { removePage(page) }
    return removed
  }

  private func index(of id: Int64) -> Int? {
    let index = all.firstIndexAfter { $0.id < id }
    return index < all.count && all[index].id == id ? index : nil
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
    if let slot = pages[page].slot, changed.last != slot { changed.append(slot) }
  }

  private mutating func removePage(_ page: Int) {
    if let slot = pages.remove(at: page).slot { freed.append(slot) }
  }

  /// Takes the slots of the pages that have changed, and of those that are empty. New pages get
  /// their slots from `reserve`.
  mutating func takeChanges(reserve: () -> UInt32) -> (changed: [UInt32], freed: [UInt32]) {
    for page in pages.indices.reversed() {
      guard pages[page].slot == nil else { break }
      pages[page].slot = reserve()
      note(page)
    }
    defer { (changed, freed) = ([], []) }
    return (changed, freed)
  }

  /// Returns the slots of all pages, and forgets all sends.
  mutating func removeAll() -> [UInt32] {
    defer { self = LimitSends() }
    return pages.compactMap(\.slot) + freed
  }

  /// Returns the sends of a page. O(pages after it).
  func page(at slot: UInt32) -> [Send] {
    var start = all.count
    for page in pages.reversed() {
      start -= Int(page.count)
      if page.slot == slot { return (start..<start + Int(page.count)).map(send) }
    }
    return []
  }

  /// Whether the sends are in the record of the limit.
  var isWhole: Bool { pages.last.map { $0.slot == nil } ?? false }

  /// Visits all sends.
  mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    var count = UInt32(all.count)
    visitor.field("sends", &count)
    visitor.require(count <= LimitRules.maximumInWindow)
    guard !visitor.hasFailed else { return }
    for index in 0..<Int(count) {
      var send = Visitor.isReading ? .blank : send(index)
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
      ($0..<min($0 + size, all.count)).map(send)
    }
  }

  /// Adds a stored page. Returns false if it contradicts the others.
  mutating func attach(_ sends: [Send], at slot: UInt32) -> Bool {
    guard let first = sends.first, let last = sends.last, sends.count <= Self.pageSize,
      all.count + sends.count <= Self.maximumStored,
      zip(sends, sends.dropFirst()).allSatisfy({ $0.at <= $1.at && $0.id <= $1.id })
    else { return false }
    // Most often it is the newest.
    var (number, index) = (pages.count, all.count)
    while number > 0, all[index - 1].id > first.id {
      number -= 1
      index -= Int(pages[number].count)
    }
    guard index == 0 || (all[index - 1].at <= first.at && all[index - 1].id <= first.id),
      index == all.count || (last.at <= all[index].at && last.id <= all[index].id)
    else { return false }
    insert(sends, at: index)
    // A page that is not full is never filled up: a page before it may be attached later.
    pages.insert(
      Page(slot: slot, count: UInt32(sends.count), filled: Self.pageSize), at: number)
    return true
  }

  /// The oldest page may still have sends that have left all windows.
  private static let maximumStored = LimitRules.maximumInWindow + Int(pageSize)

  private mutating func insert(_ sends: [Send], at index: Int) {
    var end = begin(index)
    let entries = sends.map { send in
      end += Int64(send.count)
      if send.refunded > 0 { refunded[send.id] = send.refunded }
      return Entry(at: send.at, bits: send.bits, end: end)
    }
    let added = end - begin(index)
    for later in index..<all.count { all[later].end += added }
    all.insert(contentsOf: entries, at: index)
  }
}

extension LimitSends.Send: Stored {
  package static var blank: LimitSends.Send { LimitSends.Send(at: .zero, id: 0, .ignored) }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.instant("at", &at)
    visitor.field("bits", &bits)
    guard EntityRecord.hasCounts(visitor.format) else { return }
    visitor.field("units", &count)
    visitor.require((1...UInt32(LimitRules.maximumInWindow)).contains(count))
    guard EntityRecord.hasRefunds(visitor.format) else { return }
    visitor.field("refunded", &refunded)
    visitor.require(refunded <= UInt32(Throttle.Rate.maximum))
  }
}

extension StateWriter {
  /// Writes the record of a page of sends.
  mutating func page(of key: [UInt8], _ sends: [LimitSends.Send]) {
    var sends = sends
    let isPlain = sends.allSatisfy { $0.count == 1 }
    format = isPlain ? EntityRecord.sends : EntityRecord.countedSends
    if sends.contains(where: { $0.refunded > 0 }) { format = EntityRecord.refundedSends }
    integer(format)
    text(key)
    list("sends", &sends)
  }
}
