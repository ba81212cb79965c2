import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import Wire

// Users see replies and their properties without an import of their own.
@_exported public import enum Wire.RESPValue

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// A client of the timer daemon countdownd.
///
///     let client = try await Client.connect()
///     let answer = try await client.countdown.start("+4512345678", count: 60)
///     if case .refused(_, let retryAfter) = answer.decision {
///       return "try again in \(retryAfter)"
///     }
///     for try await event in client.events(.countdown("+4512345678")) {
///       print(event.name, event.countdown?.stepsLeft ?? 0)
///       if event.countdown?.state == .ready { break }
///     }
///
/// Commands share one connection; concurrent calls are pipelined. When the connection is lost, the
/// client connects again. It repeats a call if that is safe, with a token of its own if the command
/// takes one and the caller gave none. Other unanswered calls fail with `unsure`: the daemon may
/// have run them, and `generation` makes it safe to repeat them.
///
/// Each `events` sequence uses its own connection and reconnects automatically.
public final class Client: Sendable {
  /// The path of the daemon's socket: `COUNTDOWND_SOCKET` of the environment, or the usual one.
  public static var defaultPath: String {
    guard let path = unsafe getenv("COUNTDOWND_SOCKET"), unsafe path.pointee != 0 else {
      return usualPath
    }
    return unsafe String(cString: path)
  }

  /// Where the daemon of the system listens.
  package static let usualPath = "/run/countdownd/countdownd.sock"

  /// The version of this library, which `CLIENT LIST` shows.
  public static let version = ProductVersion.current

  /// The path of the socket.
  public let path: String

  /// The time limit of a call, connecting and a repetition included; nil: none.
  public let timeout: Duration?

  private let group: any EventLoopGroup
  private let name: String?
  private let connectTimeout: Duration?
  private let link: Link
  /// The open subscriptions; nil after `close()`.
  private let subscriptions = NIOLockedValueBox<[ObjectIdentifier: Subscription]?>([:])
  private let hub = NIOLockedValueBox<EventHub?>(nil)

  /// The limit of `withTimeout`.
  @TaskLocal private static var taskTimeout: Duration??

  private init(
    path: String, name: String?, connectTimeout: Duration?, timeout: Duration?,
    group: any EventLoopGroup
  ) {
    self.path = path
    self.name = name
    self.connectTimeout = connectTimeout
    self.timeout = timeout
    self.group = group
    self.link = Link(path: path, name: name, group: group, timeout: connectTimeout)
  }

  /// Connects to the daemon.
  ///
  /// - Parameters:
  ///   - path: the path of the socket, at most 107 bytes.
  ///   - name: the name that `CLIENT LIST` shows, without spaces.
  ///   - connectTimeout: the time limit for connecting; nil: none.
  ///   - timeout: the time limit of a call, connecting included; nil: none. `withTimeout` sets
  ///     another.
  ///   - group: the threads for I/O; nil: the shared threads of the process.
  public static func connect(
    path: String = defaultPath, name: String? = nil, connectTimeout: Duration? = .seconds(10),
    timeout: Duration? = .seconds(30), group: (any EventLoopGroup)? = nil
  ) async throws -> Client {
    let client = unconnected(
      path: path, name: name, connectTimeout: connectTimeout, timeout: timeout, group: group)
    _ = try await client.link.connection()
    return client
  }

  /// Creates a client that connects with its first command.
  public static func unconnected(
    path: String = defaultPath, name: String? = nil, connectTimeout: Duration? = .seconds(10),
    timeout: Duration? = .seconds(30), group: (any EventLoopGroup)? = nil
  ) -> Client {
    Client(
      path: path, name: name, connectTimeout: connectTimeout, timeout: timeout,
      group: group ?? MultiThreadedEventLoopGroup.singleton)
  }

  /// Closes all connections: event sequences end, and calls throw `clientClosed`, also those under
  /// way.
  public func close() async {
    let open = subscriptions.withLockedValue { subscriptions in
      defer { subscriptions = nil }
      return subscriptions ?? [:]
    }
    for subscription in open.values { subscription.finish() }
    await link.close()
  }

