import CountdownStore
import Glibc

/// Names this boot of the machine.
package enum BootID {
  /// What tells it to a daemon that cannot see all of /proc, as in the sandbox of the systemd unit.
  package static let variable = "COUNTDOWND_BOOT_ID"

  /// 32 hexadecimal digits; `unknownBoot` if nobody says.
  package static var current: String {
    getenv(variable).flatMap { digits(String(cString: $0)) } ?? kernels.flatMap(digits)
      ?? StoreClock.Reading.unknownBoot
  }

  /// The digits of an id, with dashes or without; nil of anything else, as what some wrapper has
  /// left unexpanded would be the same in each boot.
  static func digits(_ text: String) -> String? {
    let digits = text.filter { $0 != "-" }.lowercased()
    guard digits.utf8.count == 32, digits.allSatisfy(\.isHexDigit) else { return nil }
    return digits
  }

  /// Source: random(4), /proc/sys/kernel/random/boot_id.
  private static var kernels: String? {
    guard let file = fopen("/proc/sys/kernel/random/boot_id", "r") else { return nil }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 64)
    guard fgets(&line, CInt(line.count), file) != nil else { return nil }
    let bytes = line.prefix { $0 != 0 && $0 != 10 }.map(UInt8.init(bitPattern:))
    return String(decoding: bytes, as: UTF8.self)
  }
}
