import Glibc

/// The files of a state directory.
struct StateFiles {
  let directory: String
  let database: String
  /// What the names of the log's segments begin with.
  let logPrefix: String
  /// Whether a daemon continues with the database: it is not a backup, and was not set aside.
  let isOfDaemon: Bool

  init(directory: String) {
    self.directory = directory
    database = directory + "/state.db"
    logPrefix = ""
    isOfDaemon = true
  }

  /// A backup, or a database that was set aside together with its log.
  init(setAside path: String) {
    directory = Self.directory(of: path)
    database = path
    logPrefix = (path.split(separator: "/").last.map(String.init) ?? "") + "-"
    isOfDaemon = false
  }

  /// The path of a backup until it is sent to the client: a name that no user chooses.
  var backup: String { directory + "/\(Self.backupPrefix)\(getpid())" }

  private static let backupPrefix = ".countdownd-backup-"

  /// Removes files that a killed process left behind, and those that only older versions need.
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

  /// The total size of the files, in bytes.
  var size: Int {
    names().reduce(0) {
      $1.hasPrefix("..") || $1 == "." ? $0 : $0 + Self.size(directory + "/" + $1)
    }
  }

  /// Creates the directory, but not its parents, for this user only: the state has personal data.
  func createDirectory() throws(StoreError) {
    if mkdir(directory, 0o700) == 0 {
      try Self.synchronizeDirectory(of: directory)
    } else if errno != EEXIST {
      throw StoreError(systemError: errno, path: directory, doing: "make the directory")
    }
  }

  /// Creates an empty file for the database, unless there is one.
  func createDatabase() throws(StoreError) { try create(database, O_CREAT) }

  private func create(_ path: String, _ flags: Int32) throws(StoreError) {
    // SQLite opens an unwritable file read-only, and reports that only at the first write.
    let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0o600)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: path, doing: "open")
    }
    close(descriptor)
    try synchronize()
  }

  /// Whether the database, and the WAL of an older version, are empty or missing.
  var isEmpty: Bool { Self.size(database) == 0 && Self.size(database + "-wal") == 0 }

  static func isWritableByAll(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IWOTH != 0
  }

  /// Returns the size of a file in bytes, or 0 if there is none.
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

  /// The name of a replacement until it is complete, and the prefix of SQLite's files beside it.
  private static let unfinished = ".state.db.new"
  /// The name prefix of a complete replacement. The rest says where the corrupt database goes.
  private static let finished = "state.db.instead-of-"

  var replacement: String { directory + "/" + Self.unfinished }

  /// Removes a replacement that was not decided on.
  func removeReplacement() { remove(Self.unfinished) }

  func createReplacement() throws(StoreError) { try create(replacement, O_CREAT | O_EXCL) }

  /// Returns where to move the corrupt database: a name with which SQLite can still open it.
  func placeOfCorrupt(atUnixMicroseconds now: Int64) -> String {
    freeName(database, "corrupt", atUnixMicroseconds: now)
  }

  /// Writes the replacement, which nobody has open, to the disk. From then on it is the state: the
  /// next opening of the directory puts it in place. However this ends, there is exactly one state.
  func decide(insteadOf target: String) throws(StoreError) {
    try Self.synchronize(replacement, O_RDONLY)
    let name = Self.finished + target.dropFirst(database.count + 1)
    try move(replacement, to: directory + "/" + name)
    try synchronize()
  }

  /// Returns a replacement that was decided on, and where the corrupt database goes.
  func decidedReplacement() -> (path: String, target: String)? {
    names().first { $0.hasPrefix(Self.finished) }.map { name in
      (directory + "/" + name, database + "." + name.dropFirst(Self.finished.count))
    }
  }

  /// Moves the corrupt database and its log aside, then the replacement into its place. Skips steps
  /// that are already done.
  func putInPlace(_ decided: (path: String, target: String)) throws(StoreError) {
    for segment in segments() {
      let name = segment.path.dropFirst(directory.count + 1)
      try move(segment.path, to: decided.target + "-" + name)
    }
    for suffix in ["-wal", "-journal", ""] where access(database + suffix, F_OK) == 0 {
      try move(database + suffix, to: decided.target + suffix)
    }
    // The index of SQLite's WAL, which SQLite rebuilds; our connections keep none in a file.
    unlink(database + "-shm")
    // The moves must be on the disk first: the old log would ruin the replacement.
    try synchronize()
    try move(decided.path, to: database)
    try synchronize()
  }

  /// Returns an unused path for a file that is set aside.
  ///
  /// - Parameter why: a word for the reason, which becomes a part of the name.
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
