/// The text of a countdown's button: `%d` stands for the steps left, `%m:%02s` for the minutes and
/// seconds left, `%%` for a percent sign.
package enum Title {
  package static let maximumBytes = 1_024

  private enum Piece {
    case steps, minutes, seconds, percent
  }

  private static let pieces: [(text: [UInt8], piece: Piece)] = [
    (Array("%d".utf8), .steps), (Array("%m".utf8), .minutes), (Array("%02s".utf8), .seconds),
    (Array("%%".utf8), .percent),
  ]

  /// Returns the text for the steps and the time left, in UTF-8. Any other `%` stays as it is.
  package static func text(_ format: [UInt8], remaining: Int64, left: Interval) -> [UInt8] {
    let percent = UInt8(ascii: "%")
    guard format.contains(percent) else { return format }
    // Rounded up, as steps are, so it is never 0:00 while the countdown runs.
    let seconds = (left.microseconds + 999_999) / 1_000_000
    var text: [UInt8] = []
    text.reserveCapacity(format.count + 8)
    var index = 0
    while index < format.count {
      guard format[index] == percent, let (length, piece) = piece(in: format, at: index) else {
        text.append(format[index])
        index += 1
        continue
      }
      switch piece {
      case .steps: text.append(contentsOf: String(remaining).utf8)
      case .minutes: text.append(contentsOf: String(seconds / 60).utf8)
      case .seconds:
        if seconds % 60 < 10 { text.append(UInt8(ascii: "0")) }
        text.append(contentsOf: String(seconds % 60).utf8)
      case .percent: text.append(percent)
      }
      index += length
    }
    return text
  }

  /// Returns what is wrong with a format, as a message; nil for a valid one.
  package static func problem(_ format: [UInt8]) -> String? {
    guard format.count <= maximumBytes else {
      return "a title has at most \(maximumBytes) bytes, this one \(format.count)"
    }
    var hasMinutes = false
    var hasSeconds = false
    var index = 0
    while index < format.count {
      guard format[index] == UInt8(ascii: "%") else {
        index += 1
        continue
      }
      guard let (length, piece) = piece(in: format, at: index) else {
        return "a '%' in a title is one of %d (steps left), %m:%02s (minutes and seconds left) "
          + "and %% (a percent sign)"
      }
      if piece == .minutes { hasMinutes = true }
      if piece == .seconds { hasSeconds = true }
      index += length
    }
    guard hasMinutes == hasSeconds else {
      return "%m (minutes) and %02s (seconds) in a title need each other"
    }
    return nil
  }

  private static func piece(in format: [UInt8], at index: Int) -> (length: Int, Piece)? {
    for (text, piece) in pieces where format[index...].starts(with: text) {
      return (text.count, piece)
    }
    return nil
  }
}
