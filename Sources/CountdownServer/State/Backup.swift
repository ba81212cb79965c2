import CountdownStore
import Countdowns
import Glibc

/// A copy of the state for the connection that asked for it.
final class Backup {
  let id: Int64
  let connection: UInt64
  let path: String
  private enum Copy {
    case file(descriptor: Int32, size: Int64)
    /// For want of room on the disk.
    case memory([UInt8])
  }

  /// The copy, or why there is none; nil while it is being made.
  private var result: Result<Copy, StateError>?
  var isMade: Bool { result != nil }
  /// Whether the copy is not needed any more.
  private(set) var isEnded = false

  init(id: Int64, for connection: UInt64, path: String) {
    self.id = id
    self.connection = connection
    self.path = path
  }

  deinit { if case .success(.file(let descriptor, _))? = result { close(descriptor) } }

  /// The length in bytes; nil while the copy is being made.
  var size: Int64? {
    get throws(StateError) {
      switch try result?.get() {
      case .file(_, let size)?: size
      case .memory(let bytes)?: Int64(bytes.count)
      case nil: nil
      }
    }
  }

  /// Opens the finished copy, or keeps the error that prevented it.
  func made(_ error: StoreError?, inMemory bytes: [UInt8]?) {
    // The open descriptor is enough, and the copy disappears with the daemon, however that ends.
    defer { unsafe unlink(path) }
    guard !isEnded else { return }
    if let error {
      result = .failure(StateError("ERR no copy could be made: \(error)"))
      return
    }
    if let bytes {
      result = .success(.memory(bytes))
      return
    }
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    var status = stat()
    guard descriptor >= 0, unsafe fstat(descriptor, &status) == 0 else {
      let reason = unsafe String(cString: strerror(errno))
      if descriptor >= 0 { close(descriptor) }
      result = .failure(StateError("ERR the copy cannot be read: \(reason)"))
      return
    }
    result = .success(.file(descriptor: descriptor, size: Int64(status.st_size)))
  }

  func end() { isEnded = true }

  func read(at offset: Int64, count: Int) throws(StateError) -> [UInt8] {
    guard let result else {
      throw StateError("ERR the copy is being made; BACKUP SIZE tells when it is done")
    }
    switch try result.get() {
    case .memory(let bytes): return Array(bytes.dropFirst(Int(offset)).prefix(count))
    case .file(let descriptor, _):
      do {
        return try SafeFile.read(descriptor, from: Int(offset), atMost: count)
      } catch {
        throw StateError("ERR the copy cannot be read: \(error.reason)")
      }
    }
  }
}
