import CountdownClient
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization

/// All streams, and one subscription to the channels that they watch.
final class Hub: Service {
  struct Limits {
    var streamsPerTicket = 4
    var streamsPerAddress = 64
    /// Below the daemon's default limit for one connection.
    var channels = 90_000
    var silence = Duration.seconds(15)
    /// Seconds until a stream ends, at random, so that pages do not all reconnect at once.
    var life = 3_000.0...3_600.0
  }

  private struct State {
    /// Another one after the daemon has refused the gateway.
    var subscription: ChannelSubscription
    var streams: Set<EventStream> = []
    var channels: [String: Watchers<EventStream>] = [:]
    var perTicket: [String: Int] = [:]
    var perAddress: [String: Int] = [:]
    var isEnding = false
    /// Whether the subscription has a connection, as far as its events show.
    var isLive = false
    /// After the newest event of the subscription.
    var place = Place()
  }

  private let daemon: Daemon
  private let limits: Limits
  private let figures: Figures
  private let missed: MissedEvents
  private let loops = Array(MultiThreadedEventLoopGroup.singleton.makeIterator())
  private let state: Mutex<State>

  init(_ daemon: Daemon, _ figures: Figures, limits: Limits) {
    self.daemon = daemon
    self.figures = figures
    self.limits = limits
    missed = MissedEvents(daemon)
    state = Mutex(State(subscription: daemon.client.subscription(ticks: false)))
  }

  var streamCount: Int { state.withLock { $0.streams.count } }

  func run() async throws {
    await withGracefulShutdownHandler {
      await withDiscardingTaskGroup { group in
        group.addTask(executorPreference: LoopExecutor(loop: Daemon.loop)) { await self.deliver() }
        group.addTask { await self.tend() }
        try? await gracefulShutdown()
        group.cancelAll()
      }
    } onGracefulShutdown: {
      self.endAll()
    }
  }

  // MARK: Streams

  /// Opens a stream: a greeting, missed events if the page sends `last`, snapshots, changes.
  ///
  /// - Parameters:
  ///   - last: the `id` that the page has seen last.
  ///   - channel: the connection that the stream will write to.
  func open(
    _ ticket: Ticket, now: Int, from address: String, after last: String?, on channel: any Channel
  ) async throws -> EventStream {
    let life = min(Double(ticket.expires - now), Double.random(in: limits.life))
    let stream = EventStream(
      ticket, address: address, ends: .now + .seconds(life), channel: channel)
    // Checks the limits first, so that refused streams cost the daemon nothing.
    try admit(stream)
    channel.closeFuture.whenComplete { [weak self, weak stream] _ in
      if let stream { self?.remove(stream) }
    }
    do {
      // Without a daemon, this fails at once; snapshots would be awaited until the limit.
      if !state.withLock({ $0.isLive && $0.place.log != nil }) { try await learnLog() }
      // `tend` ends a stream that waits for too long.
      join(stream)
      guard await stream.hasSnapshots() else {
        throw Problem.daemonDown("countdownd does not answer")
      }
      var answer = MissedEvents.Answer()
      if let last {
        // The snapshots must be there first, so that no event is lost or repeated.
        let isShared = state.withLock { $0.place.log?.isEmpty == false }
        answer = try await missed.answer(
          Array(stream.aliases.keys), after: last, isShared: isShared)
      }
      stream.greet(endsIn: life, answer)
      figures.hasOpened()
      return stream
    } catch {
      remove(stream)
      throw error
    }
  }

  /// Asks for the name of the daemon's event log, for the ids of messages.
  private func learnLog() async throws {
    let cursor = try await daemon.ask(["EVENTS", "CURSOR"]).string ?? ""
    state.withLock { $0.place.log = Place.log(in: cursor) }
  }

  /// Ends the streams of a user.
  func end(of subject: String) {
    for stream in state.withLock({ $0.streams }) where stream.ticket.subject == subject {
      end(stream)
    }
  }

  private func admit(_ stream: EventStream) throws(Problem) {
    let refusal: Problem? = state.withLock { state in
      if state.isEnding { return .daemonDown("the gateway is shutting down") }
      if state.perTicket[stream.ticket.id, default: 0] >= limits.streamsPerTicket {
        return Problem(
          .tooManyRequests,
          "a ticket has at most \(limits.streamsPerTicket) streams at a time; close another one",
          retryAfter: 5)
      }
      if state.perAddress[stream.address, default: 0] >= limits.streamsPerAddress {
        return Problem(
          .tooManyRequests,
          "an address has at most \(limits.streamsPerAddress) streams at a time", retryAfter: 5)
      }
      if state.channels.count + stream.aliases.count > limits.channels {
        return Problem(.serviceUnavailable, "too many channels are watched", retryAfter: 5)
      }
      state.perTicket[stream.ticket.id, default: 0] += 1
      state.perAddress[stream.address, default: 0] += 1
      state.streams.insert(stream)
      return nil
    }
    if let refusal { throw refusal }
  }

