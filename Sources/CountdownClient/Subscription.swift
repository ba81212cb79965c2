import NIOCore
import Synchronization
import Wire

/// Keeps a set of channels subscribed, over as many connections as it takes, and puts what comes
/// into a `CountdownEvents`.
final class Subscription: Sendable {
  /// What the reading side asks of the writing side.
  struct Reader: NIOAsyncSequenceProducerDelegate, Sendable {
    let subscription: Subscription

    func produceMore() { subscription.setReading(true) }
    func didTerminate() { subscription.stop() }
  }

  struct State {
    var channels: Set<String>
    var patterns: Set<String>
    var connection: Connection?
    /// The number of the last event that was handed on; nil before anything is known.
    var position: Int?
    /// What has come since the connection is back, until what came before it is known.
    var held: [CountdownEvent]?
    /// Channels that nobody listened to before the connection was lost.
    var fresh: Set<String> = []
    /// Whether the daemon has taken the subscriptions of this connection, and of any.
    var isLive = false
    var hasBeenLive = false
    var task: Task<Void, Never>?
    var source: CountdownEvents.Producer.Source?
    var isStopped = false
    var didStop: (@Sendable () -> Void)?
  }

  private let path: String
  private let name: String?
  private let group: any EventLoopGroup
  /// Whether it outlives a first connection that fails, and an error reply.
  private let isPersistent: Bool
  /// What this connection does for others, to be said on each new one: `SCOPE HANDLE`.
  private let duties: [[String]]
  let state: Mutex<State>

  init(
    path: String, name: String?, group: any EventLoopGroup, channels: [String],
    patterns: [String], duties: [[String]], isPersistent: Bool
  ) {
    self.path = path
    self.name = name
    self.group = group
    self.isPersistent = isPersistent
    self.duties = duties
    state = Mutex(State(channels: Set(channels), patterns: Set(patterns)))
  }

  func attach(_ source: CountdownEvents.Producer.Source) {
    state.withLock { $0.source = source }
  }

  /// Connects. `didStop` is called once it is all over.
  func start(didStop: @escaping @Sendable () -> Void) {
    state.withLock { state in
      precondition(state.task == nil, "started twice")
      guard !state.isStopped else { return }
      state.didStop = didStop
      state.task = Task { await self.run() }
    }
  }

  /// Ends the sequence, for its reader too.
  func finish(throwing error: (any Error)? = nil) {
    let source = state.withLock { $0.source }
    if let error { source?.finish(error) } else { source?.finish() }
    stop()
  }

  func stop() {
    let last = state.withLock { state in
      let last = state
      state.isStopped = true
      state.connection = nil
      state.task = nil
      state.source = nil
      state.didStop = nil
      return last
    }
    last.task?.cancel()
    last.connection?.close()
    last.didStop?()
  }

  var isStopped: Bool { state.withLock { $0.isStopped } }

  // MARK: Channels

  func add(channel: String) { change(["SUBSCRIBE", channel]) { $0.insert(channel).inserted } }

  func remove(channel: String) {
    change(["UNSUBSCRIBE", channel]) { $0.remove(channel) != nil }
  }

  /// Sent under the lock, so that what the daemon hears last is what is true.
  private func change(_ command: [String], _ apply: (inout Set<String>) -> Bool) {
    state.withLock { state in
      guard apply(&state.channels) else { return }
      if state.connection == nil || state.held != nil { state.fresh.insert(command[1]) }
      state.connection?.sendWithoutReply(command.map { Array($0.utf8) })
    }
  }

