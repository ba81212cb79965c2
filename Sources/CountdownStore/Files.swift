import Glibc

/// Reads a file that is small, or of which only the beginning is needed.
package enum FileContents {
  /// The error number of a failed call.
  package struct Failure: Error { package let code: Int32 }

  /// Returns the content of a file from an offset on, and not more than `most` bytes of it.
  package static func read(
    _ path: String, from offset: Int = 0, atMost most: Int
  ) throws(Failure) -> [UInt8] {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw Failure(code: errno) }
    defer { close(descriptor) }
    guard offset == 0 || lseek(descriptor, offset, SEEK_SET) >= 0 else {
      throw Failure(code: errno)
    }
    var code: Int32 = 0
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: most) { memory, length in
      while length < most {
        let count = unsafe Glibc.read(descriptor, memory.baseAddress! + length, most - length)
        if count < 0, errno == EINTR { continue }
        if count < 0 { code = errno }
        guard count > 0 else { break }
        length += count
      }
    }
    guard code == 0 else { throw Failure(code: code) }
    return bytes
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
