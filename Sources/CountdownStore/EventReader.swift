/// Reads stored events, on a connection of its own: while commits are under way on another thread.
///
/// One thread at a time. The store must be open all the while.
package final class EventReader {
  private let rows: Statement

  package init(directory: String) throws(StoreError) {
    let database = try Database(StateFiles(directory: directory).database, .readOnly)
    rows = try Statement(
      database,
      "SELECT last_seq, after_seq, payload FROM events WHERE last_seq > ? ORDER BY last_seq")
  }

  /// Stored events after `sequence`, oldest first, a batch at a time; the first batch may begin with
  /// events that are not after it. `body` returns false to stop.
  ///
  /// - Returns: false if some events after `sequence` are not kept any more.
  package func read(
    after sequence: Int64, _ body: (_ lastSequence: Int64, _ payload: [UInt8]) -> Bool
  ) throws(StoreError) -> Bool {
    rows.bind(1, sequence)
    defer { rows.reset() }
    var isComplete = true
    var isFirst = true
    while try rows.step() {
      if isFirst { isComplete = rows.number(1) <= sequence || rows.number(1) == 0 }
      isFirst = false
      guard body(rows.number(0), rows.bytes(2)) else { break }
    }
    return isComplete
  }
}