  private func join(_ stream: EventStream) {
    state.withLock { state in
      // It may have ended meanwhile.
      guard state.streams.contains(stream) else { return }
      for channel in stream.aliases.keys.sorted()
      where state.channels[channel, default: Watchers()].join(stream) {
        // Under the lock, so that the daemon receives commands in the order of the changes.
        if let channel = EntityChannel(channel) { state.subscription.add(channel.events) }
      }
    }
  }

  /// Removes a stream. Idempotent.
  func remove(_ stream: EventStream) {
    state.withLock { state in
      guard state.streams.remove(stream) != nil else { return }
      Self.countDown(&state.perTicket[stream.ticket.id])
      Self.countDown(&state.perAddress[stream.address])
      for channel in stream.aliases.keys {
        guard state.channels[channel]?.leave(stream) == true else { continue }
        if state.channels[channel]?.isIdle == true { state.channels[channel] = nil }
        if let channel = EntityChannel(channel) { state.subscription.remove(channel.events) }
      }
    }
    stream.finish()
  }

  private static func countDown(_ count: inout Int?) {
    count = count.flatMap { $0 > 1 ? $0 - 1 : nil }
  }

  // MARK: Events

  private func deliver() async {
    while await deliverOfOneSubscription() {
      // The daemon refuses the gateway; the rules of `access` may change again.
      try? await Task.sleep(for: .seconds(1))
      state.withLock { state in
        state.subscription = daemon.client.subscription(ticks: false)
        for channel in state.channels.keys.sorted() {
          if let channel = EntityChannel(channel) { state.subscription.add(channel.events) }
        }
      }
    }
  }

  /// Returns whether another subscription is needed.
  private func deliverOfOneSubscription() async -> Bool {
    do {
      for try await event in state.withLock({ $0.subscription }).events {
        switch event.name {
        case .disconnected:
          disconnect()
          tellAll("outage")
        case .resubscribed:
          // It may be another daemon. Without an answer, events have no id for now.
          try? await learnLog()
          tellAll("recovered")
        case .gap: tellAll("gap")
        default: deliver(event, at: .now)
        }
      }
      return false
    } catch CountdownClientError.server {
      // Pages connect again, and then see what they missed.
      disconnect()
      for stream in state.withLock({ $0.streams }) { end(stream) }
      return !Task.isCancelled
    } catch {
      // A violation of the protocol.
      endAll()
      return false
    }
  }

  /// Writes an event on the event loops of its streams, so that no stream needs a task.
  private func deliver(_ event: CountdownEvent, at time: ContinuousClock.Instant) {
    let (streams, id) = readers(of: event)
    if streams.isEmpty { return }
    let aliases = streams.reduce(into: Set()) { $0.formUnion($1.aliases[event.channel] ?? []) }
    let lines = EventLines(event, for: aliases, id: id, at: SteadyClock.milliseconds)
    let loops = streams.count == 1 ? streams.map(\.loop) : loops
    for loop in loops {
      loop.execute { [figures] in
        var (count, bytes) = (0, 0)
        for stream in streams where stream.loop === loop {
          bytes += stream.offer(lines)
          count += 1
        }
        if count > 0 { figures.hasDelivered(count, bytes: bytes, in: .now - time) }
      }
    }
  }

  /// Returns the streams of an event, and its id.
  private func readers(of event: CountdownEvent) -> (Set<EventStream>, id: String?) {
    state.withLock { state in
      state.isLive = true
      state.place.pass(event)
      let id = state.place.text
      guard event.name == .snapshot else {
        return (state.channels[event.channel]?.readersOfEvent() ?? [], id)
      }
      let level = event.fields["level"]?.string ?? ""
      let readers = state.channels[event.channel]?.readersOfSnapshot(level: level) ?? []
      if state.channels[event.channel]?.isIdle == true { state.channels[event.channel] = nil }
      return (readers, id)
    }
  }

  private func disconnect() {
    state.withLock { state in
      state.isLive = false
      state.place.log = nil
      for channel in state.channels.keys {
        state.channels[channel]?.disconnect()
        if state.channels[channel]?.isIdle == true { state.channels[channel] = nil }
      }
    }
  }

  private func tellAll(_ notice: String) {
    for stream in state.withLock({ $0.streams }) { stream.offer(notice: notice) }
  }

  /// Ends streams whose time is over, and keeps the others alive.
  private func tend() async {
    while !Task.isCancelled {
      try? await Task.sleep(for: .seconds(1))
      let now = ContinuousClock.now
      for stream in state.withLock({ $0.streams }) {
        if now >= stream.ends {
          end(stream)
        } else if now >= stream.begins + Daemon.patience, stream.isOpening {
          remove(stream)
        } else {
          stream.keepAlive(after: limits.silence, at: now)
        }
      }
    }
  }

  private func end(_ stream: EventStream) {
    stream.offer(notice: "end")
    remove(stream)
  }

  private func endAll() {
    let streams = state.withLock { state in
      state.isEnding = true
      return state.streams
    }
    for stream in streams { end(stream) }
  }
}
