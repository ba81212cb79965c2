import Countdowns

/// The stored event log: a bounded number of events, several of one user per row. A row that lacks
/// its predecessor makes known that events before it are missing.
struct EventTable {
  private let database: Database
  private let bound: EventBound
  /// Why the rows cannot be read to the end, or nil if they can.
  let damage: StoreError?
  /// The sequence number of the newest row; 0 if there is none, `.max` if it cannot be read.
  private(set) var lastSequence: Int64
  private var ordinal: Int64
  /// The rows, oldest first; nil if they are not known yet.
  private(set) var rows: [Row]?

  init(
    _ database: Database, _ options: Store.Options, rows: [Row]? = nil
  ) throws(StoreError) {
    try self.init(database, limit: options.eventLimit, bytes: options.eventBytes)
    self.rows = rows
  }

  /// - Parameters:
  ///   - limit: the number of events to keep; the table may have up to one row more.
  ///   - bytes: the most bytes of them; the newest row is kept in any case.
  init(_ database: Database, limit: Int, bytes: Int = .max) throws(StoreError) {
    self.database = database
    bound = EventBound(count: limit, bytes: bytes)
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

  /// Appends events by their last number, and removes what is beyond the bound. Does not write
  /// events that would be removed at once.
  mutating func append(_ batches: [LoggedEvents]) throws(StoreError) {
    let isCleared = batches.first?.events.dropsAll == true
    if bound.count == 0 || isCleared {
      try database.execute("DELETE FROM events")
      (lastSequence, ordinal, rows) = (0, 0, [])
    }
    guard bound.count > 0 else { return }
    let batches = batches.filter { $0.events.lastSequence > lastSequence }
    guard !batches.isEmpty else { return }
    var rows = if let rows { rows } else { try storedRows() }
    rows += batches.map(Row.init)
    let dropped = rowsToDrop(of: rows)
    let delete = try Statement(database, "DELETE FROM events WHERE last_seq = ?")
    for last in dropped where last <= lastSequence {
      delete.bind(1, last)
      try delete.run()
    }
    let insert = try Statement(
      database,
      "INSERT INTO events (last_seq, after_seq, ordinal, bytes, sum) VALUES (?, ?, ?, ?, ?)")
    for batch in batches {
      let after = min(max(lastSequence, batch.missingThrough), batch.events.lastSequence)
      ordinal += Int64(batch.events.count)
      lastSequence = batch.events.lastSequence
      guard !dropped.contains(lastSequence) else { continue }
      insert.bind(1, lastSequence)
      insert.bind(2, after)
      insert.bind(3, ordinal)
      insert.bind(4, batch.events.bytes[...])
      insert.bind(5, Self.sum(lastSequence, after, ordinal, batch.events.bytes))
      try insert.run()
    }
    if !dropped.isEmpty { rows.removeAll { dropped.contains($0.last) } }
    self.rows = rows
  }

  /// Returns the last numbers of the rows to be dropped. The newest row stays, so that it is known
  /// what was before it.
  private func rowsToDrop(of rows: [Row]) -> Set<Int64> {
    var total = EventBound.Amount()
    var users: [UInt32: (amount: EventBound.Amount, rows: ArraySlice<Row>)] = [:]
    for (index, row) in rows.enumerated() {
      total += row.amount
      users[row.user, default: (.init(), [])].amount += row.amount
      if index < rows.count - 1 { users[row.user]?.rows.append(row) }
    }
    var dropped: Set<Int64> = []
    while let victim = bound.victim(
      of: total,
      users.lazy.filter { !$1.rows.isEmpty }.map { (user: $0, amount: $1.amount) },
      oldest: { users[$0]?.rows.first?.amount.count ?? 0 }),
      let row = users[victim.user]?.rows.popFirst()
    {
      total -= row.amount
      users[victim.user]?.amount -= row.amount
      dropped.insert(row.last)
    }
    return dropped
  }

  /// What a row takes.
  struct Row {
    let last: Int64
    let user: UInt32
    let amount: EventBound.Amount
  }

  /// Returns all rows that are stored. Rows of earlier releases do not have their number of events:
  /// it follows from the ordinals.
  private func storedRows() throws(StoreError) -> [Row] {
    let statement = try Statement(
      database,
      """
      SELECT last_seq, ordinal, length(bytes), substr(bytes, 1, \(EventCoding.headerLengthOfUser))
        FROM events ORDER BY last_seq
      """)
    defer { statement.reset() }
    var rows: [Row] = []
    var before: Int64?
    while try statement.step() {
      let (ordinal, header) = (statement.number(1), statement.bytes(3))
      let known = EventCoding.user(of: header.span)
      let since = Int(clamping: ordinal - (before ?? ordinal - 1))
      before = ordinal
      rows.append(
        Row(
          last: statement.number(0), user: known?.user ?? EventCoding.noUser,
          amount: .init(count: known?.count ?? since, bytes: Int(statement.number(2)))))
    }
    return rows
  }
}

extension EventTable.Row {
  init(_ events: LoggedEvents) {
    self.init(
      last: events.events.lastSequence, user: events.events.user,
      amount: .init(count: events.events.count, bytes: events.events.bytes.count))
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

  /// Adds later events of the same user. Returns false if this has enough.
  mutating func append(_ next: LoggedEvents) -> Bool {
    guard events.count < 512, events.bytes.count < Self.enough else { return false }
    events.append(next.events)
    return true
  }
}
