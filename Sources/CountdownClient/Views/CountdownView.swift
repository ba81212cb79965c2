/// The status of a countdown.
public struct CountdownView: EntityView {
  public static let kind = CountdownEvent.Kind.countdown

  public enum State: String, Sendable { case idle, counting, paused, ready }

  /// Why a request was refused, or accepted without effect.
  public enum Reason: String, Sendable {
    /// The cooldown after the last send runs.
    case cooldown
    /// A window of the policy holds as many sends as it allows.
    case window
    /// The policy has no channel left until its sends start over.
    case exhausted
    /// The daemon has done this before.
    case duplicate
    /// The code is no longer valid.
    case expired
    /// The code was tried too often.
    case locked
    /// The code was used.
    case passed
  }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// Why the daemon refused the request, or had done it before.
  public var reason: Reason? { fields["reason"] }
  /// The steps left: the number to show.
  public var remaining: Int { fields["remaining"] ?? 0 }
  /// The time until it is ready, rounded up to a millisecond; zero only when ready or idle.
  public var remainingTime: Duration { fields["remaining_ms"] ?? .zero }
  /// The time until the daemon accepts the next start.
  public var retryAfter: Duration { fields["retry_after_ms"] ?? .zero }
  /// The number of steps it was started with; 0 where the daemon did not send it.
  public var count: Int { fields["count"] ?? 0 }
  /// The length of a step; zero where the daemon did not send it.
  public var every: Duration { fields["every_ms"] ?? .zero }
  /// The title with the steps left, or the title for ready.
  public var title: String? { fields["title"] }
  /// The sends since the key was new, or since they started over by the policy.
  public var sends: Int { fields["sends"] ?? 0 }
  /// The policy it was started with.
  public var policy: String? { fields["policy"] }
  /// How many more sends windows and channels allow now; nil where nothing limits them.
  public var sendsLeft: Int? { fields["sends_left"] }
  /// The channel of the newest send.
  public var channel: String? { fields["channel"] }
  /// The channel of the next send; nil also when there is none.
  public var nextChannel: String? { fields["next_channel"] }
  /// The validity left of the newest code; nil when it has none.
  public var expiresIn: Duration? { fields["expires_in_ms"] }
  /// The attempts left for the newest code; nil when it is not valid, or without limit.
  public var attemptsLeft: Int? { fields["attempts_left"] }
  /// The bytes that were stored with it; base64 if they are not UTF-8.
  public var meta: String? { fields["meta"] }
}
