import Foundation

/// One line that shows how far something is, on a terminal only, and gone afterwards.
///
/// On the standard error stream: the report is what is printed.
struct ProgressBar {
  static var isWanted: Bool { Output.isTerminal && isatty(STDERR_FILENO) == 1 }

  /// - Parameter fraction: from 0 to 1.
  static func text(_ name: String, _ fraction: Double, detail: String) -> String {
    let percent = Int(min(max(fraction, 0), 1) * 100)
    return "\(DisplayWidth.fit(name, 8)) \(Bar.text(fraction, columns: 30)) \(percent) %  \(detail)"
  }

  static func draw(_ text: String) { Output.progress("\r\(text)\u{1B}[K") }

  static func clear() { Output.progress("\r\u{1B}[K") }
}
