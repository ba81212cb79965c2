import Foundation

/// The wall clock.
enum WallClock {
  /// Local time: `2026-05-03 14:02:11.250`
  static func text(unixMilliseconds: Int, format: String = "%Y-%m-%d %H:%M:%S") -> String {
    let milliseconds = unixMilliseconds - (unixMilliseconds / 1000) * 1000
    var seconds = time_t(unixMilliseconds / 1000)
    var parts = unsafe tm()
    guard milliseconds >= 0, unsafe localtime_r(&seconds, &parts) != nil else { return "" }
    var buffer = [CChar](repeating: 0, count: 64)
    let length = unsafe strftime(&buffer, buffer.count, format, &parts)
    let text = String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let digits = String(milliseconds)
    return text + "." + String(repeating: "0", count: 3 - digits.count) + digits
  }

  static var nowUnixMilliseconds: Int { nowUnixMicroseconds / 1_000 }

  static var nowUnixMicroseconds: Int {
    var now = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    return now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
  }
}
