import NIOCore
import NIOPosix
import Synchronization
import Wire

/// A reply of the daemon: see `Wire.RESPValue`.
public typealias RESPValue = Wire.RESPValue

/// A client of countdownd.
///
///     let client = try await CountdownClient.connect()
///     let countdown = try await client.startCountdown("+4512345678", count: 60)
///     guard countdown.accepted == true else {
///       return "try again in \(countdown.retryAfter)"
///     }
///     for try await event in client.events(channels: ["countdown:+4512345678"]) {
///       print(event.name, event.countdown?.remaining ?? 0)
///     }
///
/// Commands share one connection and are pipelined when called concurrently. When the connection
/// breaks, the calls under way fail with `connectionClosed` (whether the daemon did them is
/// unknown; `TOKEN` and `GENERATION` make a repetition safe) and the next call connects again.
/// Each `events` has a connection of its own and finds its way back by itself.
public final class CountdownClient: Sendable {
  /// Where countdownd listens unless it was told otherwise.
  public static let defaultPath = "/run/countdownd/countdownd.sock"

  /// Of this library; the daemon lists it with the connection.
  public static let version = ProductVersion.current

  /// The socket.
  public let path: String

  private let group: any EventLoopGroup
  private let name: String?
  private let link: Link
  /// Nil once closed.
  private let subscriptions = Mutex<[ObjectIdentifier: Subscription]?>([:])
  private let hub = Mutex<ReadyHub?>(nil)

  private init(path: String, name: String?, group: any EventLoopGroup) {
    self.path = path
    self.name = name
    self.group = group
    self.link = Link(path: path, name: name, group: group)
  }

  /// Connects to the daemon.
  ///
  /// - Parameters:
  ///   - path: the socket, at most 107 bytes.
  ///   - name: what `CLIENT LIST` shows for its connections; no spaces.
  ///   - group: the threads to do I/O on; those shared by the whole process unless given.
  /// - Throws: `CountdownClientError`
  public static func connect(
    path: String = defaultPath, name: String? = nil, group: (any EventLoopGroup)? = nil
  ) async throws -> CountdownClient {
    let client = unconnected(path: path, name: name, group: group)
    _ = try await client.link.connection()
    return client
  }

  /// A client that connects with its first command.
  public static func unconnected(
    path: String = defaultPath, name: String? = nil, group: (any EventLoopGroup)? = nil
  ) -> CountdownClient {
    CountdownClient(
      path: path, name: name, group: group ?? MultiThreadedEventLoopGroup.singleton)
  }

