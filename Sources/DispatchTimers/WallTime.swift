/// A moment of the wall clock, in Unix time.
///
///     WallTime(Date())                                            // a Foundation `Date`
///     WallTime.now.advanced(by: .seconds(60))
///
/// Exact to an attosecond, and without a time zone. Unix time does not count leap seconds.
public struct WallTime: InstantProtocol {
  /// The time since 1970-01-01 00:00 UTC; negative before that.
  public var since1970: Duration

  /// Creates the moment this long after 1970-01-01 00:00 UTC.
  public init(since1970: Duration) { self.since1970 = since1970 }

  /// Creates a moment from seconds, as Foundation, C and many protocols represent it.
  ///
  /// - Parameter seconds: since 1970-01-01 00:00 UTC. In this century, a `Double` is accurate to a
  ///   quarter of a microsecond.
  ///   - Precondition: finite, and within 2⁶³ seconds of 1970.
  public init(secondsSince1970 seconds: Double) {
    // Whole seconds are converted separately: in attoseconds, a `Double` would lose precision.
    let whole = seconds.rounded(.down)
    guard let count = Int64(exactly: whole) else {
      preconditionFailure("a wall time must be a finite number of seconds, within 2⁶³ of 1970")
    }
    let rest = Int64((seconds - whole) * 1e18)
    since1970 = Duration(secondsComponent: count, attosecondsComponent: rest)
  }

  /// The present.
  public static var now: WallTime {
    let nanoseconds = WallClock.nanoseconds
    return WallTime(
      since1970: Duration(
        secondsComponent: Int64(nanoseconds / 1_000_000_000),
        attosecondsComponent: Int64(nanoseconds % 1_000_000_000) * 1_000_000_000))
  }

  public func advanced(by duration: Duration) -> WallTime {
    WallTime(since1970: since1970 + duration)
  }

  public func duration(to other: WallTime) -> Duration { other.since1970 - since1970 }

  public static func < (lhs: WallTime, rhs: WallTime) -> Bool { lhs.since1970 < rhs.since1970 }
}
