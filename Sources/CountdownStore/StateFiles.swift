import Glibc

/// A state and its log in a state directory, or a database alone, such as a backup.
///
/// The states of a directory are numbered from 1: `state-1.db` with the log
/// `state-1-changes-0000000001.log` and so on. The highest is the one that the daemon continues
/// with. A state that is corrupt, or was replaced by a backup, stays under its number.
struct StateFiles {
  let directory: String
  let database: String
  /// Nil for a database that is not a state of a directory.
  let number: Int?

  private static let prefix = "state-"
  private static let suffix = ".db"
  /// The highest number, so that there is always a next one.
  private static let highest = 999_999_999
  static let possible = 1...highest

  /// The state of a directory that the daemon continues with, whether or not it exists yet.
  init(directory: String) throws(StoreError) {
    let found = try Self.names(in: directory).compactMap { Self.number(of: $0) }.max()
    let number = if let found { found } else { try Self.newestKnown(in: directory) }
    self.init(directory, number ?? 1)
  }

  /// The newest state that the directory has a trace of: a segment of its log, or its number in
  /// `Numbers`. Nil without any. A state is on the disk before it has a trace.
  private static func newestKnown(in directory: String) throws(StoreError) -> Int? {
    let segments = try names(in: directory).compactMap { number(ofSegment: $0) }
    return (segments + [try Numbers(in: directory).state]).filter(possible.contains).max()
  }

  /// The newest state that the directory had, if it is missing and this older one is the newest
  /// that is left: continuing with this one would repeat what the other one has limited.
  var missingNewer: StateFiles? {
    get throws(StoreError) {
      guard let number, let known = try Self.newestKnown(in: directory), known > number else {
        return nil
      }
      return StateFiles(directory, known)
    }
  }

  private init(_ directory: String, _ number: Int) {
    self.directory = directory
    self.number = number
    database = directory + "/" + Self.prefix + String(number) + Self.suffix
  }

  /// The state, backup or other database with this path.
  init(database: String) {
    self.database = database
    directory = Self.directory(of: database)
    number = database.split(separator: "/").last.flatMap { Self.number(of: String($0)) }
  }

  private static func number(of name: String) -> Int? {
    guard name.hasPrefix(prefix), name.hasSuffix(suffix),
      let number = Int(name.dropFirst(prefix.count).dropLast(suffix.count)),
      possible.contains(number), name == prefix + String(number) + suffix
    else { return nil }
    return number
  }

  /// Segments of newer states.
  func newerSegments() throws(StoreError) -> [String] {
    try Self.names(in: directory).filter { Self.number(ofSegment: $0) ?? 0 > number ?? 0 }
      .map { directory + "/" + $0 }
  }

  /// The number of the state that a segment of a log belongs to.
  private static func number(ofSegment name: String) -> Int? {
    guard name.hasPrefix(prefix), name.hasSuffix(segmentSuffix), name.contains(logWord) else {
      return nil
    }
    return Int(name.dropFirst(prefix.count).prefix(while: \.isWholeNumber))
  }

  /// Whether a daemon continues with this state.
  var isNewest: Bool {
    get throws(StoreError) { try number == Self(directory: directory).number }
  }

  /// The state that would take the place of this one.
  var next: StateFiles { StateFiles(directory, (number ?? 0) + 1) }

  /// The state after all that the directory has a file of, be it only a segment of a log.
  static func unused(in directory: String) throws(StoreError) -> StateFiles {
    let numbers = try names(in: directory).filter { $0.hasPrefix(prefix) }
      .compactMap { Int($0.dropFirst(prefix.count).prefix(while: \.isWholeNumber)) }
    let known = try newestKnown(in: directory) ?? 0
    return StateFiles(directory, ((numbers + [known]).filter { $0 < highest }.max() ?? 0) + 1)
  }

  /// What the names of the log's segments begin with; nil if there is no log.
  var logPrefix: String? { number.map { Self.prefix + String($0) + Self.logWord } }

  private static let logWord = "-changes-"

  /// The path of a backup until it is sent to the client: a name that no user chooses.
  static func backup(in directory: String) -> String { directory + "/\(backupPrefix)\(getpid())" }

  private static let backupPrefix = ".countdownd-backup-"

  /// Removes files that a killed process left behind.
  func removeLeftovers() throws(StoreError) {
    for name in try Self.names(in: directory) where name.hasPrefix(Self.backupPrefix) {
      unsafe unlink(directory + "/" + name)
    }
    removeReplacement()
    unsafe unlink(unfinishedSegment)
  }

