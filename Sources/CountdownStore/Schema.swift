/// The tables, and the migrations from older versions.
///
/// `PRAGMA user_version` is the version. The transaction that runs the steps also writes the new
/// version, so a file never mixes versions. A released step never changes: a new version adds a
/// step at the end, and a file to the tests.
struct Schema {
  /// "Cntd": distinguishes our files from those of other programs.
  static let applicationID: Int64 = 0x436e_7464

  /// The SQL of each migration: index n leads from version n to n + 1.
  var steps: [String]

  var version: Int { steps.count }

  static let current = Schema(steps: [version1, version2, version3, version4])

  /// Migrates a file of any older version to this one. If it throws, the file is unchanged.
  func migrate(_ database: Database) throws(StoreError) {
    let found = try verify(database)
    guard found < version else { return }
    do throws(StoreError) {
      try runSteps(from: found, database)
    } catch {
      // Our SQL is tested, so a missing or already existing table or column is damage.
      throw error.kind == .misuse ? database.corrupt(error.detail) : error
    }
  }

  private func runSteps(from found: Int, _ database: Database) throws(StoreError) {
    try database.transaction { () throws(StoreError) in
      for step in steps[found...] { try database.execute(step) }
      try database.execute("PRAGMA application_id = \(Self.applicationID)")
      try database.execute("PRAGMA user_version = \(version)")
    }
  }

  /// Refuses files of newer versions and of other programs.
  ///
  /// - Returns: the file's version; 0 if it is new.
  @discardableResult
  func verify(_ database: Database) throws(StoreError) -> Int {
    let found = Int(try database.number("PRAGMA user_version"))
    let application = try database.number("PRAGMA application_id")
    if application != Self.applicationID {
      let tables = try database.number("SELECT count(*) FROM sqlite_schema")
      guard found == 0, application == 0, tables == 0 else {
        throw StoreError(.foreign, database.path, "application id \(application)")
      }
    }
    // One transaction writes both numbers.
    if application == Self.applicationID, found < 1 {
      throw database.corrupt("schema version \(found)")
    }
    guard found <= version else {
      throw StoreError(
        .newerSchema(found: found, known: version), database.path, "nothing was changed")
    }
    return found
  }

  /// Countdowns have several tokens: `token` belongs to the newest start. Each row has a sum of its
  /// values, see `RowSum`; NULL in rows of older versions.
  private static let version3 =
    "ALTER TABLE countdowns ADD COLUMN earlier_tokens BLOB;\n"
    + ["meta", "countdowns", "timers", "huds", "guards", "events"]
    .map { "ALTER TABLE \($0) ADD COLUMN sum INTEGER;" }.joined(separator: "\n")

  /// The log is outside of SQLite: `lineage` ties it to this state, `folded` is the last batch in
  /// the tables, `start` counts the starts of daemons.
  private static let version4 = """
    ALTER TABLE meta ADD COLUMN lineage INTEGER;
    ALTER TABLE meta ADD COLUMN folded INTEGER;
    ALTER TABLE meta ADD COLUMN start INTEGER;
    """

  /// A row's id is the entity's place in the engine's table: no other index is needed, new rows are
  /// mostly appended, and each change finds its row directly.
  private static let version1 = """
    CREATE TABLE meta (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      product TEXT NOT NULL,             -- what wrote last
      created_unix_us INTEGER NOT NULL,
      number_floor INTEGER NOT NULL,     -- no generation or sequence number beyond was given out
      boot_id TEXT NOT NULL,             -- the clocks when they were last written down
      boot_us INTEGER NOT NULL,
      wall_us INTEGER NOT NULL,
      store_minus_boot_us INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE countdowns (
      id INTEGER PRIMARY KEY,
      key BLOB NOT NULL,
      generation INTEGER NOT NULL,
      uid INTEGER NOT NULL,
      phase INTEGER NOT NULL,            -- 0 counting, 1 paused, 2 ready, 3 idle: cancelled
      deadline_store_us INTEGER,         -- when it is or was ready, or cancelled; NULL while paused
      left_us INTEGER,                   -- while paused
      step_count INTEGER NOT NULL,
      every_us INTEGER NOT NULL,
      fires_at_once INTEGER NOT NULL,
      sends INTEGER NOT NULL,
      refunded INTEGER NOT NULL,         -- whether the last of them was given back
      title BLOB,
      ready_title BLOB,
      meta BLOB,
      token BLOB,
      policy BLOB,
      policy_state BLOB
    ) STRICT;

    CREATE TABLE timers (
      id INTEGER PRIMARY KEY,
      key BLOB NOT NULL,
      generation INTEGER NOT NULL,
      uid INTEGER NOT NULL,
      clock INTEGER NOT NULL,            -- 0 boot, 1 wall
      phase INTEGER NOT NULL,            -- 0 running, 1 paused
      deadline_store_us INTEGER,         -- clock boot, running
      deadline_unix_us INTEGER,          -- clock wall, running
      left_us INTEGER,                   -- while paused
      every_us INTEGER,                  -- NULL: once
      late INTEGER NOT NULL,             -- 0 fire, 1 skip, 2 coalesce
      fired INTEGER NOT NULL,
      missed INTEGER NOT NULL,
      payload BLOB
    ) STRICT;

    CREATE TABLE huds (
      id INTEGER PRIMARY KEY,
      key BLOB NOT NULL,
      generation INTEGER NOT NULL,
      uid INTEGER NOT NULL,
      deadline_store_us INTEGER,
      status BLOB,
      state BLOB NOT NULL
    ) STRICT;

    CREATE TABLE events (
      last_seq INTEGER PRIMARY KEY,      -- of the last event in this row
      after_seq INTEGER NOT NULL,        -- last_seq of the row before; 0 for the first of all
      ordinal INTEGER NOT NULL,          -- how many events there were up to and with these
      payload BLOB NOT NULL
    ) STRICT;
    """
}
