#pragma once
#include <sqlite3.h>
#include <stdint.h>

// SQLITE_TRANSIENT has SQLite copy the bytes. It is a cast that Swift cannot write.
static inline int countdownd_bind_blob(
    sqlite3_stmt *statement, int column, const void *bytes, int count) {
  return sqlite3_bind_blob(statement, column, bytes, count, SQLITE_TRANSIENT);
}

// Turns off memory statistics, which take a lock shared by all threads. Call before SQLite is used.
static inline int countdownd_count_no_memory(void) {
  return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

// Returns the errno of the last failed call on the file; 0 if none failed.
static inline int countdownd_file_errno(sqlite3 *database) {
  int number = 0;
  return sqlite3_file_control(database, "main", SQLITE_FCNTL_LAST_ERRNO, &number) == SQLITE_OK ? number : 0;
}
