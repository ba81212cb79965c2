import Wire

/// An event of a countdown, HUD, timer or other entity, or of the connection.
public struct CountdownEvent: Sendable, Hashable {
  /// The kind of entity. A newer daemon may send kinds not listed here.
  public struct Kind: ProtocolWord {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The connection of the sequence. The client itself creates these events.
    public static let connection: Kind = "connection"
  }

  /// The event's name in the protocol. A newer daemon may send names not listed here.
  public struct Name: ProtocolWord {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The current state: the first event of each channel, repeated after each reconnection.
    public static let snapshot: Name = "snapshot"
    /// The connection was lost; the client reconnects by itself.
    public static let disconnected: Name = "disconnected"
    /// The client has reconnected. Missed events follow, then snapshots. An entity that matches a
    /// pattern but gets no snapshot has ended.
    public static let resubscribed: Name = "resubscribed"
    /// The event log does not have all missed events: read the state.
    public static let gap: Name = "gap"
    /// The daemon refuses a channel of `Client.subscription(ticks:)`, so none of its events arrive.
    /// The field `error` says why. The client subscribes again on its next connection.
    public static let denied: Name = "denied"
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
  /// Where to continue after this event, on any host of a fleet: `since` of `Client.events`. Each
  /// event of a sequence has one.
  public internal(set) var cursor = ""

  public var generation: Int? { fields.field("generation") }
  /// The sequence number, which rises across the whole daemon, with gaps.
  public var seq: Int? { fields.field("seq") }
  /// What identifies the event: in a fleet the same on all hosts, else the sequence number.
  public var position: String? { fields.field("position") ?? seq.map(String.init) }
  /// When the event was due; nil if a command caused it.
  public var due: Date? { fields.field("due_unix_ms") }
  /// The lateness of the event; nil if a command caused it.
  public var late: Duration? { fields.field("late_us").map { .microseconds($0 as Int) } }
  /// Why the event happened; nil for most events.
  public var reason: Reason? { (fields.field("reason") as String?).map(Reason.init) }

  /// Returns the entity after the event; nil for another kind, or if the event has no state.
  public func view<View: EntityView>(_: View.Type = View.self) -> View? {
    kind == View.kind ? try? View(fields) : nil
  }

  /// The emitted event that this client handles; nil unless the name is `emitted`.
  public var emission: Emission? { name == .emitted ? Emission(fields) : nil }

  /// Reads a message of a channel.
  ///
  /// - Throws: `CountdownClientError.protocolViolation`
  public init(channel: String, message: some Collection<UInt8>) throws(CountdownClientError) {
    guard let json = String(validating: message, as: UTF8.self),
      let fields = RESPValue(json: json)
    else { throw .protocolViolation("an event on \(channel) that is not JSON") }
    guard let name: String = fields.field("event") else {
      throw .protocolViolation("an event without a name on \(channel)")
    }
    guard let (kind, key) = Self.parts(of: channel) else {
      throw .protocolViolation("a channel of no kind: \(channel)")
    }
    self.channel = channel
    self.kind = kind
    self.name = Name(rawValue: name)
    self.key = key
    self.json = json
    self.fields = fields
  }

  /// Creates an event of the connection.
  init(connection name: Name, cursor: String) {
    channel = ""
    kind = .connection
    self.name = name
    key = ""
    json = #"{"event":"\#(name.rawValue)"}"#
    fields = .map([.init(.simpleString("event"), .simpleString(name.rawValue))])
    self.cursor = cursor
  }

  /// Creates the event of a channel that the daemon refuses.
  init(denied channel: String, _ error: String, cursor: String) {
    self.channel = channel
    (kind, key) = Self.parts(of: channel) ?? (Kind(rawValue: channel), "")
    name = .denied
    fields = .map([
      .init(.simpleString("event"), .simpleString(Name.denied.rawValue)),
      .init(.simpleString("error"), .bulkString(error.bytes)),
    ])
    json = fields.json
    self.cursor = cursor
  }

  /// Splits the name of a channel; nil if it has no colon.
  private static func parts(of channel: String) -> (kind: Kind, key: String)? {
    guard let colon = channel.firstIndex(of: ":") else { return nil }
    return (Kind(rawValue: String(channel[..<colon])), String(channel[colon...].dropFirst()))
  }

  /// Reads a push; nil for an answer to `SUBSCRIBE`.
  package init?(push: [RESPValue]) throws(CountdownClientError) {
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

  /// Reads a message; nil if it is no event, which a kind that this client does not know may send.
  init?(from channel: String, _ message: [UInt8]) throws(CountdownClientError) {
    do throws(CountdownClientError) {
      try self.init(channel: channel, message: message)
    } catch {
      guard Kind.allCases.contains(where: { channel.hasPrefix("\($0):") }) else { return nil }
      throw error
    }
  }
}

/// A channel of events: of one entity, or a pattern of channels.
public struct EventChannel: Sendable, Hashable {
  /// The channel in the protocol, such as `countdown:KEY`, or the pattern.
  package let name: String
  package let isPattern: Bool

  /// The events of one entity.
  public init(_ kind: CountdownEvent.Kind, _ key: String) {
    self.init(name: "\(kind):\(key)", isPattern: false)
  }

  package init(name: String, isPattern: Bool) {
    (self.name, self.isPattern) = (name, isPattern)
  }

  /// The events of all entities of a kind.
  public static func all(_ kind: CountdownEvent.Kind) -> Self { matching(kind, "*") }

  /// The events of the entities of a kind whose keys match a glob pattern.
  public static func matching(_ kind: CountdownEvent.Kind, _ pattern: String) -> Self {
    .init(name: "\(kind):\(pattern)", isPattern: true)
  }

  /// The events of all entities.
  public static let everything = Self(name: "*", isPattern: true)
}

/// An event that a client emitted to a scope.
public struct Emission: Sendable, Hashable {
  /// The name given by the emitting client.
  public let name: String
  /// The scope that the event was emitted to.
  public let target: String
  /// `capture` on its way down, `bubble` on its way up.
  public let phase: String
  public let payload: [UInt8]?

  init?(_ fields: RESPValue) {
    guard let name: String = fields.field("name"), let target: String = fields.field("target"),
      let phase: String = fields.field("phase")
    else { return nil }
    (self.name, self.target, self.phase) = (name, target, phase)
    payload = fields.member("payload")?.bytes
  }
}
