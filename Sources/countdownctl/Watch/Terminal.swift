import Glibc

/// Draws a few lines in place, at the cursor, and leaves the terminal as it was.
struct Terminal {
  private var widths: [Int] = []

  /// Columns and rows; 80 × 24 where the terminal does not know.
  static var size: (columns: Int, rows: Int) {
    var size = winsize()
    guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0,
      size.ws_row > 0
    else { return (80, 24) }
    return (Int(size.ws_col), Int(size.ws_row))
  }

  /// Puts lines in the place of those drawn last, in one write so that nothing flickers.
  mutating func draw(_ lines: [String], widths: [Int], columns: Int) {
    var output = top(columns)
    for (index, line) in lines.enumerated() {
      output += Style.printable(line) + "\u{1B}[K" + (index < lines.count - 1 ? "\r\n" : "")
    }
    Output.raw(output + "\u{1B}[J")
    self.widths = widths
  }

  /// Hides the cursor.
  func begin() { Output.raw("\u{1B}[?25l") }

  /// Shows the cursor, on a line of its own below what was drawn.
  mutating func end() {
    Output.raw((widths.isEmpty ? "" : "\r\n") + "\u{1B}[?25h")
    widths = []
  }

  /// To the first row of what was drawn; in a terminal that has become narrower since then, lines
  /// take several rows.
  private func top(_ columns: Int) -> String {
    let rows = widths.reduce(0) { $0 + max(1, ($1 + columns - 1) / max(1, columns)) }
    return rows > 1 ? "\r\u{1B}[\(rows - 1)A" : "\r"
  }
}
