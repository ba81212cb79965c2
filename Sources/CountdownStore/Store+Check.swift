import CSQLite
import Countdowns
import Glibc

extension Store {
  /// The result of checking a whole state directory.
  package struct Report: Sendable {
    /// The database that was checked.
    package var path: String
    /// 0 if the file is empty.
    package var schemaVersion = 0
    package var product = ""
    /// The number of entities of each kind.
    package var counts: [EntityKind: Int] = [:]
    /// Whether the rows were read; in a file of an older version they are only counted.
    package var areRowsRead = true
    /// Empty if all is well.
    package var problems: [String] = []
  }

  /// Checks every page and every row of the state in a directory that no daemon uses.
  ///
  /// Does not change the state. Throws if the check is impossible; the report has what it finds.
  ///
  /// - Parameter areEvents: returns whether the engine can read a row of events.
  package static func check(
    directory: String, _ areEvents: ([UInt8]) -> Bool = EventLog.makesSense
  ) throws(StoreError) -> Report {
    let files = StateFiles(directory: directory)
    let decided = files.decidedReplacement()
    var report = Report(path: decided?.path ?? files.database)
    guard access(report.path, F_OK) == 0 else {
      throw StoreError(systemError: errno, path: report.path, doing: "open")
    }
    // Without a lock file, no daemon has used the directory. Creating one as this user might keep
    // the daemon from opening it.
    let lock = access(directory + "/lock", F_OK) == 0 ? try DirectoryLock(directory) : nil
    defer { withExtendedLifetime(lock) {} }
    if let decided {
      report.problems.append(
        "a corrupt state is being replaced: the next start moves it to \(decided.target), and continues with this"
      )
    }
    if files.isEmpty, NumberFloor(directory: directory).read() != nil {
      report.problems.append("there was a state, and now there is nothing in \(files.database)")
    }
    guard StateFiles.size(report.path) > 0 else { return report }
    try look(through: &report, areEvents, files, isLogRead: decided == nil)
    return report
  }

  private static func look(
    through report: inout Report, _ areEvents: ([UInt8]) -> Bool, _ files: StateFiles,
    isLogRead: Bool
  ) throws(StoreError) {
    let database = try Database(report.path, .readWrite)
    // The WAL of an older version stays unchanged.
    database.leavesLog = access(report.path + "-wal", F_OK) == 0
    report.schemaVersion = try Schema.current.verify(database)
    if let header = database.damagedHeader { report.problems.append(header.detail) }
    guard report.schemaVersion > 0 else { return }
    report.product = try database.texts("SELECT product FROM meta").first ?? ""
    report.problems += try problems(of: database)
    if report.schemaVersion == Schema.current.version {
      try read(database, isLogRead ? files : nil, &report, areEvents)
    } else {
      report.areRowsRead = false
      for record in Tables.records where record.kinds.count == 1 {
        let count = try database.number("SELECT count(*) FROM \(record.table)")
        report.counts[record.kinds[0]] = Int(count)
      }
    }
  }

  /// Returns what SQLite finds. Views would hide lost pages, so they are dropped meanwhile.
  private static func problems(of database: Database) throws(StoreError) -> [String] {
    try database.execute("BEGIN")
    defer { database.rollBack() }
    do throws(StoreError) {
      try Views.drop(from: database)
    } catch {
      guard error.kind == .corrupt else { throw error }
      return [error.detail]
    }
    return try database.problems("integrity_check", most: 20)
  }

  /// Reads all rows and batches, since rows that SQLite can read may still be invalid.
  ///
  /// - Parameter files: the directory of the log; nil if the state has none.
  private static func read(
    _ database: Database, _ files: StateFiles?, _ report: inout Report,
    _ areEvents: ([UInt8]) -> Bool
  ) throws(StoreError) {
    var problems: [String] = []
    func attempt(_ body: () throws(StoreError) -> Void) throws(StoreError) {
      do throws(StoreError) {
        try body()
      } catch {
        guard error.kind == .corrupt else { throw error }
        problems.append(error.detail)
      }
    }
    var meta: Meta?
    try attempt { () throws(StoreError) in meta = try Meta.read(database) }
    let log = try files.map { (files) throws(StoreError) in
      try LogContents(
        files,
        LogContents.Query(
          lineage: meta?.lineage, folded: meta?.folded ?? 0, start: meta?.start ?? 0))
    }
    if let damage = log?.damage { problems.append("\(damage.detail): \(damage.path)") }
    // The offset is irrelevant: whether a row is valid does not depend on the time.
    let counter = RecordCounter()
    Tables.load(database, offset: 0, besides: log?.newest ?? NewestChanges(), counter)
    if let log { Tables.load(log, offset: 0, counter) }
    report.counts = counter.counts
    for record in Tables.records {
      try attempt { () throws(StoreError) in
        if let failure = counter.failures[record.table] { throw failure }
        let kind = record.kinds.count > 1 ? "kind, " : ""
        let others = try database.number(
          """
          SELECT count(*) FROM (SELECT 1 FROM \(record.table) GROUP BY \(kind)key HAVING count(*) > 1)
          """)
        if others > 0 { problems.append("\(others) keys are in several rows of \(record.table)") }
      }
    }
    try log?.forEachNewest(records: false) { entry in
      guard case .events(let events, _) = entry, !areEvents(events.bytes) else { return }
      problems.append("events up to \(events.lastSequence) in the log make no sense")
    }
    try attempt { () throws(StoreError) in
      try EventTable(database, limit: 0).load { events in
        guard !areEvents(events.payload) else { return }
        problems.append("row \(events.lastSequence) of events makes no sense")
      }
    }
    report.problems += problems
  }
}

private final class RecordCounter: RecordReader {
  let portion = 4_096
  let wantsMore = true
  private(set) var counts: [EntityKind: Int] = [:]
  /// The errors, by table.
  private(set) var failures: [String: StoreError] = [:]

  func take<Record: StoredRecord>(_ rows: [StoredRow<Record>]) {
    for row in rows { counts[row.record.kind, default: 0] += 1 }
  }

  func fail<Record: StoredRecord>(_ error: StoreError, in table: Record.Type) {
    failures[Record.table] = error
  }
}
