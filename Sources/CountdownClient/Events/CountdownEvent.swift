import Wire

/// An event of a countdown, HUD, timer or other entity, or of the connection.
public struct CountdownEvent: Sendable, Hashable {
  /// The kind of entity.
  public enum Kind: String, Sendable, CaseIterable {
    case countdown, hud, timer, scope
    case throttle, once, gate, debounce
    case navigation = "nav"
    case page
    /// The connection of the sequence. The client itself creates these events.
    case connection
  }

  /// The event's name in the protocol. A newer daemon may send names not listed here.
  public struct Name: RawRepresentable, Sendable, Hashable, ExpressibleByStringLiteral,
    CustomStringConvertible
  {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }
    public init(stringLiteral value: String) { rawValue = value }
    public var description: String { rawValue }

    /// The current state: the first event of each channel, repeated after each reconnection.
    public static let snapshot: Name = "snapshot"
    public static let started: Name = "started"
    public static let tick: Name = "tick"
    public static let ready: Name = "ready"
    public static let refused: Name = "refused"
    public static let paused: Name = "paused"
    public static let resumed: Name = "resumed"
    public static let retimed: Name = "retimed"
    public static let cancelled: Name = "cancelled"
    public static let refunded: Name = "refunded"
    /// A code is no longer valid.
    public static let expired: Name = "expired"
    /// A code was tried too often.
    public static let locked: Name = "locked"
    /// A code was used.
    public static let passed: Name = "passed"
    public static let willAppear: Name = "will-appear"
    public static let didAppear: Name = "did-appear"
    public static let updated: Name = "updated"
    public static let touched: Name = "touched"
    public static let willDisappear: Name = "will-disappear"
    public static let didDisappear: Name = "did-disappear"
    public static let set: Name = "set"
    public static let fired: Name = "fired"
    public static let accepted: Name = "accepted"
    public static let done: Name = "done"
    /// An action is pending until its session opens.
    public static let pending: Name = "pending"
    /// The pending action is ready to run: one client takes it.
    public static let run: Name = "run"
    /// A client has taken the action.
    public static let taken: Name = "taken"
    /// The action was dropped, or a navigation stack has no page left.
    public static let dismissed: Name = "dismissed"
    public static let opened: Name = "opened"
    public static let closed: Name = "closed"
    public static let swiping: Name = "swiping"
    public static let progress: Name = "progress"
    public static let finished: Name = "finished"
    public static let loading: Name = "loading"
    public static let loaded: Name = "loaded"
    public static let failed: Name = "failed"
    /// A client emitted an event that this client handles: see `emission`.
    public static let emitted: Name = "emitted"
    /// The connection was lost; the client reconnects by itself.
    public static let disconnected: Name = "disconnected"
    /// The client has reconnected. Missed events follow, then snapshots. An entity that matches a
    /// pattern but gets no snapshot has ended.
    public static let resubscribed: Name = "resubscribed"
    /// Follows `resubscribed` if the event log does not have all missed events.
    public static let gap: Name = "gap"
  }

  /// The channel, such as `countdown:KEY`; empty for events of the connection.
  public let channel: String
  public let kind: Kind
  public let name: Name
  /// The part of the channel after the first colon.
  public let key: String
  /// The event as the daemon sent it: a JSON object.
  public let json: String
  /// All fields of the event under their protocol names, as a map.
  public let fields: RESPValue

  public var generation: Int? { fields.field("generation") }
  /// The sequence number, which rises across the whole daemon, with gaps.
  public var seq: Int? { fields.field("seq") }
  /// When the event was due, in milliseconds since 1970; nil if a command caused it.
  public var dueUnixMS: Int? { fields.field("due_unix_ms") }
  /// The lateness of the event, in microseconds; nil if a command caused it.
  public var lateMicroseconds: Int? { fields.field("late_us") }
  /// Why the event happened, such as `expired` or `replaced`; nil for most events.
  public var reason: String? { fields.field("reason") }

  /// Returns the entity after the event; nil for another kind, or if the event has no state.
  public func view<View: EntityView>(_: View.Type = View.self) -> View? {
    kind == View.kind ? try? View(fields) : nil
  }

  public var countdown: CountdownView? { view() }
  public var hud: HUDView? { view() }
  public var timer: TimerView? { view() }
  public var throttle: ThrottleView? { view() }
  public var once: OnceView? { view() }
  public var gate: GateView? { view() }
  public var debounce: DebounceView? { view() }
  public var scope: ScopeView? { view() }
  public var navigation: NavigationView? { view() }
  public var page: PageView? { view() }

  /// The emitted event that this client handles; nil unless the name is `emitted`.
  public var emission: Emission? { name == .emitted ? Emission(fields) : nil }

  /// Reads a message of a channel.
  ///
  /// - Throws: `CountdownClientError.protocolViolation`
  public init(channel: String, message: some Collection<UInt8>) throws(CountdownClientError) {
    do {
      fields = try RESPValue(json: message)
    } catch {
      throw .protocolViolation("an event on \(channel) that is not JSON")
    }
    guard let name: String = fields.field("event") else {
      throw .protocolViolation("an event without a name on \(channel)")
    }
    guard let kind = Kind(channel: channel) else {
      throw .protocolViolation("a channel of no kind: \(channel)")
    }
    self.channel = channel
    self.kind = kind
    self.name = Name(rawValue: name)
    key = String(channel.dropFirst(kind.rawValue.utf8.count + 1))
    json = String(decoding: message, as: UTF8.self)
  }

  /// Creates an event of the connection.
  init(connection name: Name) {
    channel = ""
    kind = .connection
    self.name = name
    key = ""
    json = #"{"event":"\#(name.rawValue)"}"#
    fields = .map([.init(.simpleString("event"), .simpleString(name.rawValue))])
  }

  /// Reads a push; nil for an answer to `SUBSCRIBE`, and for a kind that this client does not know.
  init?(push: [RESPValue]) throws(CountdownClientError) {
    let message: ArraySlice<RESPValue>
    switch push.first?.string {
    case "message": message = push.dropFirst()
    case "pmessage": message = push.dropFirst(2)
    default: return nil
    }
    guard message.count == 2, let channel = message.first?.string, let json = message.last?.bytes
    else { throw .protocolViolation("a message without channel and text") }
    try self.init(from: channel, json)
  }

  /// Reads an event; nil for a kind that this client does not know, which a newer daemon may have.
  init?(from channel: String, _ message: [UInt8]) throws(CountdownClientError) {
    guard Kind(channel: channel) != nil else { return nil }
    try self.init(channel: channel, message: message)
  }
}

extension CountdownEvent.Kind {
  /// Reads the kind of a channel, `KIND:KEY`; nil for an unknown kind.
  fileprivate init?(channel: String) {
    guard let colon = channel.firstIndex(of: ":"),
      let kind = Self(rawValue: String(channel[..<colon])),
      kind != .connection
    else { return nil }
    self = kind
  }
}

/// An event that a client emitted to a scope.
public struct Emission: Sendable, Hashable {
  /// The name given by the emitting client.
  public let name: String
  /// The scope that the event was emitted to.
  public let target: String
  /// `capture` on its way down, `bubble` on its way up.
  public let phase: String
  /// The payload of the event; base64 if it is not UTF-8.
  public let payload: String?

  init?(_ fields: RESPValue) {
    guard let name: String = fields.field("name"), let target: String = fields.field("target"),
      let phase: String = fields.field("phase")
    else { return nil }
    (self.name, self.target, self.phase, payload) = (name, target, phase, fields.field("payload"))
  }
}
