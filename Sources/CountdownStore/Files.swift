import Glibc

/// Reads and writes small files, and files of which only the beginning is needed.
package enum SafeFile {
  /// The error number of a failed call, and what the call was to do.
  package struct Failure: Error {
    package let code: Int32
    /// Nil if the file is not a regular one.
    let doing: String?

    package var reason: String { unsafe String(cString: strerror(code)) }
  }

  /// Flags for a file that this program writes itself. It must be a regular one: a pipe at its path
  /// must not block.
  package static let own = O_NOFOLLOW | O_NONBLOCK

  /// Returns the content of a file from an offset on, and not more than `most` bytes of it.
  ///
  /// - Parameters:
  ///   - maximum: needed for what has no size, such as a pipe or a file of /proc.
  ///   - flags: more flags for `open(2)`.
  package static func read(
    _ path: String, from offset: Int = 0, atMost maximum: Int? = nil, _ flags: Int32 = 0
  ) throws(Failure) -> [UInt8] {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | flags)
    guard descriptor >= 0 else {
      throw Failure(code: errno, doing: errno == ELOOP && flags == own ? nil : "open")
    }
    defer { close(descriptor) }
    if flags == own, !StateFiles.isRegularFile(descriptor) {
      throw Failure(code: ENXIO, doing: nil)
    }
    return try read(descriptor, from: offset, atMost: maximum)
  }

  /// Returns the content of an open file like `read(path)`.
  package static func read(
    _ descriptor: Int32, from offset: Int, atMost maximum: Int?
  ) throws(Failure) -> [UInt8] {
    var status = stat()
    guard unsafe maximum != nil || fstat(descriptor, &status) == 0 else {
      throw Failure(code: errno, doing: "stat")
    }
    // A pipe is read from its beginning only.
    guard lseek(descriptor, offset, SEEK_SET) >= 0 || offset == 0 else {
      throw Failure(code: errno, doing: "seek")
    }
    let maximum = maximum ?? Int(status.st_size)
    var code: Int32 = 0
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: maximum) { memory, length in
      while length < maximum {
        let count = unsafe Glibc.read(descriptor, memory.baseAddress! + length, maximum - length)
        if count < 0, errno == EINTR { continue }
        if count < 0 { code = errno }
        guard count > 0 else { break }
        length += count
      }
    }
    guard code == 0 else { throw Failure(code: code, doing: "read") }
    return bytes
  }

  /// Returns the first line of a file with a secret, without its line end. A longer one than `most`
  /// bytes is cut after one byte more.
  package static func firstLine(_ path: String, atMost maximum: Int) throws(Failure) -> [UInt8] {
    Array(try read(path, atMost: maximum + 1).prefix { ![0x0A, 0x0D].contains($0) })
  }

  /// Returns all names in a directory, without `.` and `..`.
  package static func names(in directory: String) throws(Failure) -> [String] {
    guard let stream = unsafe opendir(directory) else {
      throw Failure(code: errno, doing: "list the files")
    }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    errno = 0
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) {
        unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { names.append(name) }
      errno = 0
    }
    guard errno == 0 else { throw Failure(code: errno, doing: "list the files") }
    return names
  }

  /// Writes a file that this program alone writes, and waits for the disk. With `O_APPEND` adds to
  /// it, else replaces its content in place, as a full disk has no room for another file.
  static func write(_ text: String, to path: String, _ flags: Int32 = 0) throws(StoreError) {
    try write(text, to: path, flags, isSynced: true)
    try StateFiles.synchronizeDirectory(of: path)
  }

  /// Replaces a file as a whole: nobody sees a part of it.
  ///
  /// - Parameter isSynced: whether to wait for the disk. If not, a power failure may bring an older
  ///   file back.
  static func replace(_ path: String, with text: String, isSynced: Bool) throws(StoreError) {
    let new = path + ".new"
    do throws(StoreError) {
      try write(text, to: new, O_TRUNC, isSynced: isSynced)
      try StateFiles.move(new, to: path)
    } catch {
      unsafe unlink(new)
      throw error
    }
    if isSynced { try StateFiles.synchronizeDirectory(of: path) }
  }

  private static func write(
    _ text: String, to path: String, _ flags: Int32, isSynced: Bool
  ) throws(StoreError) {
    // For writing alone, a pipe would not open.
    let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | own | flags, 0o600)
    guard descriptor >= 0 else { throw StoreError(systemError: errno, path: path, doing: "open") }
    defer { close(descriptor) }
    guard StateFiles.isRegularFile(descriptor) else {
      throw StoreError(Failure(code: ENXIO, doing: nil), path: path)
    }
    // Root may write for the daemon, which must be able to read it.
    var owner = stat()
    if geteuid() == 0, unsafe stat(StateFiles.directory(of: path), &owner) == 0 {
      _ = fchown(descriptor, owner.st_uid, owner.st_gid)
    }
    let bytes = Array(text.utf8)
    let written = unsafe Glibc.write(descriptor, bytes, bytes.count)
    guard written == bytes.count else {
      // A full disk writes fewer bytes than requested.
      throw StoreError(systemError: written < 0 ? errno : ENOSPC, path: path, doing: "write")
    }
    guard flags != 0 || ftruncate(descriptor, off_t(bytes.count)) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "ftruncate")
    }
    guard !isSynced || fsync(descriptor) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "fsync")
    }
  }
}

extension StoreError {
  init(_ failure: SafeFile.Failure, path: String, doing: String? = nil) {
    guard let what = failure.doing else {
      self.init(.inaccessible, path, "it is no regular file: remove it")
      return
    }
    self.init(systemError: failure.code, path: path, doing: doing ?? what)
  }
}

/// Tells files with the same path, at different times, from each other.
package struct FileIdentity: Equatable, Sendable {
  private let device: dev_t
  private let inode: ino_t

  /// The file at a path, which may be a symbolic link; nil, and errno, if there is none.
  package init?(at path: String) {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else { return nil }
    (device, inode) = (status.st_dev, status.st_ino)
  }

  /// An open file; nil, and errno, if that cannot be found out.
  init?(of descriptor: Int32) {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return nil }
    (device, inode) = (status.st_dev, status.st_ino)
  }
}
