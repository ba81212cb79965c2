/// The status of a timer.
public struct TimerView: EntityView {
  public static let kind = CountdownEvent.Kind.timer

  public enum State: String, Sendable { case idle, running, paused }

  /// What becomes of periods that were missed.
  public enum Late: String, Sendable {
    /// The timer fires once, at once, for the first period missed.
    case fire
    /// The timer fires again with the next period.
    case skip
    /// The timer fires once, at once, for the newest period missed.
    case coalesce
  }

  /// The clock that a timer follows.
  public enum Clock: String, Sendable {
    /// The time since boot, suspend included.
    case boot
    /// The wall clock, when it is set too.
    case wall
  }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// The time until it is due, rounded up to a millisecond.
  public var remainingTime: Duration { fields["remaining_ms"] ?? .zero }
  /// The period; nil if it fires once.
  public var every: Duration? { fields["every_ms"] }
  public var clock: Clock? { fields["clock"] }
  public var late: Late? { fields["late"] }
  /// How often it has fired.
  public var fired: Int { fields["fired"] ?? 0 }
  /// The periods that were missed.
  public var missed: Int { fields["missed"] ?? 0 }
  /// The bytes that come with each `fired`; base64 if they are not UTF-8.
  public var payload: String? { fields["payload"] }
}
