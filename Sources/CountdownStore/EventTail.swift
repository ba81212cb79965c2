/// The newest events, kept for those who were away: a bounded number of them.
final class EventTail {
  private let limit: Int64
  private let insert: Statement
  private let trim: Statement
  /// Of the newest row; 0 if there is none.
  private(set) var lastSequence: Int64
  private var ordinal: Int64
  /// As they were before the transaction that is under way.
  private var before: (lastSequence: Int64, ordinal: Int64)

  /// - Parameter limit: how many events are kept; a few more while their rows are not full.
  init(_ database: Database, limit: Int) throws(StoreError) {
    self.limit = Int64(limit)
    insert = try Statement(
      database, "INSERT INTO events (last_seq, after_seq, ordinal, payload) VALUES (?, ?, ?, ?)")
    // Rows are looked at from the oldest on, up to the first that stays.
    trim = try Statement(
      database,
      """
      DELETE FROM events WHERE last_seq <
        (SELECT last_seq FROM events WHERE ordinal > ? ORDER BY last_seq LIMIT 1)
      """)
    lastSequence = try database.number("SELECT max(last_seq) FROM events")
    ordinal = try database.number("SELECT ordinal FROM events ORDER BY last_seq DESC LIMIT 1")
    before = (lastSequence, ordinal)
  }

  /// O(log n), and O(1) for each row that is too old.
  func append(_ events: StoreBatch.Events) throws(StoreError) {
    precondition(events.lastSequence > lastSequence, "sequence numbers must rise")
    before = (lastSequence, ordinal)
    insert.bind(1, events.lastSequence)
    insert.bind(2, lastSequence)
    insert.bind(3, ordinal + Int64(events.count))
    insert.bind(4, events.payload)
    lastSequence = events.lastSequence
    ordinal += Int64(events.count)
    try insert.run()
    trim.bind(1, ordinal - limit)
    try trim.run()
  }

  /// The transaction has been rolled back.
  func takeBack() { (lastSequence, ordinal) = before }

  func didCommit() { before = (lastSequence, ordinal) }
}
