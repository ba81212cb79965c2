extension Duration {
  /// The duration for people, rounded up, so that nothing pending looks over: `850 ms`, `48.2 s`,
  /// `5 m 03 s`, `3 h 05 m`, `2 d 03 h`.
  var humanText: String {
    if self <= .zero { return "0 s" }
    let milliseconds = roundedUpMilliseconds
    if milliseconds < 1000 { return "\(milliseconds) ms" }
    let tenths = (milliseconds + 99) / 100
    if tenths < 1200 {
      return tenths.isMultiple(of: 10) ? "\(tenths / 10) s" : "\(tenths / 10).\(tenths % 10) s"
    }
    let seconds = (milliseconds + 999) / 1000
    if seconds < 7200 { return "\(seconds / 60) m \(Self.twoDigits(seconds % 60)) s" }
    let minutes = (seconds + 59) / 60
    if minutes < 2880 { return "\(minutes / 60) h \(Self.twoDigits(minutes % 60)) m" }
    let hours = (minutes + 59) / 60
    return "\(hours / 24) d \(Self.twoDigits(hours % 24)) h"
  }

  /// As `humanText`, of one width while it runs: always with its tenth below two minutes.
  var runningText: String {
    let tenths = (max(0, roundedUpMilliseconds) + 99) / 100
    return tenths < 1200 ? "\(tenths / 10).\(tenths % 10) s" : humanText
  }

  /// Whole milliseconds, rounded up.
  var roundedUpMilliseconds: Int64 {
    let (seconds, attoseconds) = components
    return seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
  }

  /// Seconds with their fraction.
  var inSeconds: Double {
    Double(components.seconds) + Double(components.attoseconds) / 1e18
  }

  private static func twoDigits(_ value: Int64) -> String {
    value < 10 ? "0\(value)" : String(value)
  }
}
