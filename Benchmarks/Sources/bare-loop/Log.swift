import Glibc

/// Collects the changes of a batch and stores them before its replies are sent.
struct Log: ~Copyable {
  enum Mode { case nothing, write, sync }

  /// The size of the file in bytes. The file is allocated at the start and used as a ring, so that
  /// syncing writes only data, not a new length.
  private static let fileSize = 256 << 20
  /// The capacity in bytes: more than the input of all connections in a batch can produce.
  private static let batchSize = 64 << 20

  private let mode: Mode
  private let file: CInt
  private var position = 0
  private let batch = UnsafeMutableRawPointer.allocate(byteCount: batchSize, alignment: 8)
  private var length = 0

  init(_ mode: Mode, path: String) {
    self.mode = mode
    guard mode != .nothing else {
      file = -1
      return
    }
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0o600)
    guard file >= 0, posix_fallocate(file, 0, off_t(Self.fileSize)) == 0 else { fail(path) }
  }

  /// Appends an entry as long as the daemon's, which has a header, the event and the record.
  @inline(__always)
  mutating func add(_ record: UnsafePointer<Record>, _ key: Bytes, _ keyLength: Int) {
    if mode == .nothing { return }
    let entry = batch + length
    let end = 2 * MemoryLayout<Record>.size + keyLength
    entry.storeBytes(of: UInt64(end), as: UInt64.self)
    (entry + 8).copyMemory(from: record, byteCount: MemoryLayout<Record>.size)
    (entry + 8 + MemoryLayout<Record>.size).copyMemory(from: key, byteCount: keyLength)
    length += (end + 7) & ~7
  }

  mutating func commit() {
    if length == 0 { return }
    if position + length > Self.fileSize { position = 0 }
    guard pwrite(file, batch, length, off_t(position)) == length else { fail("pwrite") }
    if mode == .sync, fdatasync(file) != 0 { fail("fdatasync") }
    position += length
    length = 0
  }
}
