/// The status of a rate limit.
public struct ThrottleView: EntityView {
  public static let kind = CountdownEvent.Kind.throttle

  public enum State: String, Sendable { case idle, available, exhausted, blocked }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// `rate` if the daemon refused the request, `repeated` if it had accepted it before.
  public var reason: String? { fields["reason"] }
  /// The maximum that can be used at once: `BURST`.
  public var limit: Int { fields["limit"] ?? 0 }
  public var remaining: Int { fields["remaining"] ?? 0 }
  /// The time until the daemon accepts this request; zero if it does now.
  public var retryAfter: Duration { fields["retry_after_ms"] ?? .zero }
  /// The time until the whole limit is available again.
  public var resetAfter: Duration { fields["reset_after_ms"] ?? .zero }
  /// The amount that comes back in each `ratePeriod`.
  public var rateCount: Int { fields["rate_count"] ?? 0 }
  public var ratePeriod: Duration { fields["rate_ms"] ?? .zero }
}

/// The status of a request that runs at most once.
public struct OnceView: EntityView {
  public static let kind = CountdownEvent.Kind.once

  public enum State: String, Sendable { case idle, running, done }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// `duplicate` if this was not the first request, `repeated` if it was, and its token again.
  public var reason: String? { fields["reason"] }
  /// The result of the first request, base64 if it is not UTF-8; nil while it runs.
  public var result: String? { fields["result"] }
  /// The time until the daemon forgets the request, rounded up to a millisecond.
  public var remainingTime: Duration { fields["remaining_ms"] ?? .zero }
}

/// The status of a gate; its `key` is the session.
public struct GateView: EntityView {
  public static let kind = CountdownEvent.Kind.gate

  public enum State: String, Sendable { case closed, pending, open }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// `login` if the action has to wait; `taken` or `no-action` if there is none to take.
  public var reason: String? { fields["reason"] }
  /// The pending action, or in an open session the action to run.
  public var action: String? { fields["action"] }
  /// Whether a client runs the action.
  public var isTaken: Bool { fields["taken"] ?? false }
  /// The payload of the action; base64 if it is not UTF-8.
  public var payload: String? { fields["payload"] }
  /// The time until the session closes or the pending action is dropped; nil without a limit.
  public var remainingTime: Duration? { fields["remaining_ms"] }
}

/// The status of a debouncer.
public struct DebounceView: EntityView {
  public static let kind = CountdownEvent.Kind.debounce

  public enum State: String, Sendable { case idle, waiting, resting }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// `repeated` if the daemon had accepted the call before.
  public var reason: String? { fields["reason"] }
  /// The calls that no event has reported yet; in the event `fired`, those that it reports.
  public var calls: Int { fields["calls"] ?? 0 }
  /// The time until it fires, or the burst is over, rounded up to a millisecond.
  public var remainingTime: Duration { fields["remaining_ms"] ?? .zero }
  public var quiet: Duration { fields["quiet_ms"] ?? .zero }
  public var maximumWait: Duration? { fields["max_wait_ms"] }
  /// Whether the first call fires at once.
  public var isLeading: Bool { fields["leading"] ?? false }
  /// The payload of the newest call; base64 if it is not UTF-8.
  public var payload: String? { fields["payload"] }
}
