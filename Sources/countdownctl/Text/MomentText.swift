import ArgumentParser
import Glibc

/// Parses a time, as in ISO 8601 or in milliseconds since 1970, into the latter; for `transform:`.
/// Without a time zone, it is in that of the machine.
@Sendable func moment(_ argument: String) throws -> Int {
  if let milliseconds = Int(argument), milliseconds >= 0 { return milliseconds }
  var text = MomentText(rest: argument[...])
  guard let milliseconds = text.milliseconds() else {
    throw ValidationError(
      "not a time as in ISO 8601, such as 2026-12-01T08:00:00+01:00, or milliseconds since 1970")
  }
  return milliseconds
}

/// A time as in ISO 8601, of which the parts are read one after the other.
private struct MomentText {
  var rest: Substring

  /// Returns the time in milliseconds since 1970; nil if it is none.
  mutating func milliseconds() -> Int? {
    guard let year = number(4), take("-") != nil, let month = number(2), take("-") != nil,
      let day = number(2), take("Tt ") != nil, let hour = number(2), hour < 24, take(":") != nil,
      let minute = number(2), minute < 60
    else { return nil }
    var (second, fraction) = (0, 0)
    if take(":") != nil {
      guard let read = number(2), read < 60 else { return nil }
      second = read
      if take(".,") != nil {
        guard let read = thousandths() else { return nil }
        fraction = read
      }
    }
    let isLocal = rest.isEmpty
    guard let ahead = isLocal ? 0 : zone(), rest.isEmpty,
      let seconds = Self.seconds(year, month, day, hour, minute, second, isLocal)
    else { return nil }
    let result = (seconds - ahead) * 1_000 + fraction
    return result < 0 ? nil : result
  }

  /// Returns a time in seconds since 1970; nil if there is no such day.
  private static func seconds(
    _ year: Int, _ month: Int, _ day: Int, _ hour: Int, _ minute: Int, _ second: Int,
    _ isLocal: Bool
  ) -> Int? {
    var parts = unsafe tm()
    unsafe parts.tm_year = Int32(year - 1_900)
    unsafe parts.tm_mon = Int32(month - 1)
    unsafe parts.tm_mday = Int32(day)
    unsafe parts.tm_hour = Int32(hour)
    unsafe parts.tm_min = Int32(minute)
    unsafe parts.tm_sec = Int32(second)
    unsafe parts.tm_isdst = -1
    let seconds = unsafe isLocal ? mktime(&parts) : timegm(&parts)
    // To the system, the 31st of November is a day of December.
    let isThatDay = unsafe Int(parts.tm_mday) == day && Int(parts.tm_mon) == month - 1
    return isThatDay ? seconds : nil
  }

  /// Reads a time zone, and returns how many seconds it is ahead.
  private mutating func zone() -> Int? {
    guard let sign = take("Zz+-") else { return nil }
    guard sign == "+" || sign == "-" else { return 0 }
    guard let hours = number(2) else { return nil }
    _ = take(":")
    guard let minutes = rest.isEmpty ? 0 : number(2) else { return nil }
    return (hours * 60 + minutes) * (sign == "+" ? 60 : -60)
  }

  /// Reads a fraction of a second, rounded up.
  private mutating func thousandths() -> Int? {
    let digits = rest.prefix { "0"..."9" ~= $0 }
    guard !digits.isEmpty, digits.count <= 9, let value = Int(digits) else { return nil }
    rest = rest.dropFirst(digits.count)
    var unit = 1
    for _ in digits { unit *= 10 }
    return (value * 1_000 + unit - 1) / unit
  }

  private mutating func number(_ digits: Int) -> Int? {
    let text = rest.prefix(digits)
    guard text.count == digits, text.allSatisfy({ "0"..."9" ~= $0 }) else { return nil }
    rest = rest.dropFirst(digits)
    return Int(text)
  }

  /// Reads one of these characters.
  private mutating func take(_ characters: String) -> Character? {
    guard let first = rest.first, characters.contains(first) else { return nil }
    rest = rest.dropFirst()
    return first
  }
}
