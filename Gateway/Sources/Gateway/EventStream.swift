import CountdownClient
import NIOCore
import Synchronization

/// The stream of one page, which writes to the page's connection.
///
/// Writers never wait. If a page does not read, its connection is closed.
final class EventStream: Sendable {
  /// The number of unwritten bytes above which the stream ends.
  static let mostUnread = 64 << 10

  /// Aliases by channel: one channel may have several.
  let aliases: [String: [String]]
  let ticket: Ticket
  let address: String
  let begins = ContinuousClock.now
  let ends: ContinuousClock.Instant
  private let channel: any Channel

  private struct State {
    /// What comes before the held lines: a greeting, and the missed events.
    var greeting = ByteBuffer()
    /// Lines that wait until the stream has its connection; nil afterwards.
    var held: ByteBuffer? = ByteBuffer()
    /// The first snapshot of each channel; events before it are dropped.
    var snapshots: [String: SnapshotPoint] = [:]
    /// Waits for the first snapshots.
    var opener: CheckedContinuation<Void, Never>?
    var isFinished = false
    var lastOffer = ContinuousClock.now
  }

  private let state = Mutex(State())

  init(_ ticket: Ticket, address: String, ends: ContinuousClock.Instant, channel: any Channel) {
    aliases = Dictionary(grouping: ticket.watch.keys.sorted()) { ticket.watch[$0]! }
    self.ticket = ticket
    self.address = address
    self.ends = ends
    self.channel = channel
  }

  /// The event loop on which events are offered.
  var loop: any EventLoop { channel.eventLoop }

  // MARK: Writing

  /// Writes an event of one of the stream's channels; drops it before the channel's first snapshot.
  ///
  /// - Returns: the number of bytes.
  func offer(_ event: EventLines) -> Int {
    let (isWanted, opener) = state.withLock { state in
      var opener: CheckedContinuation<Void, Never>?
      if let snapshot = event.snapshot, state.snapshots[event.channel] == nil {
        state.snapshots[event.channel] = snapshot
        if state.snapshots.count == aliases.count { swap(&opener, &state.opener) }
      }
      return (state.snapshots[event.channel] != nil, opener)
    }
    defer { opener?.resume() }
    guard isWanted else { return 0 }
    let lines = event.lines(for: aliases[event.channel] ?? [])
    offer(lines)
    return lines.readableBytes
  }

  /// Writes a message of the gateway itself.
  func offer(notice: String) { offer(ByteBuffer(string: Self.notice(notice))) }

  private static func notice(_ name: String, _ fields: [RESPValue.Pair] = []) -> String {
    let event = RESPValue.Pair(.simpleString("event"), .simpleString(name))
    let now = RESPValue.Pair(.simpleString("now_ms"), .integer(SteadyClock.milliseconds))
    return "data: \(RESPValue.map([event] + fields + [now]).json)\n\n"
  }

  /// Writes a comment with the time if nothing was sent for this long.
  func keepAlive(after silence: Duration, at now: ContinuousClock.Instant) {
    if state.withLock({ now - $0.lastOffer >= silence && $0.held == nil }) {
      offer(ByteBuffer(string: ": \(SteadyClock.milliseconds)\n\n"))
    }
  }

  private func offer(_ lines: ByteBuffer) {
    let (flows, isFull) = state.withLock { state in
      guard !state.isFinished else { return (false, false) }
      state.lastOffer = .now
      guard state.held != nil else { return (true, !channel.isWritable) }
      state.held?.writeImmutableBuffer(lines)
      return (false, state.held!.readableBytes > Self.mostUnread)
    }
    if isFull {
      finish()
    } else if flows {
      channel.writeAndFlush(lines, promise: nil)
    }
  }

  // MARK: Beginning

  /// Waits for the first snapshot of each channel.
  ///
  /// - Returns: whether all are there; else the stream has ended.
  func hasSnapshots() async -> Bool {
    await withCheckedContinuation { continuation in
      let isNow = state.withLock { state in
        guard state.snapshots.count < aliases.count, !state.isFinished else { return true }
        state.opener = continuation
        return false
      }
      if isNow { continuation.resume() }
    }
    return state.withLock { $0.snapshots.count == aliases.count }
  }

