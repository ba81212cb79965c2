import CountdownStore
import Glibc

/// The id of this boot of the machine.
package enum BootID {
  /// The environment variable with the id, for a daemon whose sandbox hides part of /proc.
  package static let variable = "COUNTDOWND_BOOT_ID"

  /// 32 hexadecimal digits, or `unknownBoot`.
  package static var current: String {
    unsafe getenv(variable).flatMap { unsafe digits(String(cString: $0)) } ?? kernels.flatMap(
      digits)
      ?? StoreClock.Reading.unknownBoot
  }

  /// Returns the digits of an id, with dashes or without; nil for anything else, such as a variable
  /// that a wrapper has left unexpanded, which would be the same in each boot.
  static func digits(_ text: String) -> String? {
    let digits = text.filter { $0 != "-" }.lowercased()
    guard digits.utf8.count == 32, digits.allSatisfy(\.isHexDigit) else { return nil }
    return digits
  }

  /// The kernel's id of this boot. Source: random(4), /proc/sys/kernel/random/boot_id.
  private static var kernels: String? {
    guard let file = unsafe fopen("/proc/sys/kernel/random/boot_id", "r") else { return nil }
    defer { unsafe fclose(file) }
    var line = [CChar](repeating: 0, count: 64)
    guard unsafe fgets(&line, CInt(line.count), file) != nil else { return nil }
    let bytes = line.prefix { $0 != 0 && $0 != 10 }.map(UInt8.init(bitPattern:))
    return String(decoding: bytes, as: UTF8.self)
  }
}
