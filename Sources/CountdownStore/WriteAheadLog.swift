import Glibc

/// Finds commits in SQLite's write-ahead log that SQLite does not see. It reads a log up to the first frame
/// that is not as it was written, and writes over the rest. Where the header is damaged it reads nothing.
///
/// Source: https://www.sqlite.org/fileformat2.html, section 4.1.
enum WriteAheadLog {
  private static let headerLength = 32
  private static let frameHeaderLength = 24
  private static let leastPage = 512

  /// Whether the header is damaged, or the log is of a database that is empty now.
  static func isUnreadable(log: String, database: String) throws(StoreError) -> Bool {
    let descriptor = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      if errno == ENOENT { return false }
      throw StoreError(systemError: errno, path: log, doing: "open")
    }
    defer { close(descriptor) }
    // One that ends within its first commit was left by a process that was killed at it.
    guard try size(descriptor, log) >= headerLength + frameHeaderLength + leastPage else {
      return false
    }
    let header = try bytes(headerLength, at: 0, descriptor, log)
    guard isSound(header) else { return true }
    // A database is written to before its log is.
    var status = stat()
    guard stat(database, &status) == 0 else {
      throw StoreError(systemError: errno, path: database, doing: "stat")
    }
    return status.st_size == 0
  }

  /// Why commits are known to be missing in what SQLite has read; nil if none is.
  ///
  /// To be called before anything is written.
  ///
  /// - Parameters:
  ///   - database: has been read.
  ///   - mark: how far commits had got; nil if nobody knows.
  static func loss(
    _ database: Database, mark: CommitMark.Position?
  ) throws(StoreError) -> StoreError? {
    let path = database.path + "-wal"
    func lost(_ detail: String) -> StoreError {
      StoreError(.corrupt, path, "newest changes are lost: \(detail)")
    }
    guard let log = database.logPosition else {
      return mark.map { lost("the log is missing, and had \($0.frames) pages") }
    }
    if let mark {
      let age = Int32(bitPattern: log.salt &- mark.salt)
      if age < 0 { return lost("the log is an older one") }
      if age == 0, log.frames < mark.frames {
        return lost("the log can be read up to page \(log.frames) of \(mark.frames)")
      }
      if age == 0, log.frames == mark.frames { return nil }
    }
    // The process may have ended within one commit, but not within two.
    return try hasCommits(beyond: log.frames, path)
      ? lost("the log can be read up to page \(log.frames), and other changes follow") : nil
  }

  /// Whether, behind so many frames, a commit of this log ends and another frame of it follows.
  private static func hasCommits(beyond frames: UInt32, _ log: String) throws(StoreError) -> Bool {
    let descriptor = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: log, doing: "open")
    }
    defer { close(descriptor) }
    let end = try size(descriptor, log)
    guard end >= headerLength else { return false }
    let header = try bytes(headerLength, at: 0, descriptor, log)
    let frameLength = frameHeaderLength + Int(word(header, 2))
    var offset = headerLength + Int(frames) * frameLength
    var hasEnded = false
    while offset + frameHeaderLength <= end {
      let frame = try bytes(frameHeaderLength, at: offset, descriptor, log)
      if frame[8..<16] == header[16..<24] {
        if hasEnded { return true }
        // The size of the database after a commit; 0 in frames that are not the last of one.
        hasEnded = word(frame, 1) != 0
      }
      offset += frameLength
    }
    return false
  }

  private static func bytes(
    _ count: Int, at offset: Int, _ descriptor: Int32, _ path: String
  ) throws(StoreError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    guard pread(descriptor, &bytes, count, off_t(offset)) == count else {
      throw StoreError(systemError: errno, path: path, doing: "read")
    }
    return bytes
  }

  /// The big-endian word of 32 bits at a place.
  private static func word(_ bytes: [UInt8], _ index: Int) -> UInt32 {
    bytes[index * 4..<index * 4 + 4].reduce(0) { $0 << 8 | UInt32($1) }
  }

  private static func size(_ descriptor: Int32, _ path: String) throws(StoreError) -> Int {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "stat")
    }
    return Int(status.st_size)
  }

  static func isSound(_ header: [UInt8]) -> Bool {
    func word(_ index: Int) -> UInt32 { Self.word(header, index) }
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
