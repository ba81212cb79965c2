import Wire

/// One thing that happened to a countdown, a HUD, a timer, a guard, a scope, a stack or a page.
public struct CountdownEvent: Sendable, Hashable {
  /// What it happened to.
  public enum Kind: String, Sendable, Hashable, CaseIterable {
    case countdown, hud, timer, scope
    case throttle, once, gate, debounce
    case nav, page
    /// The connection that the events come by; such events are made by the client itself.
    case connection
  }

  /// What happened, as the protocol calls it. Open: a newer daemon may have more.
  public struct Name: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }
    public var description: String { rawValue }

    /// How things stand, told first and again after each reconnection.
    public static let snapshot = Name(rawValue: "snapshot")
    public static let started = Name(rawValue: "started")
    public static let tick = Name(rawValue: "tick")
    public static let ready = Name(rawValue: "ready")
    public static let refused = Name(rawValue: "refused")
    public static let paused = Name(rawValue: "paused")
    public static let resumed = Name(rawValue: "resumed")
    public static let retimed = Name(rawValue: "retimed")
    public static let cancelled = Name(rawValue: "cancelled")
    public static let refunded = Name(rawValue: "refunded")
    /// A code's validity is over.
    public static let expired = Name(rawValue: "expired")
    /// A code was tried as often as it may be.
    public static let locked = Name(rawValue: "locked")
    /// A code was right.
    public static let passed = Name(rawValue: "passed")
    public static let willAppear = Name(rawValue: "will-appear")
    public static let didAppear = Name(rawValue: "did-appear")
    public static let updated = Name(rawValue: "updated")
    public static let touched = Name(rawValue: "touched")
    public static let willDisappear = Name(rawValue: "will-disappear")
    public static let didDisappear = Name(rawValue: "did-disappear")
    public static let set = Name(rawValue: "set")
    public static let fired = Name(rawValue: "fired")
    public static let accepted = Name(rawValue: "accepted")
    public static let done = Name(rawValue: "done")
    /// An action waits for its session to open.
    public static let pending = Name(rawValue: "pending")
    /// The action that waited is to be run, now and once.
    public static let run = Name(rawValue: "run")
    /// The action that waited is not going to be run; or a stack has no page left.
    public static let dismissed = Name(rawValue: "dismissed")
    public static let opened = Name(rawValue: "opened")
    public static let closed = Name(rawValue: "closed")
    public static let swiping = Name(rawValue: "swiping")
    public static let progress = Name(rawValue: "progress")
    public static let finished = Name(rawValue: "finished")
    public static let loading = Name(rawValue: "loading")
    public static let loaded = Name(rawValue: "loaded")
    public static let failed = Name(rawValue: "failed")
    /// An event of the clients' own, which this client handles.
    public static let emitted = Name(rawValue: "emitted")
    /// The connection was lost; the client tries again by itself.
    public static let disconnected = Name(rawValue: "disconnected")
    /// The connection is back. What was missed follows, then snapshots; what a pattern no longer
    /// matches gets none.
    public static let resubscribed = Name(rawValue: "resubscribed")
    /// Comes after `resubscribed` when not all that was missed is still known: what follows may
    /// have a gap before it. The snapshots are right nevertheless.
    public static let gap = Name(rawValue: "gap")
  }

  /// The channel it came by, `countdown:KEY`.
  public let channel: String
  public let kind: Kind
  public let name: Name
  /// The part of the channel after the first colon.
  public let key: String
  public let generation: Int?
  /// Rises across the whole daemon, with gaps.
  public let seq: Int?
  /// When it was due, in milliseconds since 1970; nil for what a command did.
  public let dueUnixMS: Int?
  /// How much later than due it was published; nil for what a command did.
  public let lateMicroseconds: Int?
  /// All of it: the fields of the view, and whatever else the daemon said.
  public let fields: JSONValue

  /// The countdown as it is after the event, where the event says so.
  public var countdown: CountdownView? {
    kind == .countdown ? try? CountdownView(fields) : nil
  }

  /// The HUD as it is after the event, where the event says so.
  public var hud: HUDView? { kind == .hud ? try? HUDView(fields) : nil }

  /// The timer as it is after the event, where the event says so.
  public var timer: TimerView? { kind == .timer ? try? TimerView(fields) : nil }

  /// The scope as it is after the event, where the event says so.
  public var scope: ScopeView? {
    kind == .scope && name != .emitted ? try? ScopeView(fields) : nil
  }

  /// The navigation stack as it is after the event.
  public var navigation: NavigationView? {
    kind == .nav ? try? NavigationView(fields) : nil
  }

  /// The page as it is after the event.
  public var page: PageView? { kind == .page ? try? PageView(fields) : nil }

  /// Reads a message of a channel.
  ///
  /// - Throws: `CountdownClientError.protocolViolation`
  public init(channel: String, message: some Collection<UInt8>) throws(CountdownClientError) {
    let fields: JSONValue
    do {
      fields = try JSONValue(parsing: message)
    } catch {
      throw .protocolViolation("\(error.reason) at byte \(error.offset) of an event")
    }
    guard let name = fields["event"]?.string else {
      throw .protocolViolation("an event without a name on \(channel)")
    }
    let parts = channel.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, let kind = Kind(rawValue: String(parts[0])), kind != .connection else {
      throw .protocolViolation("a channel of no kind: \(channel)")
    }
    self.channel = channel
    self.kind = kind
    self.name = Name(rawValue: name)
    self.key = String(parts[1])
    self.generation = fields["generation"]?.int
    self.seq = fields["seq"]?.int
    self.dueUnixMS = fields["due_unix_ms"]?.int
    self.lateMicroseconds = fields["late_us"]?.int
    self.fields = fields
  }

  /// Something the client has to say about the connection.
  init(connection name: Name) {
    channel = ""
    kind = .connection
    self.name = name
    key = ""
    generation = nil
    seq = nil
    dueUnixMS = nil
    lateMicroseconds = nil
    fields = .object([.init("event", .string(name.rawValue))])
  }

  /// The event in a push, nil for a push that is none (the answers to `SUBSCRIBE`).
  init?(push: [RESPValue]) throws(CountdownClientError) {
    let message: ArraySlice<RESPValue>
    switch push.first?.string {
    case "message": message = push.dropFirst()
    case "pmessage": message = push.dropFirst(2)
    default: return nil
    }
    guard message.count == 2, let channel = message.first?.string, let text = message.last?.bytes
    else { throw .protocolViolation("a message of another shape") }
    // A newer daemon may have things of more kinds, which a pattern can match.
    guard Kind.allCases.contains(where: { channel.hasPrefix($0.rawValue + ":") }) else {
      return nil
    }
    try self.init(channel: channel, message: text)
  }
}