  // MARK: Commands

  /// Sends a command and returns its reply.
  ///
  ///     let reply = try await client.send("COUNTDOWN", "GET", "+4512345678")
  ///
  /// If the task is cancelled before the command is written, nothing is sent. Later, that stops the
  /// wait, not the command. Commands that would change what others receive on the shared connection
  /// are refused, such as `CLIENT REPLY` and `MULTI`.
  ///
  /// - Throws: `CountdownClientError`: `.server` for an error reply, `.unsure` if no reply came;
  ///   `CancellationError` if nothing was sent.
  public func send(_ arguments: String...) async throws -> RESPValue {
    try await send(arguments)
  }

  /// Sends a command and returns its reply, as `send(_:)` does.
  public func send(_ arguments: [String]) async throws -> RESPValue {
    try await send(bytes: arguments.map { Array($0.utf8) })
  }

  /// Sends a command of arbitrary bytes and returns its reply, as `send(_:)` does.
  public func send(bytes arguments: [[UInt8]]) async throws -> RESPValue {
    try Self.check([arguments])
    return try await send(unchecked: arguments, timeLimit)
  }

  /// Sends a command as `send(bytes:)` does, also one that is refused on a shared connection.
  package func send(unchecked arguments: [[UInt8]]) async throws -> RESPValue {
    try await send(unchecked: arguments, timeLimit)
  }

  func send(unchecked arguments: [[UInt8]], _ limit: TimeLimit?) async throws -> RESPValue {
    let reply = try await replies(to: [arguments], limit)[0]
    if case .error(let text) = reply { throw CountdownClientError(reply: text) }
    return reply
  }

  private func replies(
    to commands: [[[UInt8]]], _ limit: TimeLimit?
  ) async throws -> [RESPValue] {
    do {
      return try await link.send(all: commands, limit)
    } catch CountdownClientError.connectionClosed {
      // Nothing was sent.
      return try await link.send(all: commands, limit)
    }
  }

  /// Sends commands in one write and returns their replies in order, with error replies as values.
  ///
  /// A transaction fits into one call, from `MULTI` to `EXEC`.
  ///
  /// - Throws: if connecting fails, or the connection is lost before the last reply.
  public func pipeline(
    _ commands: [[String]]
  ) async throws -> [RESPValue] {
    let commands = commands.map { $0.map { Array($0.utf8) } }
    try Self.check(commands)
    return try await replies(to: commands, timeLimit)
  }

  /// Runs calls with another time limit for each, connecting included.
  ///
  ///     try await client.withTimeout(.seconds(1)) {
  ///       try await client.countdown.start("+4512345678", count: 60)
  ///     }
  ///
  /// - Parameter timeout: nil: none.
  public func withTimeout<Result>(
    _ timeout: Duration?, isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws -> Result
  ) async rethrows -> Result {
    try await Self.$taskTimeout.withValue(.some(timeout), operation: body, isolation: isolation)
  }

  /// The limit of a call that begins now.
  var timeLimit: TimeLimit? { (Self.taskTimeout ?? timeout).map(TimeLimit.init) }

  // MARK: Events

  /// Subscribes to the events of entities.
  ///
  ///     for try await event in client.events(.countdown("+4512345678"), .all(.hud)) { … }
  ///
  /// The first event of each channel is a `snapshot` of its entity. The sequence uses its own
  /// connection. When the connection is lost, the sequence yields `disconnected`, retries, soon at
  /// first and then twice a second, and yields `resubscribed`. Then it yields each missed
  /// event once, as far as the event log has them, and new snapshots; a `gap` comes first if events
  /// may be missing.
  ///
  /// If the reader falls 512 events behind, the client stops reading, and the daemon merges ticks.
  ///
  /// The sequence ends when its iterator is released, and with `close()`. Iterate it once.
  ///
  /// It waits for a daemon that is not running yet, hangs or is loading.
  ///
  /// - Parameter since: the `cursor` of the last event that you have, on this host or another one
  ///   of its fleet: the events after it come first.
  /// - Throws: during iteration: `CountdownClientError` if this user may not connect or the daemon
  ///   refuses the client, `CancellationError` when the task is cancelled.
  public func events(_ channels: EventChannel..., since: String? = nil) -> CountdownEvents {
    events(channels, since: since)
  }

