import NIOConcurrencyHelpers
import NIOCore
import Wire

/// Keeps channels subscribed across reconnections, and yields their events into a
/// `CountdownEvents`.
final class Subscription: Sendable {
  /// The channels of a subscription, and its options.
  struct Request {
    var channels: Set<String> = []
    var patterns: Set<String> = []
    /// Where to continue; nil: begin with what happens now.
    var since: String?
    /// Commands to send on each new connection: `SCOPE HANDLE`.
    var duties: [[String]] = []
    /// Whether to continue after a failed first connection, and after an error reply.
    var isPersistent = false
    /// Whether to wait for a daemon that is not running yet or not ready.
    var waits = false
    /// Returns whether the ticks of a channel are wanted; nil: all are.
    var ticks: (@Sendable (String) -> Bool)?
  }

  /// Passes on the reader's demand to read more or to stop.
  struct Reader: NIOAsyncSequenceProducerDelegate, Sendable {
    let subscription: Subscription

    func produceMore() { subscription.setReading(true) }
    func didTerminate() { subscription.stop() }
  }

  struct State {
    var channels: Set<String>
    var patterns: Set<String>
    var connection: Connection?
    /// Whether the subscriptions have been sent on this connection.
    var hasSubscribed = false
    /// Where to continue on the next connection; nil before the daemon's first cursor.
    var place: EventPlace?
    /// Events of a new connection, held until the missed events before them have been yielded.
    var held: [CountdownEvent]? { didSet { if held?.isEmpty != false { heldCount = 0 } } }
    /// The number of held events, without snapshots.
    var heldCount = 0
    /// Whether more than `maximumHeld` events came meanwhile, which are read from the log later.
    var isOverfull = false
    /// Channels added while disconnected or catching up; they have missed no events.
    var fresh: Set<String> = []
    /// Whether the daemon has accepted the subscriptions of this connection, and of any connection.
    var isLive = false
    var hasBeenLive = false
    var task: Task<Void, Never>?
    var source: CountdownEvents.Producer.Source?
    var isStopped = false
    var didStop: (@Sendable () -> Void)?
  }

  private let path: String
  private let name: String?
  let timeout: Duration?
  private let group: any EventLoopGroup
  private let duties: [[String]]
  private let isPersistent: Bool
  private let waits: Bool
  private let ticks: (@Sendable (String) -> Bool)?
  let state: NIOLockedValueBox<State>

  init(
    path: String, name: String?, timeout: Duration?, group: any EventLoopGroup, _ request: Request
  ) {
    self.path = path
    self.name = name
    self.timeout = timeout
    self.group = group
    isPersistent = request.isPersistent
    waits = request.waits
    duties = request.duties
    ticks = request.ticks
    state = NIOLockedValueBox(
      State(
        channels: request.channels, patterns: request.patterns,
        place: request.since.map(EventPlace.init)))
  }

  func attach(_ source: CountdownEvents.Producer.Source) {
    state.withLockedValue { $0.source = source }
  }

  /// Starts connecting. Calls `didStop` when the subscription ends.
  func start(didStop: @escaping @Sendable () -> Void) {
    state.withLockedValue { state in
      precondition(state.task == nil, "started twice")
      guard !state.isStopped else { return }
      state.didStop = didStop
      state.task = Task { await self.run() }
    }
  }

  /// Ends the sequence.
  func finish(throwing error: CountdownClientError? = nil) {
    let source = state.withLockedValue { $0.source }
    if let error { source?.finish(error) } else { source?.finish() }
    stop()
  }

