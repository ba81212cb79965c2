import Wire

/// How a countdown stands.
public struct CountdownView: Sendable, Hashable {
  public enum State: String, Sendable, Hashable { case idle, counting, paused, ready }

  public enum Reason: String, Sendable, Hashable {
    /// The cooldown after the last send runs.
    case cooldown
    /// A window of the policy holds as many sends as it allows.
    case window
    /// No channel of the policy is left until sends start over.
    case exhausted
    /// It was done before.
    case duplicate
    /// The code is not good any more.
    case expired
    /// The code was tried as often as it may be.
    case locked
    /// The code was right before.
    case passed
  }

  public let key: String
  public let state: State
  /// New at each start, rising across the whole daemon; 0 while idle.
  public let generation: Int
  /// Whether what was asked for was done, to START and RESEND: whether a code may be sent now; nil
  /// but in replies to what can be refused.
  public let accepted: Bool?
  /// Why it was refused, or accepted again.
  public let reason: Reason?
  /// Steps left: the number to show.
  public let remaining: Int
  /// Until ready, rounded up to a millisecond: zero only when nothing is pending.
  public let remainingTime: Duration
  /// When START would be accepted.
  public let retryAfter: Duration
  /// When it is or was ready, in milliseconds since 1970; nil while paused.
  public let deadlineUnixMS: Int?
  /// The daemon's clock, in milliseconds since 1970.
  public let nowUnixMS: Int?
  /// Steps as started; 0 where it is not said.
  public let count: Int
  /// The length of a step; zero where it is not said.
  public let every: Duration
  /// The title with the steps left, or the one when ready.
  public let title: String?
  /// Accepted STARTs and RESENDs since the key was new, or since sends started over by its policy.
  public let sends: Int
  /// The policy it was started with; nil if none, and then so is what follows.
  public let policy: String?
  /// How many more sends windows and channels allow as of now; nil where nothing limits them.
  public let sendsLeft: Int?
  /// What the newest send goes over.
  public let channel: String?
  /// What the next one will go over; nil also when there is none.
  public let nextChannel: String?
  /// For how long the newest code is good; nil when it is not.
  public let expiresIn: Duration?
  /// How often the newest code may still be tried; nil when it is not good, or without limit.
  public let attemptsLeft: Int?
  /// `none` or `connection:ID`.
  public let owner: String?
  public let meta: String?

  /// Reads a view from a reply or an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` without `key` and a known `state`.
  public init(_ fields: JSONValue) throws(CountdownClientError) {
    key = try fields.text("key")
    state = try fields.state()
    generation = fields["generation"]?.int ?? 0
    accepted = fields["accepted"]?.bool
    reason = fields["reason"]?.string.flatMap { Reason(rawValue: $0) }
    remaining = fields["remaining"]?.int ?? 0
    remainingTime = fields.milliseconds("remaining_ms") ?? .zero
    retryAfter = fields.milliseconds("retry_after_ms") ?? .zero
    deadlineUnixMS = fields["deadline_unix_ms"]?.int
    nowUnixMS = fields["now_unix_ms"]?.int
    count = fields["count"]?.int ?? 0
    every = fields.milliseconds("every_ms") ?? .zero
    title = fields["title"]?.string
    sends = fields["sends"]?.int ?? 0
    policy = fields["policy"]?.string
    sendsLeft = fields["sends_left"]?.int
    channel = fields["channel"]?.string
    nextChannel = fields["next_channel"]?.string
    expiresIn = fields.milliseconds("expires_in_ms")
    attemptsLeft = fields["attempts_left"]?.int
    owner = fields["owner"]?.string
    meta = fields["meta"]?.string ?? fields["meta_base64"]?.string
  }
}

/// How a HUD stands.
public struct HUDView: Sendable, Hashable {
  public enum State: String, Sendable, Hashable {
    case hidden, waiting, appearing, visible, disappearing
  }

  /// The screen.
  public let key: String
  public let state: State
  public let generation: Int
  public let level: String?
  public let kind: String?
  public let status: String?
  public let mask: String?
  /// From 0 to 1; nil unless told.
  public let fraction: Double?
  public let leases: Int
  /// A dismissal is held, delayed or under way.
  public let isDismissing: Bool
  public let isPaused: Bool
  /// Until it begins to disappear, as far as is known now.
  public let remainingTime: Duration?
  /// The same as a time, in milliseconds since 1970.
  public let deadlineUnixMS: Int?
  public let nowUnixMS: Int?
  /// Why it is over: `dismissed`, `timed-out`, `tapped`, …; nil while it is not.
  public let end: String?
  public let owner: String?
  /// Whether it outlives the daemon.
  public let isDurable: Bool

