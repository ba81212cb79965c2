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

// errno of the last call on the write-ahead log that failed; 0 if none has. By the time that an error is told
// SQLite itself may have forgotten it.
static inline int countdownd_log_errno(sqlite3 *database) {
  sqlite3_file *log = 0;
  int number = 0;
  if (sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) != SQLITE_OK) return 0;
  if (!log || !log->pMethods) return 0;
  return log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &number) == SQLITE_OK ? number : 0;
}

// How far the write-ahead log goes, for a connection that has read the file: the first salt of the log and
// its number of committed frames. Returns 0 if there is no log. SQLite keeps both in the header of the log's
// index. Source: https://www.sqlite.org/walformat.html, section 2.1.
static inline int countdownd_log_position(sqlite3 *database, uint32_t *salt, uint32_t *frames) {
  sqlite3_file *file = 0;
  volatile void *index = 0;
  if (sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return 0;
  if (!file || !file->pMethods || file->pMethods->iVersion < 2) return 0;
  if (file->pMethods->xShmMap(file, 0, 32768, 0, &index) != SQLITE_OK || !index) return 0;
  const volatile uint32_t *words = (const volatile uint32_t *)index;
  if (words[0] != 3007000) return 0;
  // The salt is a copy of the bytes in the log.
  const volatile unsigned char *bytes = (const volatile unsigned char *)&words[8];
  *salt = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
  *frames = words[4];
  return 1;
}
