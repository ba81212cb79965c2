/// An explanation of the state of a countdown, and of why START and ATTEMPT would be refused.
public struct CountdownExplanation: EntityView {
  public static let kind = CountdownEvent.Kind.countdown

  public typealias State = CountdownView.State

  /// The status of the newest code.
  public enum Code: String, Sendable { case valid, locked, passed, expired }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// The state, and why START would be refused, in one sentence.
  public var why: String { fields["why"] ?? "" }
  /// Why START would be refused; nil if it would be accepted.
  public var reason: CountdownView.Reason? { fields["reason"] }
  /// The time until the daemon accepts the next start.
  public var retryAfter: Duration { fields["retry_after_ms"] ?? .zero }
  /// How full each window of the policy is, and how many channels are used, in words.
  public var limits: [String] { fields["limits"] ?? [] }
  /// The status of the newest code; nil if codes are not tracked.
  public var code: Code? { fields["code"] }
  /// Why ATTEMPT would be refused, or how long the code is valid; nil if codes are not tracked.
  public var codeWhy: String? { fields["code_why"] }
}