  /// Reads a view from a reply or an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` without `key` and a known `state`.
  public init(_ fields: JSONValue) throws(CountdownClientError) {
    key = try fields.text("key")
    state = try fields.state()
    generation = fields["generation"]?.int ?? 0
    level = fields["level"]?.string
    kind = fields["kind"]?.string
    status = fields["status"]?.string
    mask = fields["mask"]?.string
    fraction = fields["fraction"]?.double
    leases = fields["leases"]?.int ?? 0
    isDismissing = fields["dismissing"]?.bool ?? false
    isPaused = fields["paused"]?.bool ?? false
    remainingTime = fields.milliseconds("remaining_ms")
    deadlineUnixMS = fields["deadline_unix_ms"]?.int
    nowUnixMS = fields["now_unix_ms"]?.int
    end = fields["end"]?.string
    owner = fields["owner"]?.string
    isDurable = fields["durable"]?.bool ?? false
  }
}

/// How a timer stands.
public struct TimerView: Sendable, Hashable {
  public enum State: String, Sendable, Hashable { case idle, running, paused }

  public let key: String
  public let state: State
  public let generation: Int
  /// Until it is due, rounded up to a millisecond.
  public let remainingTime: Duration
  /// When it is due, in milliseconds since 1970; nil while paused.
  public let deadlineUnixMS: Int?
  public let nowUnixMS: Int?
  /// The period; nil if it fires once.
  public let every: Duration?
  /// `boot` or `wall`.
  public let clock: String?
  /// `fire`, `skip` or `coalesce`.
  public let late: String?
  /// How often it has fired.
  public let fired: Int
  /// Periods that were missed.
  public let missed: Int
  public let owner: String?
  public let payload: String?

  /// Reads a view from a reply or an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` without `key` and a known `state`.
  public init(_ fields: JSONValue) throws(CountdownClientError) {
    key = try fields.text("key")
    state = try fields.state()
    generation = fields["generation"]?.int ?? 0
    remainingTime = fields.milliseconds("remaining_ms") ?? .zero
    deadlineUnixMS = fields["deadline_unix_ms"]?.int
    nowUnixMS = fields["now_unix_ms"]?.int
    every = fields.milliseconds("every_ms")
    clock = fields["clock"]?.string
    late = fields["late"]?.string
    fired = fields["fired"]?.int ?? 0
    missed = fields["missed"]?.int ?? 0
    owner = fields["owner"]?.string
    payload = fields["payload"]?.string ?? fields["payload_base64"]?.string
  }
}

/// How a scope stands.
public struct ScopeView: Sendable, Hashable {
  public enum State: String, Sendable, Hashable { case open, closed }

  public let key: String
  public let state: State
  public let generation: Int
  /// Where events go on to; nil at the top.
  public let parent: String?
  /// 1 at the top.
  public let depth: Int
  public let children: Int
  /// How much it owns, other scopes apart.
  public let owned: Int
  /// How many events are handled at it.
  public let handlers: Int
  /// The length of its lease; nil without one.
  public let ttl: Duration?
  /// Until its lease is over.
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
    parent = fields["parent"]?.string ?? fields["parent_base64"]?.string
    depth = fields["depth"]?.int ?? 0
    children = fields["children"]?.int ?? 0
    owned = fields["owned"]?.int ?? 0
    handlers = fields["handlers"]?.int ?? 0
    ttl = fields.milliseconds("ttl_ms")
    remainingTime = fields.milliseconds("remaining_ms")
    deadlineUnixMS = fields["deadline_unix_ms"]?.int
    nowUnixMS = fields["now_unix_ms"]?.int
    owner = fields["owner"]?.string
  }
}

extension JSONValue {
  /// A text, or the base64 of bytes that are none.
  func text(_ name: String) throws(CountdownClientError) -> String {
    guard let text = self[name]?.string ?? self[name + "_base64"]?.string else {
      throw .protocolViolation("a view without \(name)")
    }
    return text
  }

  func state<State: RawRepresentable<String>>() throws(CountdownClientError) -> State {
    let text = try text("state")
    guard let state = State(rawValue: text) else {
      throw .protocolViolation("a state unknown to this client: \(text)")
    }
    return state
  }

  func milliseconds(_ name: String) -> Duration? {
    self[name]?.int.map { Duration.milliseconds($0) }
  }
}
