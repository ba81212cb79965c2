extension Duration {
  /// The duration in whole milliseconds, rounded up so that a client is never early, as the daemon
  /// never is. Saturates at the bounds of `Int64`.
  package var millisecondsRoundedUp: Int64 {
    let (seconds, attoseconds) = components
    let perMillisecond: Int64 = 1_000_000_000_000_000
    let part = attoseconds / perMillisecond + (attoseconds % perMillisecond > 0 ? 1 : 0)
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    let (sum, sumOverflow) = whole.addingReportingOverflow(part)
    return overflow || sumOverflow ? (seconds < 0 ? .min : .max) : sum
  }

  /// The duration in seconds, including the fraction.
  package var inSeconds: Double {
    Double(components.seconds) + Double(components.attoseconds) / 1e18
  }

  /// The duration in words, rounded up so that nothing pending looks finished: `850 ms`, `48.2 s`,
  /// `10 m`, `5 m 03 s`, `3 h 05 m`, `2 d 03 h`.
  package var humanText: String { text(keepingZeros: false) }

  private func text(keepingZeros: Bool) -> String {
    func pair(_ value: Int64, _ divisor: Int64, _ major: String, _ minor: String) -> String {
      let rest = value % divisor
      let tail = rest == 0 && !keepingZeros ? "" : " \(Self.twoDigits(rest)) \(minor)"
      return "\(value / divisor) \(major)\(tail)"
    }
    if self <= .zero { return "0 s" }
    let milliseconds = millisecondsRoundedUp
    if milliseconds < 1000 { return "\(milliseconds) ms" }
    let tenths = Self.roundUp(milliseconds, 100)
    if tenths < 1200 {
      return tenths.isMultiple(of: 10) ? "\(tenths / 10) s" : "\(tenths / 10).\(tenths % 10) s"
    }
    let seconds = Self.roundUp(milliseconds, 1000)
    if seconds < 7200 { return pair(seconds, 60, "m", "s") }
    let minutes = Self.roundUp(seconds, 60)
    if minutes < 2880 { return pair(minutes, 60, "h", "m") }
    return pair(Self.roundUp(minutes, 60), 24, "d", "h")
  }

  /// Like `humanText`, but of steady width: with zeros, and always with tenths below two minutes.
  package var runningText: String {
    let tenths = Self.roundUp(max(0, millisecondsRoundedUp), 100)
    return tenths < 1200 ? "\(tenths / 10).\(tenths % 10) s" : text(keepingZeros: true)
  }

  private static func roundUp(_ value: Int64, _ unit: Int64) -> Int64 {
    value / unit + (value % unit > 0 ? 1 : 0)
  }

  private static func twoDigits(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
}
