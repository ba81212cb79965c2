#pragma once
#include <sqlite3.h>
#include <stdint.h>

// "Copy it, I may free it": a cast that Swift cannot write.
static inline int countdownd_bind_blob(
    sqlite3_stmt *statement, int column, const void *bytes, int count) {
  return sqlite3_bind_blob(statement, column, bytes, count, SQLITE_TRANSIENT);
}

static inline int countdownd_bind_text(
    sqlite3_stmt *statement, int column, const char *bytes, int count) {
  return sqlite3_bind_text(statement, column, bytes, count, SQLITE_TRANSIENT);
}

// SQLite counts no memory, which it does under a lock of all threads. Before its first use, once.
static inline int countdownd_count_no_memory(void) {
  return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

// Whether closing the file writes to it: sqlite3_db_config is variadic, which Swift cannot call.
static inline int countdownd_checkpoint_on_close(sqlite3 *database, int on) {
  return sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on ? 0 : 1, (int *)0);
}

// errno of the last call on the file that failed; 0 if none has.
static inline int countdownd_file_errno(sqlite3 *database) {
  int number = 0;
  return sqlite3_file_control(database, "main", SQLITE_FCNTL_LAST_ERRNO, &number) == SQLITE_OK ? number : 0;
}