  private func subscribe(_ connection: Connection) {
    let isStopped = state.withLock { state in
      guard !state.isStopped else { return true }
      state.connection = connection
      // Before the first one nothing was missed.
      if state.hasBeenLive { state.held = [] }
      // A command for each name: all of them in one may be more than the daemon takes.
      let commands =
        state.channels.sorted().map { ["SUBSCRIBE", $0] }
        + state.patterns.sorted().map { ["PSUBSCRIBE", $0] }
      connection.sendWithoutReplies(commands.map { $0.map { Array($0.utf8) } })
      for reply in connection.pipeline(duties) {
        reply.whenSuccess { [weak self] in if case .error(let text) = $0 { self?.refused(text) } }
      }
      return false
    }
    if isStopped { connection.close() }
  }

  // MARK: Connections

  private func run() async {
    var backoff = Backoff()
    while !Task.isCancelled {
      do {
        let connection = try await Connection.open(path: path, group: group, name: name) {
          [weak self] in self?.receive($0)
        }
        subscribe(connection)
        resume(connection)
        await connection.closed()
        let wasLive = state.withLock { state in
          defer {
            state.connection = nil
            state.held = nil
            state.isLive = false
          }
          return state.isLive
        }
        if wasLive {
          backoff = Backoff()
          put(CountdownEvent(connection: .disconnected))
        }
      } catch {
        let isFirst = state.withLock { !$0.hasBeenLive }
        if isFirst || !mayPass(error), !isPersistent { return finish(throwing: error) }
      }
      try? await Task.sleep(for: backoff.next())
    }
  }

  /// On the event loop.
  private func receive(_ value: RESPValue) {
    switch value {
    case .push(let values):
      do {
        if let event = try CountdownEvent(push: values) { take(event) }
      } catch {
        finish(throwing: error)
      }
    case .error(let text):
      refused(text)
    case .simpleString, .integer, .bulkString, .null, .array, .map, .set, .double, .boolean,
      .bigNumber, .verbatim:
      guard state.withLock({ $0.connection != nil }) else { return }
      finish(throwing: CountdownClientError.protocolViolation("a reply to nothing"))
    }
  }

  /// An event that came by itself.
  private func take(_ event: CountdownEvent) {
    let isHeld = state.withLock { state in
      guard state.held == nil else {
        state.held?.append(event)
        return true
      }
      state.isLive = true
      state.hasBeenLive = true
      if let number = event.seq { state.position = max(state.position ?? 0, number) }
      return false
    }
    if !isHeld { put(event) }
  }

  /// The daemon does not take a subscription.
  func refused(_ text: String) {
    let error = CountdownClientError(reply: text)
    if mayPass(error) {
      abandon()
    } else if !isPersistent {
      finish(throwing: error)
    }
  }

  /// Whether it is worth another attempt.
  private func mayPass(_ error: any Error) -> Bool {
    switch error as? CountdownClientError {
    case .server("LOADING", _), .server("READONLY", _): true
    // All come back at once, and some of them find room later. Where there was none from the beginning,
    // whoever asks has to know.
    case .server("LIMIT", let text):
      (text.hasPrefix("max-connections") || text.hasPrefix("max-output"))
        && state.withLock { $0.hasBeenLive }
    case .server: false
    default: true
    }
  }

  /// Gives up this connection: what else it says is not meant for anybody.
  func abandon() {
    let connection = state.withLock { state in
      defer { state.connection = nil }
      return state.connection
    }
    connection?.close()
  }

  func put(_ event: CountdownEvent) {
    guard let source = state.withLock({ $0.source }) else { return }
    switch source.yield(event) {
    case .produceMore, .dropped: break
    case .stopProducing: setReading(false)
    }
  }

  private func setReading(_ reading: Bool) {
    state.withLock { $0.connection }?.setReading(reading)
  }
}

/// How long to wait before the next attempt: twice as long each time, and never the same for two
/// clients, so that a daemon that comes back is not met by all of them at once.
struct Backoff {
  static let first = Duration.milliseconds(100)
  static let longest = Duration.seconds(5)

  private var delay = first

  mutating func next() -> Duration {
    defer { delay = min(delay * 2, Self.longest) }
    return delay * Double.random(in: 0.75...1.25)
  }
}
