/// How a rate limit stands.
public struct ThrottleView: Sendable, Hashable {
  public enum State: String, Sendable, Hashable { case idle, available, exhausted }

  public let key: String
  public let state: State
  /// 0 while nothing of it is used.
  public let generation: Int
  /// Whether it may be done now; nil but in replies to what can be refused.
  public let accepted: Bool?
  /// `rate` where it was refused.
  public let reason: String?
  /// BURST.
  public let limit: Int
  public let remaining: Int
  /// When a request would be accepted; zero where it is.
  public let retryAfter: Duration
  /// When all of BURST is there again.
  public let resetAfter: Duration
  public let nowUnixMS: Int?
  /// RATE: so many in each period.
  public let rateCount: Int
  public let ratePeriod: Duration

  /// Reads a view from a reply or an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` without `key` and a known `state`.
  public init(_ fields: JSONValue) throws(CountdownClientError) {
    key = try fields.text("key")
    state = try fields.state()
    generation = fields["generation"]?.int ?? 0
    accepted = fields["accepted"]?.bool
    reason = fields["reason"]?.string
    limit = fields["limit"]?.int ?? 0
    remaining = fields["remaining"]?.int ?? 0
    retryAfter = fields.milliseconds("retry_after_ms") ?? .zero
    resetAfter = fields.milliseconds("reset_after_ms") ?? .zero
    nowUnixMS = fields["now_unix_ms"]?.int
    rateCount = fields["rate_count"]?.int ?? 0
    ratePeriod = fields.milliseconds("rate_ms") ?? .zero
  }
}

/// How far something that is done once is.
public struct OnceView: Sendable, Hashable {
  public enum State: String, Sendable, Hashable { case idle, running, done }

  public let key: String
  public let state: State
  public let generation: Int
  /// Whether it was the first; nil but in replies to what can be refused.
  public let accepted: Bool?
  /// `duplicate` where it was not.
  public let reason: String?
  /// Of the first; base64 if it is no text, and nil while it runs.
  public let result: String?
  /// Until it is forgotten, rounded up to a millisecond.
  public let remainingTime: Duration
  public let deadlineUnixMS: Int?
  public let nowUnixMS: Int?
  public let owner: String?

  /// Reads a view from a reply or an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` without `key` and a known `state`.
  public init(_ fields: JSONValue) throws(CountdownClientError) {
    key = try fields.text("key")
    state = try fields.state()
    generation = fields["generation"]?.int ?? 0
    accepted = fields["accepted"]?.bool
    reason = fields["reason"]?.string
    result = fields["result"]?.string ?? fields["result_base64"]?.string
    remainingTime = fields.milliseconds("remaining_ms") ?? .zero
    deadlineUnixMS = fields["deadline_unix_ms"]?.int
    nowUnixMS = fields["now_unix_ms"]?.int
    owner = fields["owner"]?.string
  }
}

/// How a session's gate stands.
public struct GateView: Sendable, Hashable {
  public enum State: String, Sendable, Hashable { case closed, pending, open }

  /// The session.
  public let key: String
  public let state: State
  public let generation: Int
  /// Whether the action may run now; nil but in replies to what can be refused.
  public let accepted: Bool?
  /// `login` where it may not.
  public let reason: String?
  /// What waits for the session to open; of the event `run`, what is to be run.
  public let action: String?
  public let payload: String?
  /// Until it closes, or drops what waits; nil while it is open for good.
  public let remainingTime: Duration?
  public let deadlineUnixMS: Int?
  public let nowUnixMS: Int?
  public let owner: String?

  /// Reads a view from a reply or an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` without `key` and a known `state`.
  public init(_ fields: JSONValue) throws(CountdownClientError) {
    key = try fields.text("key")
    state = try fields.state()
    generation = fields["generation"]?.int ?? 0
    accepted = fields["accepted"]?.bool
    reason = fields["reason"]?.string
    action = fields["action"]?.string ?? fields["action_base64"]?.string
    payload = fields["payload"]?.string ?? fields["payload_base64"]?.string
    remainingTime = fields.milliseconds("remaining_ms")
    deadlineUnixMS = fields["deadline_unix_ms"]?.int
    nowUnixMS = fields["now_unix_ms"]?.int
    owner = fields["owner"]?.string
  }
}

/// How debounced calls stand.
public struct DebounceView: Sendable, Hashable {
  public enum State: String, Sendable, Hashable { case idle, waiting, resting }

  public let key: String
  public let state: State
  public let generation: Int
  /// That nobody has been told of; of the event `fired`, those it stands for.
  public let calls: Int
  /// Until it fires, or has been quiet, rounded up to a millisecond.
  public let remainingTime: Duration
  public let deadlineUnixMS: Int?
  public let nowUnixMS: Int?
  public let quiet: Duration
  public let maximumWait: Duration?
  public let isLeading: Bool
  public let owner: String?
  /// Of the newest call.
  public let payload: String?

  /// Reads a view from a reply or an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` without `key` and a known `state`.
  public init(_ fields: JSONValue) throws(CountdownClientError) {
    key = try fields.text("key")
    state = try fields.state()
    generation = fields["generation"]?.int ?? 0
    calls = fields["calls"]?.int ?? 0
    remainingTime = fields.milliseconds("remaining_ms") ?? .zero
    deadlineUnixMS = fields["deadline_unix_ms"]?.int
    nowUnixMS = fields["now_unix_ms"]?.int
    quiet = fields.milliseconds("quiet_ms") ?? .zero
    maximumWait = fields.milliseconds("max_wait_ms")
    isLeading = fields["leading"]?.bool ?? false
    owner = fields["owner"]?.string
    payload = fields["payload"]?.string ?? fields["payload_base64"]?.string
  }
}

extension CountdownEvent {
  /// The rate limit as it is after the event.
  public var throttle: ThrottleView? { kind == .throttle ? try? ThrottleView(fields) : nil }

  /// What is done once, as it is after the event.
  public var once: OnceView? { kind == .once ? try? OnceView(fields) : nil }

  /// The session's gate as it is after the event.
  public var gate: GateView? { kind == .gate ? try? GateView(fields) : nil }

  /// The debounced calls as they are after the event.
  public var debounce: DebounceView? { kind == .debounce ? try? DebounceView(fields) : nil }
}
