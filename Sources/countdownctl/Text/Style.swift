import Glibc

/// Colours for a terminal; none elsewhere.
struct Style {
  let hasColour: Bool
  var showsGenerations = false

  func green(_ text: String) -> String { wrap(text, "32") }
  func yellow(_ text: String) -> String { wrap(text, "33") }
  func red(_ text: String) -> String { wrap(text, "31") }
  func cyan(_ text: String) -> String { wrap(text, "36") }
  func bold(_ text: String) -> String { wrap(text, "1") }
  func dim(_ text: String) -> String { wrap(text, "2") }
  func reverse(_ text: String) -> String { wrap(text, "7") }

  private func wrap(_ text: String, _ code: String) -> String {
    hasColour ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
  }

  /// Escapes unprintable characters, except line feeds and the colours above.
  static func printable(_ text: String) -> String {
    var parts = text.split(separator: "\u{1B}", omittingEmptySubsequences: false)[...]
    var result = parts.removeFirst().printableLines
    for part in parts {
      let isColour = ["[0m", "[1m", "[2m", "[7m", "[31m", "[32m", "[33m", "[36m"].contains {
        part.utf8.starts(with: $0.utf8)
      }
      result += isColour ? "\u{1B}" : "\u{1B}".printable
      result += part.printableLines
    }
    return result
  }

  /// Returns the word before an accepted request; empty for a view that does not answer a request.
  func accepted(_ accepted: Bool?) -> String { accepted == nil ? "" : green("accepted") + "  " }

  /// Returns the generation for the end of a line; empty unless generations are shown.
  func generation(_ generation: Int) -> String {
    showsGenerations ? "  (generation \(generation))" : ""
  }

  /// Returns a text in the colour of a state.
  func state(_ text: String, _ state: String) -> String {
    switch state {
    case "ready", "visible", "running", "available", "done", "open", "content", "settled":
      return green(text)
    case "paused", "waiting", "disappearing", "exhausted", "pending", "resting": return yellow(text)
    case "error": return red(text)
    case "idle", "hidden", "cancelled", "closed": return dim(text)
    default: return cyan(text)
    }
  }
}

/// A progress bar with two steps per column.
enum Bar {
  /// - Parameter fraction: the full part, from 0 to 1; other values are clamped.
  static func text(_ fraction: Double, columns: Int) -> String {
    guard columns > 0 else { return "" }
    let bounded = fraction.isFinite ? min(max(fraction, 0), 1) : 0
    let steps = Int((bounded * Double(columns * 2)).rounded())
    let (full, half) = steps.quotientAndRemainder(dividingBy: 2)
    return String(repeating: "━", count: full) + (half > 0 ? "╾" : "")
      + String(repeating: "─", count: columns - full - half)
  }
}

/// One line with the progress of work, on standard error if that is a terminal; removed at the end.
enum ProgressBar {
  static var isWanted: Bool { Output.isTerminal && isatty(STDERR_FILENO) == 1 }

  /// - Parameter fraction: from 0 to 1.
  static func text(_ name: String, _ fraction: Double, detail: String) -> String {
    let percent = Int(min(max(fraction, 0), 1) * 100)
    return "\(DisplayWidth.fit(name, 8)) \(Bar.text(fraction, columns: 30)) \(percent) %  \(detail)"
  }

  /// Draws the line, cut at the terminal's width: a line that wraps could not be overwritten.
  static func draw(_ text: String) {
    Output.progress("\r\(DisplayWidth.truncate(text, Terminal.size.columns - 1))\u{1B}[K")
  }

  static func clear() { Output.progress("\r\u{1B}[K") }
}
