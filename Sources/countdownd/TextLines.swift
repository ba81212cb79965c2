import Glibc

/// Human-readable log lines, on standard error.
enum TextLines {
  static func write(_ line: LogLine) {
    StandardError.write(line: "\(time()) \(line.level): \(line.wholeText)")
  }

  private static func time() -> String {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    var fields = tm()
    localtime_r(&now.tv_sec, &fields)
    var text = [CChar](repeating: 0, count: 32)
    strftime(&text, text.count, "%F %T", &fields)
    let milliseconds = String(now.tv_nsec / 1_000_000 + 1_000).dropFirst()
    return text.withUnsafeBufferPointer { String(cString: $0.baseAddress!) } + "." + milliseconds
  }
}
