import Glibc

/// What SQLite's write-ahead log begins with. Where that is not as it must be, SQLite takes the log for
/// empty and writes over it, without a word.
///
/// Source: https://www.sqlite.org/fileformat2.html, section 4.1.
enum LogHeader {
  private static let length = 32
  private static let frameHeaderLength = 24
  private static let leastPage = 512

  /// Whether the log may hold commits that SQLite will not see.
  static func isUnreadable(log: String, database: String) throws(StoreError) -> Bool {
    let descriptor = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      if errno == ENOENT { return false }
      throw StoreError(systemError: errno, path: log, doing: "open")
    }
    defer { close(descriptor) }
    // One that ends within its first commit was left by a process that was killed at it.
    guard try size(descriptor, log) >= length + frameHeaderLength + leastPage else { return false }
    var header = [UInt8](repeating: 0, count: length)
    guard pread(descriptor, &header, length, 0) == length else {
      throw StoreError(systemError: errno, path: log, doing: "read")
    }
    guard isSound(header) else { return true }
    // A database is written to before its log is.
    var status = stat()
    guard stat(database, &status) == 0 else {
      throw StoreError(systemError: errno, path: database, doing: "stat")
    }
    return status.st_size == 0
  }

  private static func size(_ descriptor: Int32, _ path: String) throws(StoreError) -> Int {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "stat")
    }
    return Int(status.st_size)
  }

  static func isSound(_ header: [UInt8]) -> Bool {
    func word(_ index: Int) -> UInt32 {
      header[index * 4..<index * 4 + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
    guard word(0) & ~1 == 0x377f_0682, word(1) == 3_007_000 else { return false }
    // The lowest bit of the first word: checksums are of big-endian words.
    let isBigEndian = word(0) & 1 == 1
    var (first, second): (UInt32, UInt32) = (0, 0)
    for index in stride(from: 0, to: 6, by: 2) {
      first &+= (isBigEndian ? word(index) : word(index).byteSwapped) &+ second
      second &+= (isBigEndian ? word(index + 1) : word(index + 1).byteSwapped) &+ first
    }
    return first == word(6) && second == word(7)
  }
}
