import Wire

/// Durations as text: `90s`, `1h30m`, `1.5s`, `500ms`, `2d`.
package enum DurationText {
  /// What configuration files and command lines accept, for error messages.
  package static let allowed =
    "a duration with ms, s, m, h or d, such as 90s, 1h30m or 1.5s, at most 3650d"

  /// Reads a duration that a person has written. Only 0 needs no unit, because a bare number may be
  /// meant as seconds or as milliseconds. Returns nil for anything else that ``allowed`` excludes.
  package static func parse(written text: String) -> Interval? {
    guard text == "0" || !isBareNumber(text), text == text.lowercased() else { return nil }
    return parse(text.utf8.span)
  }

  /// Returns whether a text is a number without a unit.
  package static func isBareNumber(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.allSatisfy { Int64(decimalDigit: $0) != nil }
  }

  /// Reads a duration of the protocol, where a bare integer is milliseconds.
  ///
  /// Each unit is used once, the largest first; only the last number may have a fraction. Returns
  /// nil for anything else, for fractions of a millisecond, and beyond 3650 days.
  package static func parse(_ text: Span<UInt8>) -> Interval? {
    var total: Int64 = 0
    var lastUnit = Int64.max
    var index = 0
    repeat {
      let start = index
      guard let whole = readDigits(text, &index, atMost: 15) else { return nil }
      if index == text.count, start == 0 { return bounded(whole, unit: 1_000) }
      var fraction: Int64 = 0
      var scale: Int64 = 1
      if index < text.count, text[index] == UInt8(ascii: ".") {
        index += 1
        let point = index
        guard let digits = readDigits(text, &index, atMost: 6) else { return nil }
        fraction = digits
        for _ in point..<index { scale *= 10 }
      }
      guard let unit = readUnit(text, &index), unit < lastUnit,
        let part = bounded(whole, unit: unit)
      else { return nil }
      lastUnit = unit
      // Less than 10⁶ times 86.4 · 10⁹, so within 64 bits.
      let rest = fraction * unit
      guard rest % (scale * 1_000) == 0, scale == 1 || index == text.count else { return nil }
      total += part.microseconds + rest / scale
      guard total <= Interval.longest.microseconds else { return nil }
    } while index < text.count
    return Interval(microseconds: total)
  }

  private static func bounded(_ value: Int64, unit: Int64) -> Interval? {
    value <= Interval.longest.microseconds / unit ? Interval(microseconds: value * unit) : nil
  }

  private static func readDigits(
    _ text: Span<UInt8>, _ index: inout Int, atMost maximum: Int
  ) -> Int64? {
    let start = index
    var value: Int64 = 0
    while index < text.count, let digit = Int64(decimalDigit: text[index]) {
      guard index - start < maximum else { return nil }
      value = value * 10 + digit
      index += 1
    }
    return index > start ? value : nil
  }

  /// Reads the unit at `index`. Returns its length in microseconds.
  private static func readUnit(_ text: Span<UInt8>, _ index: inout Int) -> Int64? {
    guard index < text.count else { return nil }
    let letter = text[index] | 0x20
    index += 1
    switch letter {
    case UInt8(ascii: "m"):
      guard index < text.count, text[index] | 0x20 == UInt8(ascii: "s") else { return 60_000_000 }
      index += 1
      return 1_000
    case UInt8(ascii: "s"): return 1_000_000
    case UInt8(ascii: "h"): return 3_600_000_000
    case UInt8(ascii: "d"): return 86_400_000_000
    default: return nil
    }
  }
}

extension Interval {
  /// The interval in words, rounded up: `41 s`, `10 m`, `2 h 05 m`.
  package var humanText: String { Duration.milliseconds(millisecondsRoundedUp).humanText }

  /// The interval in its largest whole unit, as durations are written: `90s`, `2m`, `1500ms`.
  package var text: String {
    let milliseconds = millisecondsRoundedUp
    guard milliseconds > 0 else { return "0" }
    let units: [(String, Int64)] = [
      ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000),
    ]
    for (name, length) in units where milliseconds.isMultiple(of: length) {
      return "\(milliseconds / length)\(name)"
    }
    return "\(milliseconds)ms"
  }
}

extension Int64 {
  fileprivate init?(decimalDigit byte: UInt8) {
    guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
    self = Int64(byte &- UInt8(ascii: "0"))
  }
}
