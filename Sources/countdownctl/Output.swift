import Glibc
import Wire

/// The standard streams, unbuffered, also into a pipe.
///
/// Escapes unprintable characters, except the colours of ``Style``.
enum Output {
  static func line(_ text: String) { lines([text]) }

  static func lines(_ lines: [String]) {
    guard !lines.isEmpty else { return }
    write(lines.map { Style.printable($0) + "\n" }.joined(), to: STDOUT_FILENO)
  }

  /// Prints bytes from a reply, escaped on a terminal only.
  static func bytes(_ bytes: [UInt8]) {
    guard isTerminal else { return write(bytes, to: STDOUT_FILENO) }
    write(String(decoding: bytes, as: UTF8.self).printableLines, to: STDOUT_FILENO)
  }

  /// Whether errors are JSON, too. Reads the raw arguments, because parsing them may have failed.
  static let isJSON = CommandLine.arguments.prefix { $0 != "--" }.contains("--json")

  /// Prints a usage error, unless the text is empty, and ends the process.
  static func end(_ text: String, status: Int32) -> Never {
    if isJSON, !text.isEmpty {
      error(text, code: "USAGE")
    } else if !text.isEmpty {
      write("\(text.printableLines)\n", to: STDERR_FILENO)
    }
    exit(status)
  }

  /// Reports an error; with `--json` as an object with the code and the message.
  static func error(_ text: String, code: String) {
    let line =
      isJSON
      ? RESPValue.object(["code": code, "message": text]).json
      : "countdownctl: \(text.printable)"
    write(line + "\n", to: STDERR_FILENO)
  }

  /// Writes text that moves the cursor. The caller has escaped unprintable characters.
  static func raw(_ text: String) { write(text, to: STDOUT_FILENO) }

  /// Draws a line of progress.
  static func progress(_ text: String) { write(text, to: STDERR_FILENO) }

  private static func write(_ text: String, to descriptor: Int32) {
    write(Array(text.utf8), to: descriptor)
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let written = systemWrite(descriptor, rest)
      if written >= 0 {
        rest = rest.dropFirst(written)
        continue
      }
      switch errno {
      case EINTR: break
      case EAGAIN: usleep(1000)
      // The reader has closed the pipe.
      case EPIPE: exit(0)
      default: exit(4)
      }
    }
  }

  static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

  /// The maximum width of lines, in columns; unlimited in a pipe.
  static var width: Int { isTerminal ? Terminal.size.columns : .max }

  /// Colours on a terminal that supports them, unless NO_COLOR (https://no-color.org) is set.
  static var style: Style {
    let isDumb = environment("TERM") == "dumb"
    return Style(hasColour: isTerminal && !isDumb && environment("NO_COLOR") == nil)
  }

  /// Returns an environment variable; nil if it is unset or empty.
  static func environment(_ name: String) -> String? {
    guard let value = unsafe getenv(name), unsafe value.pointee != 0 else { return nil }
    return unsafe String(cString: value)
  }
}
