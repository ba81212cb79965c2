import Glibc

enum StandardError {
  /// Writes text and a line end in one go, so that lines of several threads do not mix.
  static func write(line: String) {
    var bytes = Array(line.utf8)
    bytes.append(UInt8(ascii: "\n"))
    var rest = bytes[...]
    while !rest.isEmpty {
      let written = unsafe rest.withUnsafeBytes {
        unsafe Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count)
      }
      // There is nowhere left to report an error.
      guard written > 0 || errno == EINTR else { return }
      rest = rest.dropFirst(max(written, 0))
    }
  }
}
