import Glibc

/// The files of a state directory.
struct StateFiles {
  let directory: String
  var database: String { directory + "/state.db" }
  /// Of a copy on its way to whoever asked for it. Nobody chooses such a name.
  var backup: String { directory + "/\(Self.backupPrefix)\(getpid())" }

  private static let backupPrefix = ".countdownd-backup-"

  /// Removes what a killed process left behind, and what only older versions need.
  func removeLeftovers() {
    remove(Self.backupPrefix)
    removeReplacement()
    unlink(unfinishedSegment)
    unlink(directory + "/committed")
  }

  private func remove(_ prefix: String) {
    for name in names() where name.hasPrefix(prefix) { unlink(directory + "/" + name) }
  }

  func names() -> [String] {
    guard let stream = opendir(directory) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) { $0.prefix { $0 != 0 } }
      names.append(String(decoding: name, as: UTF8.self))
    }
    return names
  }

  /// Of all files together.
  var size: Int {
    names().reduce(0) {
      $1.hasPrefix("..") || $1 == "." ? $0 : $0 + Self.size(directory + "/" + $1)
    }
  }

  /// Makes the directory (not those above it), for this user only: the state has keys and data of
  /// people in it.
  func createDirectory() throws(StoreError) {
    if mkdir(directory, 0o700) == 0 {
      try Self.synchronizeDirectory(of: directory)
    } else if errno != EEXIST {
      throw StoreError(systemError: errno, path: directory, doing: "make the directory")
    }
  }

  /// Makes an empty file for the database, unless there is one.
  func createDatabase() throws(StoreError) { try create(database, O_CREAT) }

  private func create(_ path: String, _ flags: Int32) throws(StoreError) {
    // SQLite opens what it cannot write for reading alone, and says so only at the first write.
    let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0o600)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: path, doing: "open")
    }
    close(descriptor)
    try synchronize()
  }

  /// Whether there is nothing in the database, nor in the log of an older version's.
  var isEmpty: Bool { Self.size(database) == 0 && Self.size(database + "-wal") == 0 }

  static func isWritableByAll(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IWOTH != 0
  }

  /// 0 if there is no such file.
  static func size(_ path: String) -> Int {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : 0
  }

  static func isRegularFile(_ descriptor: Int32) -> Bool {
    var status = stat()
    return fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
  }

  /// Makes created, removed and renamed files survive a power failure.
  func synchronize() throws(StoreError) { try Self.synchronize(directory) }

  static func synchronizeDirectory(of path: String) throws(StoreError) {
    try synchronize(directory(of: path))
  }

  static func directory(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  private static func synchronize(
    _ path: String, _ flags: Int32 = O_RDONLY | O_DIRECTORY
  ) throws(StoreError) {
    let descriptor = open(path, flags | O_CLOEXEC)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: path, doing: "open")
    }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "fsync")
    }
  }

  func move(_ path: String, to target: String) throws(StoreError) {
    guard rename(path, target) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "rename")
    }
  }

  // MARK: Replacing a corrupt database

  /// What begins the name of a replacement until it is whole, and of what SQLite keeps beside it.
  private static let unfinished = ".state.db.new"
  /// What begins the name of one that is whole. The rest says where the corrupt one goes.
  private static let finished = "state.db.instead-of-"

  var replacement: String { directory + "/" + Self.unfinished }

  /// One that was not decided for.
  func removeReplacement() { remove(Self.unfinished) }

  func createReplacement() throws(StoreError) { try create(replacement, O_CREAT | O_EXCL) }

  /// Where the database is to be moved: a name that SQLite opens as well.
  func placeOfCorrupt(atUnixMicroseconds now: Int64) -> String {
    freeName(database, "corrupt", atUnixMicroseconds: now)
  }

  /// Gets the replacement, which nobody has open, to the disk. From then on it is the state:
  /// whoever opens the directory next puts it in place. So however this ends there is one state,
  /// and a whole one.
  func decide(insteadOf target: String) throws(StoreError) {
    try Self.synchronize(replacement, O_RDONLY)
    let name = Self.finished + target.dropFirst(database.count + 1)
    try move(replacement, to: directory + "/" + name)
    try synchronize()
  }

  /// A replacement that is whole, and where what it replaces is to go.
  func decidedReplacement() -> (path: String, target: String)? {
    names().first { $0.hasPrefix(Self.finished) }.map { name in
      (directory + "/" + name, database + "." + name.dropFirst(Self.finished.count))
    }
  }

  /// Moves the corrupt database aside, with its log, and the replacement to where it was: whatever
  /// of that is not done yet.
  func putInPlace(_ decided: (path: String, target: String)) throws(StoreError) {
    for segment in segments() {
      let name = segment.path.dropFirst(directory.count + 1)
      try move(segment.path, to: decided.target + "-" + name)
    }
    for suffix in ["-wal", "-journal", ""] where access(database + suffix, F_OK) == 0 {
      try move(database + suffix, to: decided.target + suffix)
    }
    // An index of SQLite's log, which is rebuilt when it is opened; ours keeps none in a file.
    unlink(database + "-shm")
    // A log that is not its own would ruin it.
    try synchronize()
    try move(decided.path, to: database)
    try synchronize()
  }

  /// Where a file is to be moved that is set aside.
  ///
  /// - Parameter why: a word for it.
  func freeName(_ path: String, _ why: String, atUnixMicroseconds now: Int64) -> String {
    let base = path + ".\(why)-" + Self.stamp(now)
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
    let length = strftime(&buffer, buffer.count, "%Y%m%dT%H%M%SZ", &parts)
    return String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
