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
    (try? SafeFile.read("/proc/sys/kernel/random/boot_id", atMost: 64))
      .map { String(decoding: $0.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self) }
  }
}
