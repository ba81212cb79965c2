/// The status of a countdown.
public struct CountdownView: EntityView {
  public static let kind = CountdownEvent.Kind.countdown

  public enum State: String, Sendable { case idle, counting, paused, ready }

  /// Why a request was refused, or accepted without effect.
  public enum Reason: String, Sendable {
    /// The key is in cooldown, or the countdown is paused.
    case cooldown
    /// A window of the policy is full.
    case window
    /// The policy has no channel left until its sends start over.
    case exhausted
    /// The request is a repetition: it was accepted before.
    case repeated
    /// This host alone accepted the request, because the servers of its fleet could not be reached.
    /// Other hosts may accept as well.
    case degraded
    /// The code is no longer valid.
    case expired
    /// The code was tried too often, or nothing is sent for a while because one was.
    case locked
    /// A limit that the policy names has no room; see `limit`.
    case limit
    /// Too few codes of such a limit were entered, so it refuses sends for a while.
    case blocked
    /// The code was used.
    case passed
  }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// Why the request was refused, or accepted without effect.
  public var reason: Reason? { fields["reason"] }
  /// The steps left: the number to show.
  public var remaining: Int { fields["remaining"] ?? 0 }
  /// The time until the key is ready, rounded up to a millisecond; zero only when ready or idle.
  public var remainingTime: Duration { fields["remaining_ms"] ?? .zero }
  /// The time until the daemon accepts the next start.
  public var retryAfter: Duration { fields["retry_after_ms"] ?? .zero }
  /// The number of steps at the start; 0 if the daemon did not send it.
  public var count: Int { fields["count"] ?? 0 }
  /// The length of a step; zero if the daemon did not send it.
  public var every: Duration { fields["every_ms"] ?? .zero }
  /// The title with the steps left, or the title when ready.
  public var title: String? { fields["title"] }
  /// The accepted sends since the key was new, or since its sends started over.
  public var sends: Int { fields["sends"] ?? 0 }
  /// The policy of the key; nil without one.
  public var policy: String? { fields["policy"] }
  /// The key of the limit that refuses the start; nil if none does.
  public var limit: String? { fields["limit"] }
  /// The sends that windows and channels still allow; nil if unlimited.
  public var sendsLeft: Int? { fields["sends_left"] }
  /// The channel of the newest send.
  public var channel: String? { fields["channel"] }
  /// The channel of the next send; nil without channels, or if none is left.
  public var nextChannel: String? { fields["next_channel"] }
  /// The remaining validity of the newest code; nil if it is not valid.
  public var expiresIn: Duration? { fields["expires_in_ms"] }
  /// The attempts left for the newest code; nil if it is not valid, or attempts are unlimited.
  public var attemptsLeft: Int? { fields["attempts_left"] }
  /// The `meta` of the start; base64 if it is not UTF-8.
  public var meta: String? { fields["meta"] }
}
