import Dispatch
import Glibc
import Synchronization

/// The terminal while a screen is shown: the alternate screen, and keys as they are pressed.
///
/// The process has one terminal, so the state is static. `exit` restores the terminal.
enum Terminal {
  struct Size: Equatable, Sendable {
    var columns: Int
    var rows: Int
  }

  /// The size of the terminal; 80 × 24 if it is unknown.
  static var size: Size {
    var size = winsize()
    guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0,
      size.ws_row > 0
    else { return Size(columns: 80, rows: 24) }
    return Size(columns: Int(size.ws_col), rows: Int(size.ws_row))
  }

  /// Whether standard output is a terminal that can move its cursor.
  static var canShowScreens: Bool {
    Output.isTerminal && !["dumb", nil].contains(Output.environment("TERM"))
  }

  /// Returns whether the locale uses UTF-8, by the first of LC_ALL, LC_CTYPE and LANG that is set.
  static func showsUnicode(_ variable: (String) -> String? = Output.environment) -> Bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap(variable).first ?? "C"
    return locale.uppercased().replacing("-", with: "").contains("UTF8")
  }

  // MARK: The alternate screen

  private struct State {
    var isOpen = false
    var isOver = false
    var isRegistered = false
    /// The modes to restore; nil if standard input is not a terminal.
    var modes: termios?
    /// The size and the lines of the screen.
    var size = Size(columns: 0, rows: 0)
    var lines: [String] = []
  }

  private static let state = Mutex(State())

  /// Draws lines from the top of the screen, which it opens first if necessary. Does nothing in the
  /// background.
  static func draw(_ lines: [String], size: Size) {
    guard isForeground(STDOUT_FILENO) else { return }
    let text = state.withLock { state in
      guard !state.isOver else { return "" }
      var text = state.isOpen ? "" : open(&state)
      if state.size != size {
        text += "\u{1B}[2J"
        state.lines = []
        state.size = size
      }
      for (row, line) in lines.prefix(size.rows).enumerated() {
        if row < state.lines.count, state.lines[row] == line { continue }
        // Erases before writing: after a full line, the cursor is still in its last column.
        text += "\u{1B}[\(row + 1);1H\u{1B}[K" + Style.printable(line)
      }
      if lines.count < state.lines.count { text += "\u{1B}[\(lines.count + 1);1H\u{1B}[J" }
      state.lines = lines
      return text
    }
    if !text.isEmpty { Output.raw(text) }
  }

  /// Returns whether this process is in the foreground, where it may use the terminal.
  private static func isForeground(_ descriptor: Int32) -> Bool {
    let group = tcgetpgrp(descriptor)
    return group < 0 || group == getpgrp()
  }

  /// Restores the terminal to its state before the first `draw`. The next `draw` opens the screen
  /// again, unless it is closed for good.
  static func close(forGood: Bool = false) {
    state.withLock { state in
      state.isOver = state.isOver || forGood
      guard state.isOpen else { return }
      // Bypasses `Output`, which may be ending the process.
      let text = Array("\u{1B}[0m\u{1B}[?7h\u{1B}[?25h\u{1B}[?1049l".utf8)
      _ = unsafe text.withUnsafeBytes { unsafe write(STDOUT_FILENO, $0.baseAddress, $0.count) }
      if var modes = state.modes { unsafe tcsetattr(STDIN_FILENO, TCSADRAIN, &modes) }
      state.isOpen = false
      state.size = Size(columns: 0, rows: 0)
    }
  }

  /// Returns the sequence that opens the screen, hides the cursor and cuts long lines. From now on
  /// keys come one by one, without echo; Ctrl-C and Ctrl-Z stay signals.
  private static func open(_ state: inout State) -> String {
    if !state.isRegistered { atexit { Terminal.close() } }
    state.isRegistered = true
    state.isOpen = true
    state.lines = []
    var modes = termios()
    if unsafe tcgetattr(STDIN_FILENO, &modes) == 0 {
      state.modes = modes
      modes.c_lflag &= ~tcflag_t(ICANON | ECHO | IEXTEN)
      unsafe tcsetattr(STDIN_FILENO, TCSADRAIN, &modes)
    }
    return "\u{1B}[?1049h\u{1B}[?25l\u{1B}[?7l"
  }

  // MARK: Keys

  /// Returns the keys that are pressed; ends at once if standard input is not a terminal.
  static func keys() -> AsyncStream<Key> {
    let (stream, continuation) = AsyncStream.makeStream(of: Key.self)
    guard isatty(STDIN_FILENO) == 1 else {
      continuation.finish()
      return stream
    }
    DispatchQueue(label: "keys").async {
      var bytes = [UInt8](repeating: 0, count: 1024)
      while true {
        let count = unsafe read(STDIN_FILENO, &bytes, bytes.count)
        if count < 0, errno == EINTR { continue }
        // A process in the background cannot read until the shell brings it to the foreground.
        if count < 0, errno == EIO, !isForeground(STDIN_FILENO) {
          usleep(100_000)
          continue
        }
        guard count > 0 else { return continuation.finish() }
        for key in Key.parse(bytes.prefix(count)) { continuation.yield(key) }
      }
    }
    return stream
  }
}
