import Glibc
import Logging

/// Remembers, over restarts, which generations may have been given out, so that none is given
/// out twice even if the wall clock has been set back meanwhile.
///
/// The clock alone would nearly do: generations begin at the microseconds since 1970, and nobody
/// starts a million countdowns a second for long. The file `generation` in the state directory is
/// the floor beneath it; each start of the daemon reserves 2³² more.
struct GenerationFile {
  private static let reservation: Int64 = 1 << 32

  private let directory: String
  private let path: String
  private let logger: Logger

  init(directory: String, logger: Logger) {
    self.directory = directory
    path = directory + "/generation"
    self.logger = logger
  }

  /// The first generation that certainly never was given out.
  func reserve() -> Int64 {
    // It may be there already, or not be possible; writing will tell.
    mkdir(directory, 0o700)
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    let byClock = Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1_000
    let first = max(byClock, read() ?? 0)
    write(first + Self.reservation)
    return first
  }

  private func read() -> Int64? {
    guard let file = fopen(path, "r") else {
      if errno != ENOENT { report("read", errno) }
      return nil
    }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 64)
    guard fgets(&line, Int32(line.count), file) != nil,
      let value = line.withUnsafeBufferPointer({
        Int64(String(cString: $0.baseAddress!).filter { !$0.isWhitespace })
      }),
      value > 0, value < 1 << 62
    else {
      logger.warning(
        "not a generation number; going by the clock, and writing it anew",
        metadata: ["file": "\(path)"])
      return nil
    }
    return value
  }

  /// Whole or not at all: written beside it, then moved over it.
  private func write(_ value: Int64) {
    let new = path + ".new"
    guard let file = fopen(new, "w") else { return report("write", errno) }
    let isWritten = fputs("\(value)\n", file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0
    let code = errno
    fclose(file)
    guard isWritten else { return report("write", code) }
    guard rename(new, path) == 0 else { return report("write", errno) }
  }

  private func report(_ what: String, _ code: Int32) {
    logger.notice(
      "cannot \(what) \(path): \(String(cString: strerror(code))); generations go by the clock alone",
      metadata: ["hint": "--state-directory chooses another place"])
  }
}
