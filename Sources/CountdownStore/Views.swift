/// SQL views that make a backup readable in an SQLite tool.
///
/// Only backups have them. When a view comes before all tables in the schema, `quick_check` does
/// not search for unused pages (seen with SQLite 3.40), so it would miss a table whose root page
/// was swapped with one of its leaves.
enum Views {
  static func create(in database: Database) throws(StoreError) { try database.execute(sql) }

  /// Drops all views: restored backups have them, and states written by an early version.
  static func drop(from database: Database) throws(StoreError) {
    let drops = try database.texts(
      "SELECT format('DROP VIEW \"%w\"', name) FROM sqlite_schema WHERE type = 'view'")
    for drop in drops { try database.execute(drop) }
  }

  private static let sql = """
    CREATE VIEW countdown AS
    SELECT countdowns.id, CAST(key AS TEXT) AS key, generation, uid,
      CASE phase WHEN 0 THEN 'counting' WHEN 1 THEN 'paused' WHEN 2 THEN 'ready' WHEN 3 THEN 'idle'
        END AS state,
      strftime('%Y-%m-%dT%H:%M:%fZ',
        (deadline_store_us - store_minus_boot_us - boot_us + wall_us) / 1e6, 'unixepoch') AS deadline,
      left_us / 1e6 AS left_s, step_count, every_us / 1e6 AS every_s, fires_at_once, sends, refunded,
      CAST(title AS TEXT) AS title, CAST(ready_title AS TEXT) AS ready_title,
      CAST(countdowns.meta AS TEXT) AS meta, CAST(policy AS TEXT) AS policy
    FROM countdowns, meta;

    CREATE VIEW timer AS
    SELECT timers.id, CAST(key AS TEXT) AS key, generation, uid,
      CASE phase WHEN 0 THEN 'running' WHEN 1 THEN 'paused' END AS state,
      CASE clock WHEN 0 THEN 'boot' WHEN 1 THEN 'wall' END AS clock,
      strftime('%Y-%m-%dT%H:%M:%fZ',
        coalesce(deadline_unix_us, deadline_store_us - store_minus_boot_us - boot_us + wall_us)
          / 1e6, 'unixepoch') AS deadline,
      left_us / 1e6 AS left_s, every_us / 1e6 AS every_s,
      CASE late WHEN 0 THEN 'fire' WHEN 1 THEN 'skip' WHEN 2 THEN 'coalesce' END AS late,
      fired, missed, CAST(payload AS TEXT) AS payload
    FROM timers, meta;

    CREATE VIEW hud AS
    SELECT huds.id, CAST(key AS TEXT) AS screen, generation, uid,
      strftime('%Y-%m-%dT%H:%M:%fZ',
        (deadline_store_us - store_minus_boot_us - boot_us + wall_us) / 1e6, 'unixepoch') AS deadline,
      CAST(status AS TEXT) AS status, length(state) AS state_bytes
    FROM huds, meta;

    CREATE VIEW event AS
    SELECT last_seq, ordinal, CAST(payload AS TEXT) AS events FROM events;

    CREATE VIEW throttle AS
    SELECT guards.id, CAST(key AS TEXT) AS key, generation, uid, number AS burst, rate_count,
      interval_us / 1e6 AS rate_s,
      strftime('%Y-%m-%dT%H:%M:%fZ',
        (moment_store_us - store_minus_boot_us - boot_us + wall_us) / 1e6, 'unixepoch') AS full_at
    FROM guards, meta WHERE kind = 0;

    CREATE VIEW once AS
    SELECT guards.id, CAST(key AS TEXT) AS key, generation, uid,
      CASE phase WHEN 0 THEN 'running' WHEN 1 THEN 'done' END AS state,
      strftime('%Y-%m-%dT%H:%M:%fZ',
        (moment_store_us - store_minus_boot_us - boot_us + wall_us) / 1e6, 'unixepoch') AS deadline,
      CAST(payload AS TEXT) AS result
    FROM guards, meta WHERE kind = 1;

    CREATE VIEW gate AS
    SELECT guards.id, CAST(key AS TEXT) AS session, generation, uid,
      CASE phase WHEN 0 THEN 'pending' WHEN 1 THEN 'open' END AS state,
      strftime('%Y-%m-%dT%H:%M:%fZ',
        (moment_store_us - store_minus_boot_us - boot_us + wall_us) / 1e6, 'unixepoch') AS deadline,
      CAST(action AS TEXT) AS action, CAST(payload AS TEXT) AS payload
    FROM guards, meta WHERE kind = 2;

    CREATE VIEW debounce AS
    SELECT guards.id, CAST(key AS TEXT) AS key, generation, uid,
      CASE WHEN since_store_us IS NULL THEN 'resting' ELSE 'waiting' END AS state,
      strftime('%Y-%m-%dT%H:%M:%fZ',
        (moment_store_us - store_minus_boot_us - boot_us + wall_us) / 1e6, 'unixepoch') AS last_call,
      interval_us / 1e6 AS quiet_s, max_wait_us / 1e6 AS max_wait_s, phase AS leading,
      number AS calls, CAST(payload AS TEXT) AS payload
    FROM guards, meta WHERE kind = 3;
    """
}
