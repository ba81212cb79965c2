import Glibc
import Synchronization

/// Standard error. Nothing waits for whoever reads it: lines that do not fit are dropped and
/// counted.
enum StandardError {
  private struct State {
    /// How many lines were dropped since the last one that was written.
    var dropped = 0
    /// Whether the last one was cut.
    var isCut = false
  }

  private static let state = Mutex(State())
  /// A pipe that can be written takes so many bytes at once: pipe(7), PIPE_BUF.
  private static let piece = 4_096

  /// Writes text and a line end, and returns whether that was possible. Lines of several threads do
  /// not mix.
  @discardableResult
  static func write(line: String) -> Bool {
    state.withLock { state in
      var text = line + "\n"
      if state.dropped > 0 {
        let gap =
          "countdownd: \(state.dropped) lines are missing here: nobody has read them in time"
        text = (state.isCut ? "\n" : "") + gap + "\n" + text
      }
      let bytes = Array(text.utf8)
      let count = write(bytes)
      guard count < bytes.count else {
        state = State()
        return true
      }
      state.dropped += 1
      if count > 0 { state.isCut = bytes[count - 1] != UInt8(ascii: "\n") }
      return false
    }
  }

  /// Writes as much as is taken at once, and returns how many bytes that was.
  private static func write(_ bytes: [UInt8]) -> Int {
    var count = 0
    while count < bytes.count {
      // Others share this end of a pipe or terminal, so O_NONBLOCK is not an option.
      var poll = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
      guard unsafe Glibc.poll(&poll, 1, 0) == 1 || errno == EINTR else { break }
      let written = unsafe bytes[count...].prefix(piece).withUnsafeBytes {
        unsafe Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count)
      }
      guard written > 0 || errno == EINTR else { break }
      count += max(written, 0)
    }
    return count
  }
}
