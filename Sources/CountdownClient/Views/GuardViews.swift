/// The status of a rate limit.
public struct ThrottleView: EntityView {
  public static let kind = CountdownEvent.Kind.throttle

  public enum State: String, Sendable { case idle, available, exhausted }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// `rate` where the daemon refused the request.
  public var reason: String? { fields["reason"] }
  /// The most that can be used at once: `BURST`.
  public var limit: Int { fields["limit"] ?? 0 }
  public var remaining: Int { fields["remaining"] ?? 0 }
  /// The time until the daemon accepts this request; zero where it does now.
  public var retryAfter: Duration { fields["retry_after_ms"] ?? .zero }
  /// The time until the whole limit is there again.
  public var resetAfter: Duration { fields["reset_after_ms"] ?? .zero }
  /// How much comes back in each `ratePeriod`.
  public var rateCount: Int { fields["rate_count"] ?? 0 }
  public var ratePeriod: Duration { fields["rate_ms"] ?? .zero }
}

/// The status of something that runs at most once.
public struct OnceView: EntityView {
  public static let kind = CountdownEvent.Kind.once

  public enum State: String, Sendable { case idle, running, done }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// `duplicate` where this was not the first request.
  public var reason: String? { fields["reason"] }
  /// The result of the first request, base64 if it is not UTF-8; nil while it runs.
  public var result: String? { fields["result"] }
  /// The time until the daemon forgets it, rounded up to a millisecond.
  public var remainingTime: Duration { fields["remaining_ms"] ?? .zero }
}

/// The status of a gate; its `key` is the session.
public struct GateView: EntityView {
  public static let kind = CountdownEvent.Kind.gate

  public enum State: String, Sendable { case closed, pending, open }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// `login` where the action has to wait; `taken` or `no-action` where there is none to take.
  public var reason: String? { fields["reason"] }
  /// The action that waits for the session to open; of an open session, the action to run.
  public var action: String? { fields["action"] }
  /// Whether a client runs the action.
  public var isTaken: Bool { fields["taken"] ?? false }
  /// The bytes that belong to the action; base64 if they are not UTF-8.
  public var payload: String? { fields["payload"] }
  /// The time until it closes, or drops the action that waits; nil while it is open for good.
  public var remainingTime: Duration? { fields["remaining_ms"] }
}

/// The status of a debouncer.
public struct DebounceView: EntityView {
  public static let kind = CountdownEvent.Kind.debounce

  public enum State: String, Sendable { case idle, waiting, resting }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// The calls that have not fired; in the event `fired`, the calls that it stands for.
  public var calls: Int { fields["calls"] ?? 0 }
  /// The time until it fires, or has been quiet, rounded up to a millisecond.
  public var remainingTime: Duration { fields["remaining_ms"] ?? .zero }
  public var quiet: Duration { fields["quiet_ms"] ?? .zero }
  public var maximumWait: Duration? { fields["max_wait_ms"] }
  /// Whether the first call fires at once.
  public var isLeading: Bool { fields["leading"] ?? false }
  /// The bytes of the newest call; base64 if they are not UTF-8.
  public var payload: String? { fields["payload"] }
}
