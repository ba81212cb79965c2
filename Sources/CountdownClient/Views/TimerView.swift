/// The status of a timer.
public struct TimerView: EntityView {
  public static let kind = CountdownEvent.Kind.timer

  public enum State: String, Sendable { case idle, running, paused }

  /// The handling of missed periods.
  public enum Late: String, Sendable {
    /// The timer fires once, immediately, for the first period missed.
    case fire
    /// The timer fires again with the next period.
    case skip
    /// The timer fires once, immediately, for the newest period missed.
    case coalesce
  }

  /// The clock that a timer follows.
  public enum Clock: String, Sendable {
    /// The time since boot, including suspend.
    case boot
    /// The wall clock, which can be set.
    case wall
  }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// The time until the timer is due, rounded up to a millisecond.
  public var remainingTime: Duration { fields["remaining_ms"] ?? .zero }
  /// The period; nil if it fires once.
  public var every: Duration? { fields["every_ms"] }
  public var clock: Clock? { fields["clock"] }
  public var late: Late? { fields["late"] }
  /// How often the timer has fired.
  public var fired: Int { fields["fired"] ?? 0 }
  /// The number of missed periods.
  public var missed: Int { fields["missed"] ?? 0 }
  /// The payload of each `fired`; base64 if it is not UTF-8.
  public var payload: String? { fields["payload"] }
}
