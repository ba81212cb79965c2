import Glibc

struct FileError: Error { let text: String }

/// A file that gets its name once it is complete.
final class FileBeingWritten: Sendable {
  private let path: String
  private let partial: String
  private let descriptor: Int32

  /// - Parameter mode: the file's permissions.
  init(_ path: String, mode: mode_t = 0o600) throws(FileError) {
    try Self.checkMayBeReplaced(path)
    self.path = path
    partial = "\(path).\(getpid()).partial"
    // Only a process that was killed can have left a file with this number.
    unsafe unlink(partial)
    descriptor = unsafe open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
    if descriptor < 0 { throw Self.error("cannot make \(partial)") }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  func write(_ bytes: [UInt8]) throws(FileError) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let written = systemWrite(descriptor, rest)
      if written < 0, errno != EINTR { throw Self.error("cannot write \(partial)") }
      rest = rest.dropFirst(max(written, 0))
    }
  }

  /// - Parameter check: looks at the file before it gets its name.
  func finish(_ check: (String) throws -> Void) throws {
    guard fsync(descriptor) == 0 else { throw Self.error("cannot write \(partial)") }
    try check(partial)
    try rename()
  }

  func finish() throws(FileError) {
    guard fsync(descriptor) == 0 else { throw Self.error("cannot write \(partial)") }
    try rename()
  }

  private func rename() throws(FileError) {
    guard unsafe Glibc.rename(partial, path) == 0 else { throw Self.error("cannot name \(path)") }
    // Makes the name durable, too.
    let slash = path.lastIndex(of: "/")
    let parent = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let directory = unsafe open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if directory >= 0 {
      fsync(directory)
      close(directory)
    }
  }

  func remove() { unsafe unlink(partial) }

  /// Throws if the path names anything but a regular file. If it replaced a device, programs that
  /// write to the device would fill the disk.
  private static func checkMayBeReplaced(_ path: String) throws(FileError) {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else {
      guard errno == ENOENT else { throw error("cannot look at \(path)") }
      return
    }
    let kind = status.st_mode & S_IFMT
    guard kind != S_IFREG else { return }
    let what =
      switch kind {
      case S_IFLNK: "a symbolic link; name what it leads to"
      case S_IFDIR: "a directory; name a file in it"
      default: "no regular file; name another"
      }
    throw FileError(text: "\(path) is \(what)")
  }

  private static func error(_ what: String) -> FileError {
    FileError(text: unsafe "\(what): \(String(cString: strerror(errno)))")
  }
}

/// Calls `write(2)`, under a name that no method has.
func systemWrite(_ file: Int32, _ bytes: ArraySlice<UInt8>) -> Int {
  unsafe bytes.withUnsafeBytes { unsafe write(file, $0.baseAddress, $0.count) }
}
