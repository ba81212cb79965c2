/// The newest events, kept for those who were away: a bounded number of them.
final class EventTable {
  private let database: Database
  private let limit: Int64
  /// This part of the limit may be there beyond it.
  private static let partBeyond: Int64 = 64
  private let insert: Statement
  private let trim: Statement
  /// Why its rows cannot be read to the end.
  let damage: StoreError?
  /// Of the newest row; 0 if there is none, more than can be if it cannot be read.
  private(set) var lastSequence: Int64
  private var ordinal: Int64
  /// From which ordinal on the oldest rows go. Not with each turn: that would be other pages to write.
  private var trimAt: Int64 = 0
  /// As they were after the last transaction; the one under way may append several times.
  private var before: (lastSequence: Int64, ordinal: Int64, trimAt: Int64)

  /// - Parameter limit: how many events are kept; up to a 64th more, and what is in their row.
  init(_ database: Database, limit: Int) throws(StoreError) {
    self.database = database
    self.limit = Int64(limit)
    insert = try Statement(
      database,
      "INSERT INTO events (last_seq, after_seq, ordinal, payload, sum) VALUES (?, ?, ?, ?, ?)")
    // Rows are looked at from the oldest on, up to the first that stays.
    trim = try Statement(
      database,
      """
      DELETE FROM events WHERE last_seq <
        (SELECT last_seq FROM events WHERE ordinal > ? ORDER BY last_seq LIMIT 1)
      """)
    do throws(StoreError) {
      lastSequence = try database.number("SELECT max(last_seq) FROM events")
      ordinal = try database.number("SELECT ordinal FROM events ORDER BY last_seq DESC LIMIT 1")
      damage = nil
    } catch {
      guard error.kind == .corrupt else { throw error }
      (lastSequence, ordinal) = (.max, 0)
      damage = error
    }
    before = (lastSequence, ordinal, trimAt)
  }

  /// Of sequence numbers, which begin at microseconds since 1970, and of ordinals: some centuries.
  private static let possible: ClosedRange<Int64> = 0...1 << 53

  /// The newest number that can have been given to an event, of those that are in the rows.
  var highestSequence: Int64 { Self.possible.contains(lastSequence) ? lastSequence : 0 }

  /// Has events that come after `sequence` follow without a gap on what is there; where nothing is,
  /// notes that there were none up to then. With no limit, all of them go: they would be followed by
  /// a gap that nobody knows of.
  func begin(after sequence: Int64) throws(StoreError) {
    if limit == 0 {
      try database.execute("DELETE FROM events")
      (lastSequence, ordinal) = (0, 0)
    } else if lastSequence == 0, sequence > 0 {
      try insertNothing(after: sequence)
    }
    didCommit()
  }

  /// Notes that of the events up to `sequence` some that came after those that are there may be missing.
  func noteGap(through sequence: Int64) throws(StoreError) {
    guard lastSequence > 0, sequence > lastSequence else { return }
    try insertNothing(after: sequence)
    didCommit()
  }

  /// A row without events that does not follow on the row before.
  private func insertNothing(after sequence: Int64) throws(StoreError) {
    insert.bind(1, sequence)
    insert.bind(2, sequence)
    insert.bind(3, ordinal)
    insert.bind(4, [])
    insert.bindSum(5)
    try insert.run()
    lastSequence = sequence
  }

  /// Oldest first, as they were committed. What makes no sense is left out; then that is thrown.
  func load(_ body: (StoredEvents) -> Void) throws(StoreError) {
    let rows = try Statement(
      database, "SELECT last_seq, after_seq, ordinal, payload, sum FROM events ORDER BY last_seq")
    defer { rows.reset() }
    var nonsense: Int64?
    while try rows.step() {
      let (last, after, ordinal) = (rows.number(0), rows.number(1), rows.number(2))
      let payload = rows.bytes(3)
      guard rows.hasRightSum(4), Self.possible.contains(last), (0...last).contains(after),
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

  /// O(log n), and O(1) for each row that goes.
  func append(_ events: StoreBatch.Events) throws(StoreError) {
    precondition(events.lastSequence > lastSequence, "sequence numbers must rise")
    insert.bind(1, events.lastSequence)
    insert.bind(2, min(max(lastSequence, events.missingThrough), events.lastSequence))
    insert.bind(3, ordinal + Int64(events.count))
    insert.bind(4, events.payload)
    insert.bindSum(5)
    lastSequence = events.lastSequence
    ordinal += Int64(events.count)
    try insert.run()
    guard ordinal >= trimAt else { return }
    trim.bind(1, ordinal - limit)
    try trim.run()
    trimAt = ordinal + limit / Self.partBeyond
  }

  /// The transaction has been rolled back.
  func takeBack() { (lastSequence, ordinal, trimAt) = before }

  func didCommit() { before = (lastSequence, ordinal, trimAt) }
}

/// Events that were committed together, in the form they were given.
package struct StoredEvents: Equatable, Sendable {
  /// Nothing is missing between this number and the first of them.
  package var afterSequence: Int64
  package var lastSequence: Int64
  package var payload: [UInt8]
}
