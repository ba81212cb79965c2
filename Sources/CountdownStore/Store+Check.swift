import CSQLite
import Glibc

extension Store {
  /// What a look through a whole state directory has found.
  package struct Report: Sendable {
    /// The file that was looked through.
    package var path: String
    /// 0 if the file is empty.
    package var schemaVersion = 0
    package var product = ""
    package var countdowns = 0
    package var timers = 0
    package var huds = 0
    package var guards: [GuardRecord.Kind: Int] = [:]
    /// False for a file of an older version: its rows are counted only.
    package var areRowsRead = true
    /// Empty if all is well.
    package var problems: [String] = []
  }

  /// Whether a row that can be read is one that ever was written.
  package struct Sense {
    package var countdown: (CountdownRecord) -> Bool
    package var timer: (TimerRecord) -> Bool
    package var hud: (HUDRecord) -> Bool
    package var guardRecord: (GuardRecord) -> Bool
    package var events: (StoredEvents) -> Bool

    package init(
      countdown: @escaping (CountdownRecord) -> Bool, timer: @escaping (TimerRecord) -> Bool,
      hud: @escaping (HUDRecord) -> Bool, guardRecord: @escaping (GuardRecord) -> Bool,
      events: @escaping (StoredEvents) -> Bool
    ) {
      self.countdown = countdown
      self.timer = timer
      self.hud = hud
      self.guardRecord = guardRecord
      self.events = events
    }

    static var any: Sense {
      Sense(
        countdown: { _ in true }, timer: { _ in true }, hud: { _ in true },
        guardRecord: { _ in true }, events: { _ in true })
    }
  }

  /// Looks through the state in a directory that no daemon uses: every page and every row.
  ///
  /// Changes nothing of the state. Throws what keeps it from looking; what is found is in the report.
  package static func check(directory: String, _ sense: Sense) throws(StoreError) -> Report {
    let files = StateFiles(directory: directory)
    let decided = files.decidedReplacement()
    var report = Report(path: decided?.path ?? files.database)
    guard access(report.path, F_OK) == 0 else {
      throw StoreError(systemError: errno, path: report.path, doing: "open")
    }
    // Where there is none no daemon has ever been; and one of this user might keep the daemon's out.
    let lock = access(directory + "/lock", F_OK) == 0 ? try DirectoryLock(directory) : nil
    defer { withExtendedLifetime(lock) {} }
    if let decided {
      report.problems.append(
        "a corrupt state is being replaced: the next start moves it to \(decided.target), and goes on with this"
      )
    }
    let isLogUnreadable =
      if decided == nil {
        try WriteAheadLog.isUnreadable(log: files.log, database: files.database)
      } else {
        false
      }
    if isLogUnreadable {
      report.problems.append(
        """
        the log of the newest changes cannot be read: \(files.log). The next start sets it aside, and goes on with \
        the state before them; restore a backup if they matter
        """)
    }
    if files.isEmpty, NumberFloor(directory: directory).read() != nil {
      report.problems.append("there was a state, and now there is nothing in \(files.database)")
    }
    // To SQLite the log of an empty file is to be removed.
    guard StateFiles.size(report.path) > 0 else { return report }
    try look(through: &report, sense, files, looksForLoss: decided == nil && !isLogUnreadable)
    return report
  }

  private static func look(
    through report: inout Report, _ sense: Sense, _ files: StateFiles, looksForLoss: Bool
  ) throws(StoreError) {
    let hadLog = access(report.path + "-wal", F_OK) == 0
    let database = try Database(report.path, .readWrite)
    // A log stays as it is; one that was made for looking goes.
    database.leavesLog = hadLog
    report.schemaVersion = try Schema.current.verify(database)
    if let header = database.damagedHeader { report.problems.append(header.detail) }
    if looksForLoss,
      let loss = try WriteAheadLog.loss(database, mark: CommitMark.read(files.mark))
    {
      report.problems.append("\(loss.detail): \(loss.path)")
    }
    guard report.schemaVersion > 0 else { return }
    report.product = try database.texts("SELECT product FROM meta").first ?? ""
    report.problems += try database.problems("integrity_check", most: 20)
    if report.schemaVersion == Schema.current.version {
      try read(database, &report, sense)
    } else {
      report.areRowsRead = false
      report.countdowns = Int(try database.number("SELECT count(*) FROM countdowns"))
      report.timers = Int(try database.number("SELECT count(*) FROM timers"))
      report.huds = Int(try database.number("SELECT count(*) FROM huds"))
    }
  }

  /// What SQLite finds in order may still be nonsense to us.
  private static func read(
    _ database: Database, _ report: inout Report, _ sense: Sense
  ) throws(StoreError) {
    var problems: [String] = []
    func note(_ makesSense: Bool, _ row: Int64, _ table: String) {
      if !makesSense { problems.append("row \(row) of \(table) makes no sense") }
    }
    func attempt(_ body: () throws(StoreError) -> Void) throws(StoreError) {
      do throws(StoreError) {
        try body()
      } catch {
        guard error.kind == .corrupt else { throw error }
        problems.append(error.detail)
      }
    }
    func read<Record: StoredRecord & Sendable>(
      _ sense: (Record) -> Bool, _ count: (Record) -> Void
    ) throws(StoreError) {
      try attempt { () throws(StoreError) in
        try Table<Record>(database).load { record in
          count(record)
          note(sense(record), Int64(record.index), Record.table)
        }
        let kind = Record.self == GuardRecord.self ? "kind, " : ""
        let others = try database.number(
          """
          SELECT count(*) FROM (SELECT 1 FROM \(Record.table) GROUP BY \(kind)key HAVING count(*) > 1)
          """)
        if others > 0 { problems.append("\(others) keys are in several rows of \(Record.table)") }
      }
    }
    try attempt { () throws(StoreError) in _ = try Meta.read(database) }
    try read(sense.countdown) { _ in report.countdowns += 1 }
    try read(sense.timer) { _ in report.timers += 1 }
    try read(sense.hud) { _ in report.huds += 1 }
    try read(sense.guardRecord) { report.guards[$0.state.kind, default: 0] += 1 }
    try attempt { () throws(StoreError) in
      try EventTail(database, limit: 0).load { note(sense.events($0), $0.lastSequence, "events") }
    }
    report.problems += problems
  }
}