  /// Closes all connections: events end, and every later call throws `clientClosed`.
  public func close() async {
    let open = subscriptions.withLock { subscriptions in
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
  /// A cancelled task stops waiting; the command is not taken back. Leave `HELLO` and `RESET`
  /// alone: the other calls rely on RESP3.
  ///
  /// - Throws: `CountdownClientError`; `.server` for an error reply.
  public func send(_ arguments: String...) async throws -> RESPValue {
    try await send(arguments)
  }

  /// Sends a command and returns its reply, as `send(_:)` does.
  public func send(_ arguments: [String]) async throws -> RESPValue {
    try await send(bytes: arguments.map { Array($0.utf8) })
  }

  /// Sends a command of any bytes and returns its reply, as `send(_:)` does.
  public func send(bytes arguments: [[UInt8]]) async throws -> RESPValue {
    precondition(!arguments.isEmpty, "a command has a name")
    precondition(
      !Self.answersWithPushes(arguments[0]), "subscribe with events(channels:patterns:)")
    let reply = try await link.connection().send(arguments)
    if case .error(let text) = reply { throw CountdownClientError(reply: text) }
    return reply
  }

  /// Sends commands in one write and returns their replies in order, errors as values.
  ///
  /// - Throws: `CountdownClientError`, when not all replies came.
  public func pipeline(_ commands: [[String]]) async throws -> [RESPValue] {
    let futures = try await link.connection().pipeline(commands)
    var replies: [RESPValue] = []
    replies.reserveCapacity(futures.count)
    for future in futures { replies.append(try await future.get()) }
    return replies
  }

  /// In RESP3 these have no reply of their own, so nothing could wait for it.
  package static func answersWithPushes(_ command: [UInt8]) -> Bool {
    ["SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE"]
      .contains(String(decoding: command, as: UTF8.self).uppercased())
  }

  // MARK: Events

  /// What happens on these channels, `countdown:KEY`, `hud:SCREEN`, `timer:KEY`, and on those
  /// that match the patterns, from now on.
  ///
  /// First comes a `snapshot` of each. Has its own connection: when it breaks, the sequence goes
  /// on with a `disconnected` event, tries again after 0.1 s and then less and less often (up to
  /// 5 s), and says `resubscribed`. Then come the events that were missed, each once, as far as the
  /// daemon keeps them (a `gap` says that it has not kept all); then new snapshots. Only when the
  /// first connection fails, or the daemon refuses for good, does it throw. A reader that falls behind by about 512 events makes the daemon wait, which
  /// then merges ticks.
  ///
  /// Ends, and unsubscribes, when its task is cancelled, when it is no longer iterated, and with
  /// `close()`. To be iterated once.
  ///
  /// - Throws: in the iteration, `CountdownClientError`.
  public func events(channels: [String] = [], patterns: [String] = []) -> CountdownEvents {
    let (events, subscription) = CountdownEvents.make(
      path: path, name: name, group: group, channels: channels, patterns: patterns)
    register(subscription)
    return events
  }

  /// Handles events of the clients' own at a scope, over a connection of its own: the sequence has
  /// an `emitted` event for each that is taken here, its `fields` with `name`, `target`, `phase` and
  /// `payload`. As with `events(channels:patterns:)`; it ends when the scope is not there any more
  /// after a reconnection.
  ///
  /// - Parameters:
  ///   - event: a name of 1 to 128 bytes, or `*` for all.
  ///   - captures: takes events on their way down to the scopes below, before those can.
  public func handle(
    _ event: String, at scope: String, captures: Bool = false
  ) -> CountdownEvents {
    let duty = ["SCOPE", "HANDLE", scope, event] + (captures ? ["CAPTURE"] : [])
    let (events, subscription) = CountdownEvents.make(
      path: path, name: name, group: group, channels: [], patterns: [], duties: [duty])
    register(subscription)
    return events
  }

  private func register(_ subscription: Subscription) {
    let id = ObjectIdentifier(subscription)
    let isOpen = subscriptions.withLock { subscriptions in
      subscriptions?[id] = subscription
      return subscriptions != nil
    }
    guard isOpen else { return subscription.finish(throwing: CountdownClientError.clientClosed) }
    subscription.start { [weak self] in
      _ = self?.subscriptions.withLock { $0?.removeValue(forKey: id) }
    }
  }

  /// Calls a closure each time a countdown becomes ready, for as long as the target lives.
  ///
  ///     handle = client.onReady("+4512345678", target: button) { button, _ in
  ///       Task { @MainActor in button.isEnabled = true }
  ///     }
  ///
  /// If it is ready already, the closure is called soon; never twice for one generation. What
  /// became ready while the connection was lost, or while there was no daemon, is told as soon as
  /// there is one again. All handles of a client share one connection, and the closures are called
  /// on tasks of the client, all on the same one but for what was ready already: be short.
  ///
  /// - Parameter target: held weakly. When it is gone the closure is never called again.
  /// - Returns: a handle to keep: the calls end when it is released or cancelled.
  public func onReady<Target: AnyObject & Sendable>(
    _ key: String, target: Target,
    _ body: @escaping @Sendable (Target, CountdownEvent) -> Void
  ) -> EventHandle {
    let hub = hub.withLock { existing in
      if let existing, existing.isOpen { return existing }
      let (events, subscription) = CountdownEvents.make(
        path: path, name: name, group: group, channels: [], patterns: [], isPersistent: true)
      register(subscription)
      let hub = ReadyHub(events: events, subscription: subscription)
      existing = hub
      return hub
    }
    return hub.add(key: key) { [weak target] event in
      guard let target else { return false }
      body(target, event)
      return true
    }
  }
}

/// The connection for commands, made when it is needed.
private actor Link {
  private enum State {
    case idle
    case connecting(Task<Connection, any Error>)
    case connected(Connection)
    case closed
  }

  private let path: String
  private let name: String?
  private let group: any EventLoopGroup
  private var state = State.idle

  init(path: String, name: String?, group: any EventLoopGroup) {
    self.path = path
    self.name = name
    self.group = group
  }

  func connection() async throws -> Connection {
    switch state {
    case .closed: throw CountdownClientError.clientClosed
    case .connecting(let attempt): return try await attempt.value
    case .connected(let connection) where connection.isActive: return connection
    case .idle, .connected: break
    }
    let attempt = Task { [path, name, group] in
      try await Connection.open(path: path, group: group, name: name) { _ in }
    }
    state = .connecting(attempt)
    do {
      let connection = try await attempt.value
      if case .closed = state {
        connection.close()
        throw CountdownClientError.clientClosed
      }
      state = .connected(connection)
      return connection
    } catch {
      if case .connecting = state { state = .idle }
      throw error
    }
  }

  func close() async {
    let last = state
    state = .closed
    guard case .connected(let connection) = last else { return }
    connection.close()
    await connection.closed()
  }
}
