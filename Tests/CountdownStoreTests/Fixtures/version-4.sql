-- A state as version 3 wrote it. Made once; never changed: later versions must be able to read it.
PRAGMA application_id = 1131312228;
PRAGMA user_version = 4;

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
  policy_state BLOB, earlier_tokens BLOB
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

INSERT INTO meta VALUES (1, 'countdownd 0.1.0', 1790000000000000, 1794294967296000, 'boot-1', 2000000,
  1790000002000000, 1789999000000000);
INSERT INTO countdowns VALUES (0, CAST('+4512345678' AS BLOB), 1790000000000001, 1000, 0, 1790000060000000,
  NULL, 60, 1000000, 0, 2, 1, CAST('%ds后重发' AS BLOB), CAST('重发' AS BLOB), x'00ff', CAST('t-1' AS BLOB),
  CAST('otp' AS BLOB),
  x'01010000000401000000020000000000000005000000003b9ab67f00000000027fffffffffffffff000000003b9aed2f01000000005f5e332f0000000100000000000007a1200000000300000000039387000000000007270e000000000011e1a3000000000200000000000000050000000023c346000000000000000009000000141dd760000000000300000003736d7300000003736d730000000463616c6c010000000023c34600010000000000000003000000077265706c61636501000000032564730100000000',
  x'00000000000000020000000200ff7fffffffffffffff0000000107');
INSERT INTO countdowns VALUES (7, x'00fe', 1790000000000002, 0, 1, NULL, 1500000, 5, 1000, 1, 1, 0, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL);
INSERT INTO countdowns VALUES (8, CAST('r' AS BLOB), 1790000000000003, 0, 2, 1789999999000000, NULL, 1, 1000,
  0, 1, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO countdowns VALUES (9, CAST('i' AS BLOB), 1790000000000006, 0, 3, 1789999999500000, NULL, 1, 1000,
  0, 1, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO timers VALUES (3, CAST('nightly' AS BLOB), 1790000000000004, 1000, 1, 0, NULL, 1790040000000000,
  NULL, 86400000000, 2, 3, 1, x'01');
INSERT INTO huds VALUES (0, CAST('checkout' AS BLOB), 1790000000000005, 1000, 1790000001000000,
  CAST('Paying' AS BLOB),
  x'010000000100000005616c6572740000000870726f677265737301000000017300000000000003e800000000000007d00000000000000fa000000000000013880000000000001770010000000000000bb800000007726571756573740000000473686f7700000005626c61636b000000000000000703000000003b9ae94702000000003b9af8e700000006746170706564010000000974696d65642d6f7574013fe0000000000000000000000000000d000000000000000e000000003b9aed2f000000003b9af117000000003b9af4ff01000000003b9b049f');
INSERT INTO events VALUES (1790000000000009, 0, 2, CAST('{}' || char(10) || '{}' AS BLOB));
INSERT INTO guards VALUES (5, 0, CAST('login:+45' AS BLOB), 1790000000000007, 1000, 0, 1790000000142857, NULL,
  1000000, NULL, 3, 7, 1, NULL, NULL);
INSERT INTO guards VALUES (1073741824, 1, CAST('order' AS BLOB), 1790000000000008, 1000, 0, 1790000030000000, NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO guards VALUES (1073741826, 1, x'00fd', 1790000000000010, 0, 1, 1790000031000000, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, x'');
INSERT INTO guards VALUES (2147483648, 2, CAST('session' AS BLOB), 1790000000000011, 1000, 0, 1790000600000000,
  NULL, NULL, NULL, NULL, NULL, NULL, CAST('buy' AS BLOB), CAST('42' AS BLOB));
INSERT INTO guards VALUES (2147483649, 2, CAST('open' AS BLOB), 1790000000000012, 1000, 1, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL);
INSERT INTO guards VALUES (3221225475, 3, CAST('draft' AS BLOB), 1790000000000013, 1000, 1, 1790000000500000,
  1790000000100000, 2000000, 9000000, 4, NULL, NULL, NULL, CAST('text' AS BLOB));

ALTER TABLE meta ADD COLUMN sum INTEGER;
ALTER TABLE countdowns ADD COLUMN sum INTEGER;
ALTER TABLE timers ADD COLUMN sum INTEGER;
ALTER TABLE huds ADD COLUMN sum INTEGER;
ALTER TABLE guards ADD COLUMN sum INTEGER;
ALTER TABLE events ADD COLUMN sum INTEGER;

UPDATE meta SET sum = -91523864 WHERE id = 1;
UPDATE countdowns SET sum = 351027708 WHERE id = 0;
UPDATE countdowns SET sum = -652839291 WHERE id = 7;
UPDATE countdowns SET sum = -9199040 WHERE id = 8;
UPDATE countdowns SET sum = 1142869980 WHERE id = 9;
UPDATE timers SET sum = 752257970 WHERE id = 3;
UPDATE huds SET sum = -658269275 WHERE id = 0;
UPDATE guards SET sum = 1541951300 WHERE id = 5;
UPDATE guards SET sum = 1957244934 WHERE id = 1073741824;
UPDATE guards SET sum = 1123241676 WHERE id = 1073741826;
UPDATE guards SET sum = -356754305 WHERE id = 2147483648;
UPDATE guards SET sum = -290683868 WHERE id = 2147483649;
UPDATE guards SET sum = -544321560 WHERE id = 3221225475;
UPDATE events SET sum = 2080161508 WHERE last_seq = 1790000000000009;
ALTER TABLE meta ADD COLUMN lineage INTEGER;
ALTER TABLE meta ADD COLUMN folded INTEGER;
ALTER TABLE meta ADD COLUMN start INTEGER;
UPDATE meta SET lineage = 1234567890123, folded = 0, start = 3, sum = NULL;