  /// Whether it waits for snapshots.
  var isOpening: Bool { state.withLock { $0.opener != nil } }

  /// Begins with a greeting, a notice if missed events are lost, and the missed events up to the
  /// snapshots. The lines offered before follow.
  func greet(endsIn life: Double, _ missed: MissedEvents.Answer) {
    var greeting = ByteBuffer()
    let names = ticket.watch.keys.sorted().map { RESPValue.simpleString($0) }
    greeting.writeString(
      Self.notice(
        "hello",
        [
          .init(.simpleString("ends_in_ms"), .integer(Int(life * 1_000))),
          .init(.simpleString("aliases"), .array(names)),
        ]))
    if !missed.isComplete { greeting.writeString(Self.notice("gap")) }
    state.withLock { state in
      for event in missed.events {
        // The others come after the snapshot.
        guard state.snapshots[event.channel]?.includes(event) != false else { continue }
        // The time that it had left has passed meanwhile. The id comes with the snapshots.
        let names = aliases[event.channel] ?? []
        greeting.writeImmutableBuffer(
          EventLines(event, for: names, id: nil, at: nil).lines(for: names))
      }
      state.greeting = greeting
    }
  }

  /// Writes the head of the response, and everything held. From now on, lines are written at once.
  func flow(after head: ByteBuffer) {
    loop.assertInEventLoop()
    let (bytes, isFinished) = state.withLock { state in
      var bytes = head
      bytes.writeImmutableBuffer(state.greeting)
      bytes.writeImmutableBuffer(state.held ?? ByteBuffer())
      state.held = nil
      state.greeting = ByteBuffer()
      return (bytes, state.isFinished)
    }
    channel.writeAndFlush(bytes, promise: nil)
    if isFinished { channel.close(promise: nil) }
  }

  // MARK: Ending

  /// Ends the stream, and its connection.
  func finish() {
    let (opener, flows) = state.withLock { state in
      defer { state.opener = nil }
      let wasFinished = state.isFinished
      state.isFinished = true
      return (state.opener, state.held == nil && !wasFinished)
    }
    opener?.resume()
    if flows { channel.close(promise: nil) }
  }
}

extension EventStream: Hashable {
  static func == (a: EventStream, b: EventStream) -> Bool { a === b }
  func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// A clock that nobody can set, in milliseconds. It runs in suspend, too.
enum SteadyClock {
  private static let start = ContinuousClock.now

  static var milliseconds: Int { Int((ContinuousClock.now - start) / .milliseconds(1)) }
}

/// An event as pages receive it, encoded once for all pages that use the same alias.
///
/// It goes to other threads without the event, whose many small parts would be freed there.
struct EventLines: Sendable {
  let channel: String
  /// What the event includes; nil if it is no snapshot.
  let snapshot: SnapshotPoint?
  private var encoded: [String: ByteBuffer] = [:]

  /// - Parameters:
  ///   - aliases: those that pages use for the channel.
  ///   - id: where to continue after the event.
  ///   - now: when the event has arrived, by the steady clock; nil if it is an old one.
  init(_ event: CountdownEvent, for aliases: some Sequence<String>, id: String?, at now: Int?) {
    channel = event.channel
    snapshot = event.name == .snapshot ? SnapshotPoint(event) : nil
    var times: [RESPValue.Pair] = []
    if let now {
      times.append(.init(.simpleString("now_ms"), .integer(now)))
      if let left = event.fields["remaining_ms"]?.int {
        times.append(.init(.simpleString("deadline_ms"), .integer(now + left)))
      }
    }
    let id = id.map { "id: \($0)\n" } ?? ""
    for alias in aliases {
      let fields = event.fields.page(alias: alias, of: event.kind, adding: times)
      encoded[alias] = ByteBuffer(string: "\(id)data: \(fields.json)\n\n")
    }
  }

  func lines(for aliases: [String]) -> ByteBuffer {
    if aliases.count == 1 { return encoded[aliases[0]] ?? ByteBuffer() }
    return aliases.reduce(into: ByteBuffer()) { $0.writeImmutableBuffer(lines(for: [$1])) }
  }
}
