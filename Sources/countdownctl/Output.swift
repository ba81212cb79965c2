import Wire

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// The standard streams, unbuffered: a line is out when it is printed, also into a pipe.
///
/// What is not printable is escaped here at the latest, but for the colours of ``Style``.
enum Output {
  static func line(_ text: String) { lines([text]) }

  static func lines(_ lines: [String]) {
    guard !lines.isEmpty else { return }
    write(lines.map { Style.printable($0) + "\n" }.joined(), to: STDOUT_FILENO)
  }

  /// Bytes of others: as they are into a pipe or file, escaped on a terminal.
  static func bytes(_ bytes: [UInt8]) {
    guard isTerminal else { return write(bytes, to: STDOUT_FILENO) }
    write(String(decoding: bytes, as: UTF8.self).printableLines, to: STDOUT_FILENO)
  }

  /// Ends the process, with lines that say why, if there are any.
  static func end(_ text: String, status: Int32) -> Never {
    if !text.isEmpty { write("\(text.printableLines)\n", to: STDERR_FILENO) }
    exit(status)
  }

  static func error(_ text: String) {
    write("countdownctl: \(text.printable)\n", to: STDERR_FILENO)
  }

  /// What moves the cursor: the text in it is printable already.
  static func raw(_ text: String) { write(text, to: STDOUT_FILENO) }

  /// What is drawn over again while something goes on.
  static func progress(_ text: String) { write(text, to: STDERR_FILENO) }

  private static func write(_ text: String, to descriptor: Int32) {
    write(Array(text.utf8), to: descriptor)
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let written = rest.withUnsafeBytes { systemWrite(descriptor, $0.baseAddress, $0.count) }
      if written >= 0 {
        rest = rest.dropFirst(written)
        continue
      }
      switch errno {
      case EINTR: break
      case EAGAIN: usleep(1000)
      // The reader has gone: what is left is nobody's loss.
      case EPIPE: exit(0)
      default: exit(4)
      }
    }
  }

  // Named apart, for `write` means the ones above here.
  private static let systemWrite: @Sendable (Int32, UnsafeRawPointer?, Int) -> Int = {
    #if canImport(Glibc)
      Glibc.write($0, $1, $2)
    #elseif canImport(Musl)
      Musl.write($0, $1, $2)
    #else
      Darwin.write($0, $1, $2)
    #endif
  }

  static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

  /// Colour on a terminal that can show it, unless NO_COLOR (https://no-color.org) is set.
  static var style: Style {
    let isDumb = environment("TERM") == "dumb"
    return Style(hasColour: isTerminal && !isDumb && environment("NO_COLOR") == nil)
  }

  /// A variable of the environment; nil when it is not set, or empty.
  static func environment(_ name: String) -> String? {
    guard let value = getenv(name), value.pointee != 0 else { return nil }
    return String(cString: value)
  }
}
