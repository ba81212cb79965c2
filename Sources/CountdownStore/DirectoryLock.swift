import Glibc

/// Keeps a second daemon out of a state directory.
///
/// The file `lock` is locked while this object lives, and holds the process ID, which a refused
/// daemon reports. The kernel releases the lock however the process ends; the file remains, and is
/// empty if the process has ended in order.
final class DirectoryLock {
  private let descriptor: Int32
  /// The process that had the lock before and did not release it; nil if it has.
  let lostBy: Int32?

  init(_ directory: String) throws(StoreError) {
    let path = directory + "/lock"
    let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: path, doing: "open")
    }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      let code = errno
      let pid = Self.readPID(descriptor)
      close(descriptor)
      guard code == EWOULDBLOCK else {
        throw StoreError(systemError: code, path: path, doing: "lock")
      }
      throw StoreError(.inUse(pid: pid), path, "it is locked")
    }
    self.descriptor = descriptor
    lostBy = Self.readPID(descriptor)
    // Only messages need this, so a failed write is ignored.
    let line = Array("\(getpid())\n".utf8)
    if ftruncate(descriptor, 0) == 0 { _ = unsafe pwrite(descriptor, line, line.count, 0) }
  }

  /// Unlocks explicitly: a child that was just forked may still have the descriptor.
  deinit {
    ftruncate(descriptor, 0)
    flock(descriptor, LOCK_UN)
    close(descriptor)
  }

  private static func readPID(_ descriptor: Int32) -> Int32? {
    var buffer = [UInt8](repeating: 0, count: 16)
    let count = unsafe pread(descriptor, &buffer, buffer.count, 0)
    guard count > 0 else { return nil }
    return Int32(String(decoding: buffer[..<count].prefix { $0 != 10 }, as: UTF8.self))
  }
}
