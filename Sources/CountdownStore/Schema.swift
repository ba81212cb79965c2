/// The tables of a state.
///
/// `PRAGMA user_version` is the version of the tables; each record has a version of its own. No
/// release has written another one yet. The next one will migrate this in one transaction.
enum Schema {
  /// "Cntd": distinguishes our files from those of other programs.
  static let applicationID: Int64 = 0x436e_7464
  static let version = 5

  /// Creates the tables in a new file. If it throws, the file is unchanged.
  static func create(in database: Database) throws(StoreError) {
    guard try verify(database) == 0 else { return }
    do throws(StoreError) {
      try database.transaction { () throws(StoreError) in
        try database.execute(tables)
        try database.execute("PRAGMA application_id = \(applicationID)")
        try database.execute("PRAGMA user_version = \(version)")
      }
    } catch {
      // Our SQL is tested, so an existing table is damage.
      throw error.kind == .misuse ? database.corrupt(error.detail) : error
    }
  }

  /// Refuses files of other versions and of other programs.
  ///
  /// - Returns: the file's version; 0 if it is new.
  @discardableResult
  static func verify(_ database: Database) throws(StoreError) -> Int {
    let found = Int(try database.number("PRAGMA user_version"))
    let application = try database.number("PRAGMA application_id")
    if application != applicationID {
      let tables = try database.number("SELECT count(*) FROM sqlite_schema")
      guard found == 0, application == 0, tables == 0 else {
        throw StoreError(.foreign, database.path, "application id \(application)")
      }
      return 0
    }
    // One transaction writes both numbers.
    guard found >= version else { throw database.corrupt("schema version \(found)") }
    guard found == version else {
      throw .newerSchema(found: found, known: version, of: "tables", database)
    }
    return found
  }

  private static let tables = """
    CREATE TABLE meta (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      bytes BLOB NOT NULL,
      sum INTEGER NOT NULL               -- CRC32C of the bytes
    ) STRICT;

    CREATE TABLE entities (
      id INTEGER PRIMARY KEY,
      kind INTEGER AS (id >> 32),
      place INTEGER AS (id & 0xffffffff),
      bytes BLOB NOT NULL,               -- the record of an entity, as in the log
      sum INTEGER NOT NULL               -- CRC32C of the id and the bytes
    ) STRICT;

    CREATE TABLE events (
      last_seq INTEGER PRIMARY KEY,      -- of the last event in this row
      after_seq INTEGER NOT NULL,        -- last_seq of the row before; 0 for the first of all
      ordinal INTEGER NOT NULL,          -- how many events there were up to and with these
      bytes BLOB NOT NULL,
      sum INTEGER NOT NULL               -- CRC32C of all other columns
    ) STRICT;
    """
}
