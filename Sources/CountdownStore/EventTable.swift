import Countdowns

/// The stored event log: a bounded number of the newest events, several per row.
struct EventTable {
  private let database: Database
  private let limit: Int64
  private let mostBytes: Int64
  /// Why the rows cannot be read to the end, or nil if they can.
  let damage: StoreError?
  /// The sequence number of the newest row; 0 if there is none, `.max` if it cannot be read.
  private(set) var lastSequence: Int64
  private var ordinal: Int64

  init(_ database: Database, _ options: Store.Options) throws(StoreError) {
    try self.init(database, limit: options.eventLimit, bytes: options.eventBytes)
  }

  /// - Parameters:
  ///   - limit: the number of events to keep; the table may have up to one row more.
  ///   - bytes: the most bytes of them; the newest row is kept in any case.
  init(_ database: Database, limit: Int, bytes: Int = .max) throws(StoreError) {
    self.database = database
    self.limit = Int64(limit)
    mostBytes = Int64(bytes)
    do throws(StoreError) {
      lastSequence = try database.number("SELECT max(last_seq) FROM events")
      ordinal = try database.number("SELECT ordinal FROM events ORDER BY last_seq DESC LIMIT 1")
      damage = nil
    } catch {
      guard error.kind == .corrupt else { throw error }
      (lastSequence, ordinal) = (.max, 0)
      damage = error
    }
  }

  /// Valid ordinals and sequence numbers: those that begin at any valid floor.
  private static let possible = 0...Numbers.possible.upperBound * 2

  /// The sequence number of the newest row if it is valid, else 0.
  var highestSequence: Int64 { Self.possible.contains(lastSequence) ? lastSequence : 0 }

  /// Reads the events, oldest first. Skips invalid rows, and throws at the end if there were any.
  func load(_ body: (StoredEvents) -> Void) throws(StoreError) {
    let rows = try Statement(
      database, "SELECT last_seq, after_seq, ordinal, bytes, sum FROM events ORDER BY last_seq")
    defer { rows.reset() }
    var nonsense: Int64?
    while try rows.step() {
      let (last, after, ordinal) = (rows.number(0), rows.number(1), rows.number(2))
      let payload = rows.bytes(3)
      guard rows.number(4) == Self.sum(last, after, ordinal, payload), Self.possible.contains(last),
        (0...last).contains(after),
        Self.possible.contains(ordinal)
      else {
        nonsense = last
        continue
      }
      body(StoredEvents(afterSequence: after, lastSequence: last, payload: payload))
    }
    if let nonsense {
      throw StoreError(.corrupt, database.path, "row \(nonsense) of events makes no sense")
    }
  }

  private static func sum(
    _ last: Int64, _ after: Int64, _ ordinal: Int64, _ payload: [UInt8]
  ) -> Int64 {
    var sum = CRC32C.checksum(of: last)
    sum = CRC32C.checksum(of: after, after: sum)
    sum = CRC32C.checksum(of: ordinal, after: sum)
    return Int64(CRC32C.checksum(payload.span, after: sum))
  }

  /// Appends events, oldest first, and removes the oldest beyond the limit. Does not write events
  /// that would be removed at once.
  mutating func append(_ batches: [LoggedEvents]) throws(StoreError) {
    let batches = batches[(batches.lastIndex { $0.events.dropsAll } ?? 0)...]
    if limit == 0 || batches.first?.events.dropsAll == true {
      try database.execute("DELETE FROM events")
      (lastSequence, ordinal) = (0, 0)
    }
    guard limit > 0 else { return }
    let insert = try Statement(
      database,
      "INSERT INTO events (last_seq, after_seq, ordinal, bytes, sum) VALUES (?, ?, ?, ?, ?)")
    var newer = batches.reduce(0) { $0 + Int64($1.events.count) }
    for batch in batches where batch.events.lastSequence > lastSequence {
      let after = min(max(lastSequence, batch.missingThrough), batch.events.lastSequence)
      newer -= Int64(batch.events.count)
      ordinal += Int64(batch.events.count)
      lastSequence = batch.events.lastSequence
      guard newer < limit else { continue }
      insert.bind(1, batch.events.lastSequence)
      insert.bind(2, after)
      insert.bind(3, ordinal)
      insert.bind(4, batch.events.bytes[...])
      insert.bind(5, Self.sum(batch.events.lastSequence, after, ordinal, batch.events.bytes))
      try insert.run()
    }
    let trim = try Statement(
      database,
      """
      DELETE FROM events WHERE last_seq <
        (SELECT last_seq FROM events WHERE ordinal > ? ORDER BY last_seq LIMIT 1)
      """)
    trim.bind(1, ordinal - limit)
    try trim.run()
    try trimBytes()
  }

  /// Removes the oldest rows beyond the limit of bytes.
  private func trimBytes() throws(StoreError) {
    var excess = try database.number("SELECT sum(length(bytes)) FROM events") - mostBytes
    guard excess > 0 else { return }
    let rows = try Statement(
      database, "SELECT last_seq, length(bytes) FROM events WHERE last_seq < ? ORDER BY last_seq")
    rows.bind(1, lastSequence)
    var last: Int64 = 0
    while excess > 0, try rows.step() {
      last = rows.number(0)
      excess -= rows.number(1)
    }
    rows.reset()
    try database.execute("DELETE FROM events WHERE last_seq <= \(last)")
  }
}

/// Events that were committed together.
package struct StoredEvents: Equatable, Sendable {
  /// No event is missing between this number and the first of these events.
  package var afterSequence: Int64
  package var lastSequence: Int64
  package var payload: [UInt8]

  /// Reads all events of a table and a log, oldest first. Skips rows that make no sense, and throws
  /// at the end if there were any.
  ///
  /// - Parameter missingThrough: events after these, up to this number, may be missing.
  static func load(
    _ table: EventTable, _ log: LogContents, missingThrough: Int64? = nil,
    _ body: (StoredEvents) -> Void
  ) throws(StoreError) {
    var failure: StoreError?
    var all: [StoredEvents] = []
    var last = table.highestSequence
    if !log.dropsEvents {
      do throws(StoreError) {
        try table.load(body)
      } catch {
        failure = error
      }
    }
    try log.forEachNewest(records: false) { entry in
      guard case .events(let portion, let missing) = entry else { return }
      if portion.dropsAll { (all, last) = ([], 0) }
      guard portion.lastSequence > last else { return }
      all.append(
        StoredEvents(
          afterSequence: min(max(last, missing), portion.lastSequence),
          lastSequence: portion.lastSequence, payload: portion.bytes))
      last = portion.lastSequence
    }
    for events in all { body(events) }
    if let missingThrough, last > 0, missingThrough > last {
      body(
        StoredEvents(afterSequence: missingThrough, lastSequence: missingThrough, payload: []))
    }
    if let failure { throw failure }
  }
}

/// Events from the change log.
package struct LoggedEvents: Sendable {
  package var events: EventLog.Portion
  /// Events after the previous ones, up to this number, may be missing.
  package var missingThrough: Int64

  package init(_ events: EventLog.Portion, missingThrough: Int64) {
    self.events = events
    self.missingThrough = missingThrough
  }

  /// From this size on, no events are added.
  private static let enough = 256 << 10

  /// Adds the next events. Returns false if some may be missing in between, or this has enough.
  mutating func append(_ next: LoggedEvents) -> Bool {
    guard events.count < 512, events.bytes.count < Self.enough, events.count > 0,
      next.missingThrough <= events.lastSequence
    else { return false }
    events.append(next.events)
    return true
  }
}