  func stop() {
    let last = state.withLockedValue { state in
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

  var isStopped: Bool { state.withLockedValue { $0.isStopped } }

  // MARK: Channels

  /// Subscribes to a channel; if it is subscribed to already, requests another snapshot.
  func add(channel: String) {
    change { state in
      let isNew = state.channels.insert(channel).inserted
      if isNew, !state.hasSubscribed || state.held != nil { state.fresh.insert(channel) }
      return [["SUBSCRIBE".bytes, channel.bytes]]
    }
  }

  func remove(channel: String) {
    change { state in
      guard state.channels.remove(channel) != nil else { return [] }
      return [["UNSUBSCRIBE".bytes, channel.bytes]]
    }
  }

  /// Changes the state, and sends the commands for it if the connection has the subscriptions. It
  /// does so under the lock: the daemon receives them in the order of the changes.
  private func change(_ body: (inout State) -> [[[UInt8]]]) {
    let (commands, answers) = state.withLockedValue { state in
      let commands = body(&state)
      return (commands, commands.isEmpty ? [] : state.subscribed?.subscribe(commands) ?? [])
    }
    for (command, answer) in zip(commands, answers) {
      let channel = String(decoding: command[1], as: UTF8.self)
      answer.whenSuccess { [weak self] in self?.heed($0, channel) }
    }
  }

  /// Handles the daemon's answer to a subscription or a duty.
  private func heed(_ answer: RESPValue, _ channel: String?) {
    if case .error(let text) = answer { refused(text, channel) } else { isAccepted() }
  }

  /// Notes a new connection; closes it if nobody wants it any more.
  private func adopt(_ connection: Connection) {
    let isStopped = state.withLockedValue { state in
      if !state.isStopped { state.connection = connection }
      return state.isStopped
    }
    if isStopped { connection.close() }
  }

  /// Subscribes to everything on a new connection.
  ///
  /// - Parameter holds: whether missed events come first.
  func subscribe(_ connection: Connection, holds: Bool) {
    change { state in
      state.held = holds ? [] : nil
      if !holds { state.fresh = [] }
      state.isOverfull = false
      state.hasSubscribed = true
      return state.subscriptions
    }
    for answer in connection.pipeline(duties) {
      answer.whenSuccess { [weak self] in self?.heed($0, nil) }
    }
    // It continues without channels, and without one that is refused.
    if isPersistent { isAccepted() }
  }

  /// Notes that the daemon accepts the subscriptions; while catching up, its answer says so.
  private func isAccepted() { state.withLockedValue { $0.isAccepted() } }

  /// Requests new snapshots if events had to be dropped; returns whether they had.
  func startOver() -> Bool {
    var wasOverfull = false
    change { state in
      guard state.isOverfull else { return [] }
      wasOverfull = true
      state.isOverfull = false
      state.held = []
      return state.subscriptions
    }
    return wasOverfull
  }

  // MARK: Connections

  private func run() async {
    var backoff = Backoff()
    while !Task.isCancelled {
      do {
        let connection = try await Connection.open(
          path: path, group: group, name: name, timeout: timeout
        ) { [weak self] in self?.receive($0) }
        adopt(connection)
        begin(connection)
        let opened = ContinuousClock.now
        await connection.closed()
        backoff.connectionLasted(opened.duration(to: .now))
        let wasLive = state.withLockedValue { state in
          defer {
            state.connection = nil
            state.hasSubscribed = false
            state.held = nil
            state.isLive = false
          }
          return state.isLive
        }
        if wasLive { report(.disconnected) }
      } catch {
        // Only `stop` cancels this task.
        guard let error = error as? CountdownClientError else { return }
        guard mayConnect(after: error) else { return finish(throwing: error) }
      }
      try? await Task.sleep(for: backoff.next())
    }
  }

  /// Returns whether another attempt to connect is wanted, and may succeed.
  private func mayConnect(after error: CountdownClientError) -> Bool {
    if isPersistent || state.withLockedValue({ $0.hasBeenLive }) { return mayPass(error) }
    switch error {
    case .daemonNotRunning, .connectionFailed, .connectionClosed, .timedOut: return waits
    case .server: return waits && mayPass(error)
    default: return false
    }
  }

  /// Handles a value that is not a reply. Runs on the event loop.
  private func receive(_ value: RESPValue) {
    switch value {
    case .push(let values):
      if let ticks, let channel = Self.channel(ofTick: values), !ticks(channel) { return }
      do throws(CountdownClientError) {
        if let event = try CountdownEvent(push: values) { take(event) } else { isAccepted() }
      } catch {
        finish(throwing: error)
      }
    case .error(let text):
      refused(text)
    case .simpleString, .integer, .bulkString, .null, .array, .map, .set, .double, .boolean,
      .bigNumber, .verbatim:
      guard state.withLockedValue({ $0.connection != nil }) else { return }
      finish(throwing: .protocolViolation("a reply to no command"))
    }
  }

  /// Returns the channel of a tick, recognized without parsing the JSON; nil for other pushes.
  private static func channel(ofTick push: [RESPValue]) -> String? {
    guard push.count > 2, let json = push.last?.bytes, json.starts(with: tickBegins) else {
      return nil
    }
    return push[push.count - 2].string
  }

  private static let tickBegins = Array(#"{"event":"tick","#.utf8)

  /// Handles a live event: holds it while catching up, otherwise yields it.
  private func take(_ event: CountdownEvent) {
    let event: CountdownEvent? = state.withLockedValue { state in
      state.isAccepted()
      guard state.held == nil else {
        state.hold(event)
        return nil
      }
      return state.stamped(event)
    }
    if let event { put(event) }
  }

  /// Handles an error reply: reconnects if it is temporary, else fails. A persistent subscription
  /// continues without the channel, and reports that.
  private func refused(_ text: String, _ channel: String? = nil) {
    let error = CountdownClientError(reply: text)
    if mayPass(error) {
      abandon()
    } else if !isPersistent {
      finish(throwing: error)
    } else if let channel {
      put(CountdownEvent(denied: channel, text, cursor: cursor))
    }
  }

  /// Returns whether another attempt may succeed.
  func mayPass(_ error: CountdownClientError) -> Bool {
    switch error {
    case .server("LOADING", _), .server("READONLY", _), .server("UNAVAILABLE", _): true
    // After a restart all clients reconnect at once, and some find room only later. A first
    // connection without room is an error for the caller, and so is a new channel beyond a limit.
    case .server("LIMIT", let text):
      isPersistent
        ? text.hasPrefix("max-connections") || text.hasPrefix("max-output")
        : state.withLockedValue { $0.hasBeenLive }
    case .server, .pathTooLong: false
    default: true
    }
  }

  /// Closes this connection; the subscription then reconnects.
  func abandon() {
    let connection = state.withLockedValue { state in
      defer { state.connection = nil }
      return state.connection
    }
    connection?.close()
  }

  /// Yields an event of the connection.
  func report(_ name: CountdownEvent.Name) {
    put(CountdownEvent(connection: name, cursor: cursor))
  }

  private var cursor: String { state.withLockedValue { $0.place?.text } ?? "" }

  func put(_ event: CountdownEvent) {
    guard let source = state.withLockedValue({ $0.source }) else { return }
    switch source.yield(event) {
    case .produceMore, .dropped: break
    case .stopProducing: setReading(false)
    }
  }

  private func setReading(_ reading: Bool) {
    state.withLockedValue { $0.connection }?.setReading(reading)
  }
}

extension Subscription.State {
  /// The most events that are held, beside snapshots.
  static let maximumHeld = 4_096

  /// The connection, once it has the subscriptions.
  var subscribed: Connection? { hasSubscribed ? connection : nil }

  mutating func isAccepted() {
    guard held == nil else { return }
    isLive = true
    hasBeenLive = true
  }

  /// Continues after an event; returns it with its cursor.
  mutating func stamped(_ event: CountdownEvent) -> CountdownEvent {
    place?.pass(event)
    var event = event
    event.cursor = place?.text ?? ""
    return event
  }

  /// The commands that subscribe to everything: one for each name, as a single one might exceed the
  /// daemon's limits.
  var subscriptions: [[[UInt8]]] {
    channels.sorted().map { ["SUBSCRIBE".bytes, $0.bytes] }
      + patterns.sorted().map { ["PSUBSCRIBE".bytes, $0.bytes] }
  }

  /// Holds an event until the missed ones have been yielded. If the reader is so slow that too many
  /// come meanwhile, all are dropped: the log has those that matter.
  mutating func hold(_ event: CountdownEvent) {
    guard !isOverfull else { return }
    if event.name != .snapshot { heldCount += 1 }
    if heldCount > Self.maximumHeld {
      isOverfull = true
      held = []
    } else {
      held?.append(event)
    }
  }
}

/// The delay before the next attempt: doubled each time, up to 0.5 s, with random jitter, so that
/// clients do not all reconnect to a restarted daemon at once. It starts over once a connection has
/// lasted.
struct Backoff {
  static let first = Duration.milliseconds(100)
  static let longest = Duration.milliseconds(500)
  /// How long a connection is open before it counts as one that lasts.
  static let lasting = Duration.seconds(1)

  private var delay = first

  mutating func connectionLasted(_ time: Duration) {
    if time >= Self.lasting { delay = Self.first }
  }

  mutating func next() -> Duration {
    defer { delay = min(delay * 2, Self.longest) }
    return delay * Double.random(in: 0.75...1.25)
  }
}
