/// Why a countdown is as it is, and why START and ATTEMPT are refused.
public struct CountdownExplanation: EntityView {
  public static let kind = CountdownEvent.Kind.countdown

  public typealias State = CountdownView.State

  /// What is true of the newest code.
  public enum Code: String, Sendable { case valid, locked, passed, expired }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// The state, and what START is refused for, in one sentence.
  public var why: String { fields["why"] ?? "" }
  /// Why START is refused; nil if it is accepted.
  public var reason: CountdownView.Reason? { fields["reason"] }
  /// The time until the daemon accepts the next start.
  public var retryAfter: Duration { fields["retry_after_ms"] ?? .zero }
  /// How full each window of the policy is, and how many channels are used, in words.
  public var limits: [String] { fields["limits"] ?? [] }
  /// The status of the newest code; nil where codes are not tracked.
  public var code: Code? { fields["code"] }
  /// What ATTEMPT is refused for, or what is left of the code.
  public var codeWhy: String? { fields["code_why"] }
}
