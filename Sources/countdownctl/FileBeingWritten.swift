import ArgumentParser
import CountdownStore
import Glibc

/// An error that ends the program: its text is printed, and its status is the exit status.
struct Failure: Error {
  let text: String
  var code = "FILE"
  var status = ExitCode.refused

  init(_ text: String, code: String = "FILE", status: ExitCode = .refused) {
    (self.text, self.code, self.status) = (text, code, status)
  }

  /// An error with the reason in `errno`.
  init(system what: String) { self.init(unsafe "\(what): \(String(cString: strerror(errno)))") }

  /// - Parameter inUse: what to do if a daemon uses the directory.
  init(_ error: StoreError, inUse advice: String = "", whenCorrupt status: ExitCode = .refused) {
    let isInUse = if case .inUse = error.kind { true } else { false }
    self.init(
      error.problem + (isInUse ? advice : ""), status: error.kind == .corrupt ? status : .refused)
  }
}

/// A file that gets its name once it is complete; else nothing of it stays.
final class FileBeingWritten: Sendable {
  private let path: String
  private let partial: String
  private let descriptor: Int32

  /// - Parameter mode: the file's permissions.
  init(_ path: String, mode: mode_t = 0o600) throws(Failure) {
    try Self.checkMayBeReplaced(path)
    self.path = path
    partial = "\(path).\(getpid()).partial"
    // Only a process that was killed can have left a file with this number.
    unsafe unlink(partial)
    descriptor = unsafe open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
    if descriptor < 0 { throw Failure(system: "cannot make \(partial)") }
  }

  deinit {
    if descriptor >= 0 { close(descriptor) }
    // Once the file is complete, nothing has this name.
    unsafe unlink(partial)
  }

  func write(_ bytes: [UInt8]) throws(Failure) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let written = systemWrite(descriptor, rest)
      if written < 0, errno != EINTR { throw Failure(system: "cannot write \(partial)") }
      rest = rest.dropFirst(max(written, 0))
    }
  }

  /// - Parameter check: looks at the file before it gets its name.
  func finish(_ check: (String) throws -> Void = { _ in }) throws {
    guard fsync(descriptor) == 0 else { throw Failure(system: "cannot write \(partial)") }
    try check(partial)
    guard unsafe rename(partial, path) == 0 else { throw Failure(system: "cannot name \(path)") }
    // Makes the name durable, too.
    let slash = path.lastIndex(of: "/")
    let parent = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let directory = unsafe open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if directory >= 0 {
      fsync(directory)
      close(directory)
    }
  }

  /// Throws if the path names anything but a regular file. If it replaced a device, programs that
  /// write to the device would fill the disk.
  private static func checkMayBeReplaced(_ path: String) throws(Failure) {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else {
      guard errno == ENOENT else { throw Failure(system: "cannot look at \(path)") }
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
    throw Failure("\(path) is \(what)")
  }
}

/// Calls `write(2)`, under a name that no method has.
func systemWrite(_ file: Int32, _ bytes: ArraySlice<UInt8>) -> Int {
  unsafe bytes.withUnsafeBytes { unsafe write(file, $0.baseAddress, $0.count) }
}
