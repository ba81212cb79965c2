import Glibc
import Synchronization

/// How far commits have got in the write-ahead log, in the file `committed` beside it.
///
/// SQLite takes a log that was cut short for a shorter log. A start compares this file with what SQLite
/// has read. The file is mapped: a commit stores two words in memory and calls nothing. They survive
/// `kill -9`. After a power failure they may be older than the log, which proves nothing.
///
/// One thread at a time.
final class CommitMark {
  struct Position: Equatable {
    /// The first salt of the log. It rises by one each time that the log begins again.
    var salt: UInt32
    /// Committed frames. 0 if the mark says nothing.
    var frames: UInt32

    fileprivate init(word: UInt64) {
      salt = UInt32(truncatingIfNeeded: word >> 32)
      frames = UInt32(truncatingIfNeeded: word)
    }

    init(salt: UInt32, frames: UInt32) {
      self.salt = salt
      self.frames = frames
    }

    fileprivate var word: UInt64 { UInt64(salt) << 32 | UInt64(frames) }
  }

  private static let length = 16
  private let page: UnsafeMutableRawPointer

  /// Makes the file if there is none.
  init(_ path: String) throws(StoreError) {
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
    guard descriptor >= 0 else { throw StoreError(systemError: errno, path: path, doing: "open") }
    defer { close(descriptor) }
    guard StateFiles.isRegularFile(descriptor) else {
      throw StoreError(.inaccessible, path, "it is no regular file: remove it")
    }
    if try Self.words(descriptor, path) == nil {
      let zeros = [UInt8](repeating: 0, count: Self.length)
      let written = pwrite(descriptor, zeros, zeros.count, 0)
      guard written == zeros.count else {
        throw StoreError(systemError: written < 0 ? errno : ENOSPC, path: path, doing: "write")
      }
    }
    guard
      let page = mmap(nil, Self.length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0),
      page != MAP_FAILED
    else { throw StoreError(systemError: errno, path: path, doing: "mmap") }
    self.page = page
    MappingGuard.begin(page)
  }

  deinit {
    MappingGuard.end(page)
    munmap(page, Self.length)
  }

  /// Nil if the file is missing or says nothing.
  static func read(_ path: String) throws(StoreError) -> Position? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    guard StateFiles.isRegularFile(descriptor) else { return nil }
    // Both words are the same, unless a bit flipped or the process ended between the two stores.
    guard let words = try words(descriptor, path), words.0 == words.1 else { return nil }
    let position = Position(word: words.0)
    return position.frames > 0 ? position : nil
  }

  private static func words(
    _ descriptor: Int32, _ path: String
  ) throws(StoreError) -> (UInt64, UInt64)? {
    var words: (UInt64, UInt64) = (0, 0)
    let count = pread(descriptor, &words, length, 0)
    guard count >= 0 else { throw StoreError(systemError: errno, path: path, doing: "read") }
    return count == length ? words : nil
  }

  func note(_ position: Position) { store(position.word) }

  /// Has the file say nothing, on the disk too: the log is about to be removed.
  func clear() {
    store(0)
    msync(page, Self.length, MS_SYNC)
  }

  private func store(_ word: UInt64) {
    page.storeBytes(of: word, as: UInt64.self)
    page.storeBytes(of: word, toByteOffset: 8, as: UInt64.self)
  }
}

/// Keeps the process alive when a store to the newest mapping fails: the file was cut short, or a file
/// system that copies on write is full. Memory takes the file's place, so the file says no more.
private enum MappingGuard {
  private static let page = Atomic<UInt>(0)
  private static let length: UInt = 4_096
  /// Written once, before the handler can run.
  nonisolated(unsafe) private static var previous = sigaction()
  private static let isInstalled: Bool = {
    var action = sigaction()
    action.sa_flags = SA_SIGINFO
    action.__sigaction_handler.sa_sigaction = { _, info, _ in
      let page = MappingGuard.page.load(ordering: .relaxed)
      let address = UInt(bitPattern: info?.pointee._sifields._sigfault.si_addr)
      if page != 0, address >= page, address - page < MappingGuard.length {
        mmap(
          UnsafeMutableRawPointer(bitPattern: page), Int(MappingGuard.length),
          PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
      } else {
        // The access is tried again, and is dealt with as before.
        sigaction(SIGBUS, &MappingGuard.previous, nil)
      }
    }
    return sigaction(SIGBUS, &action, &previous) == 0
  }()

  static func begin(_ newest: UnsafeMutableRawPointer) {
    page.store(UInt(bitPattern: newest), ordering: .relaxed)
    _ = isInstalled
  }

  static func end(_ old: UnsafeMutableRawPointer) {
    _ = page.compareExchange(
      expected: UInt(bitPattern: old), desired: 0, ordering: .relaxed)
  }
}
