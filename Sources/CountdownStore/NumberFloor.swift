import Glibc

/// The highest number that may have been given out, in a file beside the database: numbers keep
/// rising even if the database is set aside, restored from an old backup or lost.
struct NumberFloor {
  let directory: String

  /// How many numbers each start reserves: enough for a million countdowns per second for an hour.
  static let reserve: Int64 = 1 << 32
  /// The valid floors: so far below 2⁶³ that numbers never reach that.
  static let possible = 0...Int64.max / 2

  private var path: String { directory + "/numbers" }

  /// Reads the number; nil if the file does not exist, is invalid, or is not for this user.
  func read() throws(StoreError) -> Int64? {
    // O_NONBLOCK: a pipe at this path must not block.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else {
      if [ENOENT, ENOTDIR, EACCES, ELOOP, ENXIO].contains(errno) { return nil }
      throw StoreError(systemError: errno, path: path, doing: "open")
    }
    defer { close(descriptor) }
    guard StateFiles.isRegularFile(descriptor) else { return nil }
    var buffer = [UInt8](repeating: 0, count: 64)
    let count = unsafe Glibc.read(descriptor, &buffer, buffer.count)
    guard count >= 0 else { throw StoreError(systemError: errno, path: path, doing: "read") }
    guard count > 0, buffer[count - 1] == UInt8(ascii: "\n") else { return nil }
    // The number is written twice, so that a partial write or a changed digit is noticed.
    let words = String(decoding: buffer[..<(count - 1)], as: UTF8.self).split(separator: " ")
    guard words.count == 2, words[0] == words[1], let floor = Int64(words[0]),
      Self.possible.contains(floor)
    else { return nil }
    return floor
  }

  /// Writes the number to the disk, in place, as a full disk has no room for another file.
  func write(_ floor: Int64) throws(StoreError) {
    let descriptor = unsafe open(
      path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
    guard descriptor >= 0 else { throw StoreError(systemError: errno, path: path, doing: "open") }
    defer { close(descriptor) }
    guard StateFiles.isRegularFile(descriptor) else {
      throw StoreError(.inaccessible, path, "it is no regular file: remove it")
    }
    let line = Array("\(floor) \(floor)\n".utf8)
    let written = unsafe pwrite(descriptor, line, line.count, 0)
    guard written == line.count else {
      // A full disk writes fewer bytes than requested.
      throw StoreError(systemError: written < 0 ? errno : ENOSPC, path: path, doing: "write")
    }
    guard ftruncate(descriptor, off_t(line.count)) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "ftruncate")
    }
    guard fsync(descriptor) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "fsync")
    }
    try StateFiles.synchronize(directory)
  }
}

extension Store {
  /// Returns the first number for a daemon that stores nothing where an earlier one stored a state.
  /// Numbers keep rising, and the next daemon with that state notices the gap.
  ///
  /// Changes only `numbers` and `lock`: if `numbers` exists and no daemon uses the directory.
  ///
  /// - Parameter number: the lowest number to return.
  package static func firstNumber(
    keepingNothingIn directory: String, atLeast number: Int64
  ) throws(StoreError) -> Int64 {
    let numbers = NumberFloor(directory: directory)
    guard try numbers.read() != nil else { return number }
    let lock: DirectoryLock
    do {
      lock = try DirectoryLock(directory)
    } catch {
      // The numbers of another daemon must not be changed.
      if case .inUse = error.kind { return number }
      throw error
    }
    defer { withExtendedLifetime(lock) {} }
    let first = max((try numbers.read() ?? 0) + 1, number)
    try numbers.write(first + NumberFloor.reserve)
    return first
  }
}