  /// Returns all names in a directory. A directory that cannot be read is an error, not an empty
  /// one: its files are not lost.
  static func names(in directory: String) throws(StoreError) -> [String] {
    do {
      return try SafeFile.names(in: directory)
    } catch {
      throw StoreError(error, path: directory)
    }
  }

  /// The total size of a directory's files, in bytes; 0 if it cannot be read.
  static func size(ofDirectory directory: String) -> Int {
    let names = (try? names(in: directory)) ?? []
    return names.reduce(0) { $0 + size(directory + "/" + $1) }
  }

  /// Creates the directory, but not its parents, for this user only: the state has personal data.
  static func createDirectory(_ directory: String) throws(StoreError) {
    if unsafe mkdir(directory, 0o700) == 0 {
      try synchronizeDirectory(of: directory)
    } else if errno != EEXIST {
      throw StoreError(systemError: errno, path: directory, doing: "make the directory")
    }
  }

  /// Creates an empty file for the database, unless there is one.
  func createDatabase() throws(StoreError) { try create(database, O_CREAT) }

  private func create(_ path: String, _ flags: Int32) throws(StoreError) {
    // SQLite opens an unwritable file read-only, and reports that only at the first write.
    let descriptor = unsafe open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0o600)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: path, doing: "open")
    }
    close(descriptor)
    try synchronize()
  }

  /// Whether the database is empty or missing.
  var isEmpty: Bool {
    get throws(StoreError) { try sizeOfDatabase ?? 0 == 0 }
  }

  /// In bytes; nil if the database is missing.
  var sizeOfDatabase: Int? {
    get throws(StoreError) {
      var status = stat()
      if unsafe stat(database, &status) == 0 { return Int(status.st_size) }
      guard errno == ENOENT else {
        throw StoreError(systemError: errno, path: database, doing: "stat")
      }
      return nil
    }
  }

  static func isWritableByAll(_ path: String) -> Bool {
    var status = stat()
    return unsafe stat(path, &status) == 0 && status.st_mode & S_IWOTH != 0
  }

  /// Returns the size of a file in bytes, or 0 if there is none.
  static func size(_ path: String) -> Int {
    var status = stat()
    return unsafe stat(path, &status) == 0 ? Int(status.st_size) : 0
  }

  static func isRegularFile(_ descriptor: Int32) -> Bool {
    var status = stat()
    return unsafe fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
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

  static func synchronize(
    _ path: String, _ flags: Int32 = O_RDONLY | O_DIRECTORY
  ) throws(StoreError) {
    let descriptor = unsafe open(path, flags | O_CLOEXEC)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: path, doing: "open")
    }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "fsync")
    }
  }

  static func move(_ path: String, to target: String) throws(StoreError) {
    guard unsafe rename(path, target) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "rename")
    }
  }

  // MARK: Replacing a corrupt database

  /// The name of a replacement until it is complete.
  private static let unfinished = ".state.new"

  var replacement: String { directory + "/" + Self.unfinished }

  /// Removes a replacement that is not complete, and SQLite's file beside it.
  func removeReplacement() {
    for suffix in ["", "-journal"] { unsafe unlink(replacement + suffix) }
  }

  func createReplacement() throws(StoreError) { try create(replacement, O_CREAT | O_EXCL) }

  /// Makes the replacement, which nobody has open, the newest state of the directory. However this
  /// ends, the newest state is complete.
  func finishReplacement() throws(StoreError) {
    try Self.synchronize(replacement, O_RDONLY)
    try Self.move(replacement, to: next.database)
    try synchronize()
  }

  /// Returns an unused path for a file that is set aside.
  ///
  /// - Parameter why: a word for the reason, which becomes a part of the name.
  func freeName(_ path: String, _ why: String, atUnixMicroseconds now: Int64) -> String {
    let base = path + ".\(why)-" + Self.stamp(now)
    var target = base
    var attempt = 1
    while unsafe access(target, F_OK) == 0 {
      attempt += 1
      target = base + "-\(attempt)"
    }
    return target
  }

  static func stamp(_ unixMicroseconds: Int64) -> String {
    var seconds = time_t(unixMicroseconds / 1_000_000)
    var parts = unsafe tm()
    unsafe gmtime_r(&seconds, &parts)
    var buffer = [CChar](repeating: 0, count: 32)
    let length = unsafe strftime(&buffer, buffer.count, "%Y%m%dT%H%M%SZ", &parts)
    return String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
