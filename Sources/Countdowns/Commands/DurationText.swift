/// Durations as people write them: `1500`, `1500ms`, `90s`, `10m`, `2h`, `30d`.
package enum DurationText {
  /// Nil for what is none, or longer than 3650 days.
  package static func parse(_ text: Span<UInt8>) -> Interval? {
    var value: Int64 = 0
    var index = 0
    while index < text.count, let digit = Int64(decimalDigit: text[index]) {
      value = value * 10 + digit
      // Bound before anything can overflow: 3650 days are 12 digits of milliseconds.
      guard index < 15 else { return nil }
      index += 1
    }
    guard index > 0 else { return nil }
    let unit: Int64
    switch (text.count - index, text.count > index ? text[index] | 0x20 : 0) {
    case (0, _): unit = 1_000
    case (2, UInt8(ascii: "m")) where text[index + 1] | 0x20 == UInt8(ascii: "s"): unit = 1_000
    case (1, UInt8(ascii: "s")): unit = 1_000_000
    case (1, UInt8(ascii: "m")): unit = 60_000_000
    case (1, UInt8(ascii: "h")): unit = 3_600_000_000
    case (1, UInt8(ascii: "d")): unit = 86_400_000_000
    default: return nil
    }
    guard value <= Interval.longest.microseconds / unit else { return nil }
    return Interval(microseconds: value * unit)
  }
}

extension Int64 {
  fileprivate init?(decimalDigit byte: UInt8) {
    guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
    self = Int64(byte &- UInt8(ascii: "0"))
  }
}
