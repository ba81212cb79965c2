import CLog
import Glibc

/// A file of the change log. Its space on the disk is reserved before it is written to. It begins
/// with a header; frames follow, then leftovers of its earlier use.
///
///     0   "countdlg"
///     8   lineage of its state: `Meta.lineage`
///     16  size of the file in bytes
///     24  CRC32C of the 24 bytes before; 4 bytes of zero
///     32  frames
final class LogSegment: @unchecked Sendable {
  static let headerLength = 32
  private static let magic = Array("countdlg".utf8)

  /// One more than the number of the segment before.
  let number: UInt64
  let path: String
  let descriptor: Int32
  private(set) var size: Int

  private init(_ number: UInt64, _ path: String, _ descriptor: Int32, size: Int) {
    self.number = number
    self.path = path
    self.descriptor = descriptor
    self.size = size
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Opens an existing segment for writing.
  init(opening found: FoundSegment) throws(StoreError) {
    (number, path, size) = (found.number, found.path, found.fileSize)
    descriptor = unsafe open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { throw StoreError(systemError: errno, path: path, doing: "open") }
  }

  /// Creates a new segment. It gets its name once its space is reserved.
  ///
  /// - Parameter filled: whether to write zeros to the whole segment. Later writes then change no
  ///   file system metadata, so waiting for the disk is much faster.
  static func create(
    _ number: UInt64, size: Int, lineage: Int64, filled: Bool, in files: StateFiles
  ) throws(StoreError) -> LogSegment {
    let path = files.segment(number)
    let unfinished = files.unfinishedSegment
    guard unsafe unlink(unfinished) == 0 || errno == ENOENT else {
      throw StoreError(systemError: errno, path: unfinished, doing: "remove")
    }
    let descriptor = unsafe open(
      unfinished, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: unfinished, doing: "create")
    }
    let segment = LogSegment(number, path, descriptor, size: 0)
    do throws(StoreError) {
      try segment.grow(to: size, lineage: lineage, filled: filled)
      guard unsafe rename(unfinished, path) == 0 else {
        throw StoreError(systemError: errno, path: unfinished, doing: "rename")
      }
      try files.synchronize()
    } catch {
      unsafe unlink(unfinished)
      throw error
    }
    return segment
  }

  /// Renames a segment whose changes are in the tables, for reuse. The new name survives a power
  /// failure only once the directory is synchronized.
  func renamed(to number: UInt64, in files: StateFiles) throws(StoreError) -> LogSegment {
    let path = files.segment(number)
    let copy = dup(descriptor)
    guard copy >= 0 else { throw StoreError(systemError: errno, path: path, doing: "dup") }
    let segment = LogSegment(number, path, copy, size: size)
    guard unsafe rename(self.path, path) == 0 else {
      throw StoreError(systemError: errno, path: self.path, doing: "rename")
    }
    return segment
  }

  /// Reserves space, writes the header, and waits for the disk.
  func grow(to size: Int, lineage: Int64, filled: Bool) throws(StoreError) {
    let code = fallocate(descriptor, 0, 0, off_t(size)) == 0 ? 0 : errno
    guard code == 0 || code == EOPNOTSUPP else {
      throw StoreError(systemError: code, path: path, doing: "reserve \(size >> 10) KiB")
    }
    if filled || code == EOPNOTSUPP { try fill(to: size) }
    var header = Self.magic + [UInt8](repeating: 0, count: Self.headerLength - Self.magic.count)
    LogFrame.put(lineage, at: 8, in: &header)
    LogFrame.put(UInt64(size), at: 16, in: &header)
    LogFrame.put(CRC32C.checksum(header[..<24]), at: 24, in: &header)
    // After a power failure, a header that names a longer file would mean that changes are lost.
    if self.size > 0 { try synchronize(fsync, "fsync") }
    try write(header, at: 0)
    try synchronize(fsync, "fsync")
    self.size = size
  }

  /// Writes zeros from the old end to the new one.
  private func fill(to size: Int) throws(StoreError) {
    guard size > self.size else { return }
    let zeros = [UInt8](repeating: 0, count: min(size - self.size, 1 << 20))
    for offset in stride(from: self.size, to: size, by: zeros.count) {
      // The last piece may overlap the one before.
      try write(zeros, at: min(offset, size - zeros.count))
    }
  }

  func write(_ bytes: [UInt8], at offset: Int) throws(StoreError) {
    var written = 0
    while written < bytes.count {
      let count = unsafe bytes.withUnsafeBytes {
        unsafe pwrite(
          descriptor, $0.baseAddress! + written, $0.count - written, off_t(offset + written))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        throw StoreError(systemError: count < 0 ? errno : ENOSPC, path: path, doing: "write")
      }
      written += count
    }
  }

  func synchronize() throws(StoreError) { try synchronize(fdatasync, "fdatasync") }

  private func synchronize(_ call: (Int32) -> Int32, _ name: String) throws(StoreError) {
    guard call(descriptor) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: name)
    }
  }
}

/// A segment as a start finds it.
struct FoundSegment {
  let number: UInt64
  let path: String
  var fileSize: Int { StateFiles.size(path) }

  enum Header {
    case intact(lineage: Int64, size: Int)
    case damaged
  }

  static func header(_ bytes: [UInt8]) -> Header {
    guard bytes.count >= LogSegment.headerLength, bytes[..<8].elementsEqual("countdlg".utf8),
      CRC32C.checksum(bytes[..<24]) == LogFrame.get(at: 24, in: bytes)
    else { return .damaged }
    return .intact(
      lineage: LogFrame.get(at: 8, in: bytes),
      size: Int(clamping: LogFrame.get(at: 16, in: bytes) as UInt64))
  }

  /// Reads the file from its beginning, at most `most` bytes.
  func read(_ maximum: Int? = nil) throws(StoreError) -> [UInt8] {
    do {
      return try SafeFile.read(path, atMost: maximum, O_NOFOLLOW)
    } catch {
      throw StoreError(error, path: path)
    }
  }
}

extension LogSegment {
  /// The segment, for reading it again.
  var found: FoundSegment { FoundSegment(number: number, path: path) }
}

extension StateFiles {
  static let segmentSuffix = ".log"

  /// The path of a segment of this state.
  func segment(_ number: UInt64) -> String {
    let digits = String(number)
    let zeros = String(repeating: "0", count: max(10 - digits.count, 0))
    return directory + "/" + (logPrefix ?? "") + zeros + digits + Self.segmentSuffix
  }

  var unfinishedSegment: String { directory + "/.changes.new" }

  /// Returns the segments, sorted by number.
  func segments() throws(StoreError) -> [FoundSegment] {
    guard let logPrefix else { return [] }
    return try Self.names(in: directory).compactMap { name in
      guard name.hasPrefix(logPrefix), name.hasSuffix(Self.segmentSuffix),
        let number = UInt64(name.dropFirst(logPrefix.count).dropLast(Self.segmentSuffix.count))
      else { return nil }
      return FoundSegment(number: number, path: directory + "/" + name)
    }
    .sorted { $0.number < $1.number }
  }
}
