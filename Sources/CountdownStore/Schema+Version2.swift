extension Schema {
  /// Guards: rate limits, idempotency guards, gates and debounced calls, in one table.
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
    """
}
