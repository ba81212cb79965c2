import Glibc

/// Detects open files that the next start would not find: they were moved or removed, or a newer
/// state is there.
struct FilesInPlace {
  private static let intervalMicroseconds: Int64 = 1_000
  private let database: (path: String, identity: FileIdentity)
  private let files: StateFiles
  /// When the directory was last changed, and the state that was the newest then.
  private var changed = timespec()
  private var newest: StateFiles
  private var nextLook: Int64 = .min
  /// The result of the last check.
  private var problem: StoreError?

  init(_ files: StateFiles) throws(StoreError) {
    database = (files.database, try Self.identity(files.database))
    self.files = files
    newest = files
  }

  /// Checks the database and the current segment, at most once per millisecond.
  mutating func problem(atBootMicroseconds now: Int64, _ segment: LogSegment) -> StoreError? {
    guard now >= nextLook else { return problem }
    nextLook = now &+ Self.intervalMicroseconds
    do throws(StoreError) {
      try check(database.path, database.identity)
      try check(segment.path, FileIdentity(of: segment.descriptor))
      try lookForNewest()
      guard newest.number == files.number else {
        throw StoreError(.superseded, newest.database, "the next start would continue with it")
      }
      problem = nil
    } catch {
      problem = error
    }
    return problem
  }

  private mutating func lookForNewest() throws(StoreError) {
    var status = stat()
    guard unsafe stat(files.directory, &status) == 0 else {
      throw StoreError(systemError: errno, path: files.directory, doing: "stat")
    }
    let time = status.st_mtim
    guard time.tv_sec != changed.tv_sec || time.tv_nsec != changed.tv_nsec else { return }
    newest = try StateFiles(directory: files.directory)
    changed = time
  }

  private func check(_ path: String, _ identity: FileIdentity?) throws(StoreError) {
    guard try Self.identity(path) == identity else {
      throw StoreError(.replaced, path, "another file is there")
    }
  }

  private static func identity(_ path: String) throws(StoreError) -> FileIdentity {
    guard let identity = FileIdentity(at: path) else {
      let code = errno
      throw unsafe StoreError(
        code == ENOENT ? .missing : .replaced, path, String(cString: strerror(code)))
    }
    return identity
  }
}
