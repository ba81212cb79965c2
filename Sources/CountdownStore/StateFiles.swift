import Glibc

/// The files of a state directory.
struct StateFiles {
  let directory: String
  var database: String { directory + "/state.db" }
  var log: String { database + "-wal" }
  /// Of a copy on its way to whoever asked for it.
  var backup: String { directory + "/backup.db" }

  /// What a process that was killed has left of a copy.
  func removeBackup() {
    unlink(backup)
    unlink(backup + Checkpointer.partialSuffix)
  }

  /// Makes the directory (not those above it), and an empty file for the database, readable by
  /// this user only: the state has keys and data of people in it.
  func create() throws(StoreError) {
    if mkdir(directory, 0o700) == 0 {
      try Self.synchronizeDirectory(of: directory)
    } else if errno != EEXIST {
      throw StoreError(systemError: errno, path: directory, doing: "make the directory")
    }
    // SQLite opens what it cannot write for reading alone, and says so only at the first write.
    let descriptor = open(database, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: database, doing: "open")
    }
    close(descriptor)
    try synchronize()
  }

  /// Makes names that have come, gone or changed safe from a loss of power.
  func synchronize() throws(StoreError) { try Self.synchronize(directory) }

  static func synchronizeDirectory(of path: String) throws(StoreError) {
    try synchronize(directory(of: path))
  }

  static func directory(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  private static func synchronize(_ directory: String) throws(StoreError) {
    let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: directory, doing: "open")
    }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else {
      throw StoreError(systemError: errno, path: directory, doing: "fsync")
    }
  }

  /// Moves a log aside that SQLite would not read, and write over.
  ///
  /// - Returns: where it is now; nil if the log can be read, or there is none.
  func setUnreadableLogAside(atUnixMicroseconds now: Int64) throws(StoreError) -> String? {
    let log = database + "-wal"
    guard try LogHeader.isUnreadable(log: log, database: database) else { return nil }
    let target = freeName(log, atUnixMicroseconds: now)
    guard rename(log, target) == 0 else {
      throw StoreError(systemError: errno, path: log, doing: "rename")
    }
    try synchronize()
    return target
  }

  /// Moves the database aside, with its log, under a name that SQLite opens as well.
  ///
  /// - Returns: where it is now.
  func setAside(atUnixMicroseconds now: Int64) throws(StoreError) -> String {
    let target = freeName(database, atUnixMicroseconds: now)
    // The log first: a database without its log would pass for a whole one.
    for suffix in ["-wal", ""] {
      if rename(database + suffix, target + suffix) != 0, errno != ENOENT {
        throw StoreError(systemError: errno, path: database + suffix, doing: "rename")
      }
    }
    // An index of the log, made anew by whoever opens it; ours keeps none in a file.
    unlink(database + "-shm")
    try synchronize()
    return target
  }

  private func freeName(_ path: String, atUnixMicroseconds now: Int64) -> String {
    let base = path + ".corrupt-" + Self.stamp(now)
    var target = base
    var attempt = 1
    while access(target, F_OK) == 0 || access(target + "-wal", F_OK) == 0 {
      attempt += 1
      target = base + "-\(attempt)"
    }
    return target
  }

  private static func stamp(_ unixMicroseconds: Int64) -> String {
    var seconds = time_t(unixMicroseconds / 1_000_000)
    var parts = tm()
    gmtime_r(&seconds, &parts)
    var buffer = [CChar](repeating: 0, count: 32)
    strftime(&buffer, buffer.count, "%Y%m%dT%H%M%SZ", &parts)
    return buffer.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
  }
}