  /// Subscribes to the events of entities, as `events(_:since:)` does.
  public func events(_ channels: [EventChannel], since: String? = nil) -> CountdownEvents {
    events(channels, since: since, waits: true, ticks: nil)
  }

  /// Subscribes as `events(_:since:)` does, but drops ticks unparsed on channels for which `ticks`
  /// returns false.
  ///
  /// - Parameter waits: whether to wait for a daemon that is not running yet.
  package func events(
    _ channels: [EventChannel], since: String? = nil, waits: Bool,
    ticks: (@Sendable (String) -> Bool)?
  ) -> CountdownEvents {
    subscribe(
      .init(
        channels: Set(channels.filter { !$0.isPattern }.map(\.name)),
        patterns: Set(channels.filter(\.isPattern).map(\.name)), since: since, waits: waits,
        ticks: ticks)
    ).0
  }

  /// Creates a subscription whose channels are added later.
  ///
  /// - Parameter ticks: whether the ticks of countdowns are wanted; if not, they are dropped
  ///   unparsed.
  public func subscription(ticks: Bool = true) -> ChannelSubscription {
    var request = Subscription.Request(isPersistent: true)
    if !ticks { request.ticks = { _ in false } }
    let (events, subscription) = subscribe(request)
    return ChannelSubscription(events, subscription)
  }

  /// Handles the events that clients emit at a scope and below it.
  ///
  /// The sequence yields an `emitted` event for each one; `emission` has its name and payload. It
  /// uses its own connection, as `events(_:since:)` does, and fails if the scope is
  /// closed when it reconnects.
  ///
  /// - Parameters:
  ///   - event: a name of 1 to 128 bytes, or `*` for all.
  ///   - captures: whether to handle events on their way down, before the scopes below.
  public func handle(
    _ event: String, at scope: String, captures: Bool = false
  ) -> CountdownEvents {
    let duty = ["SCOPE", "HANDLE", scope, event] + (captures ? ["CAPTURE"] : [])
    return subscribe(.init(duties: [duty], waits: true)).0
  }

  private func subscribe(_ request: Subscription.Request) -> (CountdownEvents, Subscription) {
    let (events, subscription) = CountdownEvents.make(
      path: path, name: name, timeout: connectTimeout, group: group, request)
    let id = ObjectIdentifier(subscription)
    let isOpen = subscriptions.withLockedValue { subscriptions in
      subscriptions?[id] = subscription
      return subscriptions != nil
    }
    if isOpen {
      subscription.start { [weak self] in
        _ = self?.subscriptions.withLockedValue { $0?.removeValue(forKey: id) }
      }
    } else {
      subscription.finish(throwing: CountdownClientError.clientClosed)
    }
    return (events, subscription)
  }

  /// Requests a snapshot for all observers of an entity.
  func requestSnapshot(of kind: CountdownEvent.Kind, _ key: String) {
    hub.withLockedValue { $0 }?.requestSnapshot(channel: "\(kind.rawValue):\(key)")
  }

  /// Registers an observer for the events of an entity. All observers share one connection.
  func observe(
    _ kind: CountdownEvent.Kind, _ key: String, followsConnection: Bool = false,
    _ observer: @escaping EventHub.Observer
  ) -> EventHandle {
    let hub = hub.withLockedValue { existing in
      if let existing, existing.isOpen { return existing }
      let (events, subscription) = subscribe(.init(isPersistent: true))
      let hub = EventHub(events: events, subscription: subscription)
      existing = hub
      return hub
    }
    return hub.add(
      channel: "\(kind.rawValue):\(key)", followsConnection: followsConnection, observer: observer)
  }
}
