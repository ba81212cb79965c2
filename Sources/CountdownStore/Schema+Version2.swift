extension Schema {
  /// Guards: rate limits, idempotency guards, gates and debounced calls, in one table, and a view
  /// of each.
  static let version2 = """
    CREATE TABLE guards (
      id INTEGER PRIMARY KEY,            -- the kind, times 2^30, and the place
      kind INTEGER NOT NULL,             -- 0 throttle, 1 once, 2 gate, 3 debounce
      key BLOB NOT NULL,
      generation INTEGER NOT NULL,
      uid INTEGER NOT NULL,
      phase INTEGER NOT NULL,            -- once: 1 done; gate: 0 pending, 1 open; debounce: 1 leading
      moment_store_us INTEGER,           -- throttle: when all is there again; once, gate: when it is
                                         -- over, NULL for good; debounce: the newest call
      since_store_us INTEGER,            -- debounce: the first call that waits, NULL if none does
      interval_us INTEGER,               -- throttle: the time of the rate; debounce: quiet
      max_wait_us INTEGER,               -- debounce
      number INTEGER,                    -- throttle: the burst; debounce: calls that wait
      rate_count INTEGER,                -- throttle: so many in each interval
      fraction INTEGER,                  -- throttle: of a microsecond, in parts of rate_count
      action BLOB,                       -- gate
      payload BLOB                       -- once: the result; gate, debounce: the payload
    ) STRICT;

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
