import Glibc

/// Writes human-readable log lines to standard error.
enum TextLines {
  static func write(_ line: LogLine) {
    StandardError.write(line: "\(time()) \(line.level): \(line.wholeText)")
  }

  private static func time() -> String {
    var now = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    var fields = unsafe tm()
    unsafe localtime_r(&now.tv_sec, &fields)
    var text = [CChar](repeating: 0, count: 32)
    let length = unsafe strftime(&text, text.count, "%F %T", &fields)
    let milliseconds = String(now.tv_nsec / 1_000_000 + 1_000).dropFirst()
    let seconds = String(decoding: text.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return seconds + "." + milliseconds
  }
}
