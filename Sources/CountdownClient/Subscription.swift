import NIOCore
import RESP
import Synchronization

/// Keeps a set of channels subscribed, over as many connections as it takes, and puts what comes
/// into a `CountdownEvents`.
final class Subscription: Sendable {
  /// What the reading side asks of the writing side.
  struct Reader: NIOAsyncSequenceProducerDelegate, Sendable {
    let subscription: Subscription

    func produceMore() { subscription.setReading(true) }
    func didTerminate() { subscription.stop() }
  }

  private struct State {
    var channels: Set<String>
    var patterns: Set<String>
    var connection: Connection?
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
  private let state: Mutex<State>

  init(
    path: String, name: String?, group: any EventLoopGroup, channels: [String],
    patterns: [String], isPersistent: Bool
  ) {
    self.path = path
    self.name = name
    self.group = group
    self.isPersistent = isPersistent
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
      state.connection?.sendWithoutReply(command.map { Array($0.utf8) })
    }
  }

  private func subscribe(_ connection: Connection) {
    let isStopped = state.withLock { state in
      guard !state.isStopped else { return true }
      state.connection = connection
      for (command, names) in [("SUBSCRIBE", state.channels), ("PSUBSCRIBE", state.patterns)]
      where !names.isEmpty {
        connection.sendWithoutReply(([command] + names.sorted()).map { Array($0.utf8) })
      }
      return false
    }
    if isStopped { connection.close() }
  }

  // MARK: Connections

  private func run() async {
    var backoff = Backoff()
    var connections = 0
    while !Task.isCancelled {
      do {
        let connection = try await Connection.open(path: path, group: group, name: name) {
          [weak self] in self?.receive($0)
        }
        if connections > 0 { put(CountdownEvent(connection: .resubscribed)) }
        connections += 1
        backoff = Backoff()
        subscribe(connection)
        await connection.closed()
        put(CountdownEvent(connection: .disconnected))
      } catch {
        if connections == 0, !isPersistent { return finish(throwing: error) }
      }
      try? await Task.sleep(for: backoff.next())
    }
  }

  /// On the event loop.
  private func receive(_ value: RESPValue) {
    switch value {
    case .push(let values):
      do {
        if let event = try CountdownEvent(push: values) { put(event) }
      } catch {
        finish(throwing: error)
      }
    case .error(let text):
      if !isPersistent { finish(throwing: CountdownClientError(reply: text)) }
    case .simpleString, .integer, .bulkString, .null, .array, .map, .set, .double, .boolean,
      .bigNumber, .verbatim:
      finish(throwing: CountdownClientError.protocolViolation("a reply to nothing"))
    }
  }

  private func put(_ event: CountdownEvent) {
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
