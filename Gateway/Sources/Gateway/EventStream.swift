import CountdownClient
import NIOCore
import Synchronization

/// The unread lines of one page.
///
/// Writers never wait. If a page does not read, its connection is closed.
final class EventStream: Sendable {
  /// The number of unread bytes above which the stream ends.
  static let mostUnread = 64 << 10

  /// Aliases by channel: one channel may have several.
  let aliases: [String: [String]]
  let ticket: String
  let address: String
  let begins = ContinuousClock.now
  let ends: ContinuousClock.Instant

  private struct State {
    var unread = ByteBuffer()
    /// The number of the first snapshot of each channel; events before it are dropped.
    var snapshots: [String: Int] = [:]
    /// Waits for the first snapshots.
    var opener: CheckedContinuation<Void, Never>?
    /// Whether lines are held back, until the stream begins.
    var isHeld = true
    var reader: CheckedContinuation<ByteBuffer?, Never>?
    var isFinished = false
    var lastOffer = ContinuousClock.now

    mutating func take() -> ByteBuffer? {
      guard unread.readableBytes > 0 else { return nil }
      defer { unread = ByteBuffer() }
      return unread
    }
  }

  private let state: Mutex<State>
  /// Closes the connection.
  private let close: @Sendable () -> Void

  init(
    _ ticket: Ticket, address: String, ends: ContinuousClock.Instant,
    close: @escaping @Sendable () -> Void
  ) {
    aliases = Dictionary(grouping: ticket.watch.keys.sorted()) { ticket.watch[$0]! }
    self.ticket = ticket.id
    self.address = address
    self.ends = ends
    self.close = close
    state = Mutex(State())
  }

  // MARK: Writing

  /// Appends an event of one of the stream's channels; drops it before the channel's first
  /// snapshot.
  func offer(_ event: inout EventLines) {
    let (isWanted, opener) = state.withLock { state in
      var opener: CheckedContinuation<Void, Never>?
      if event.isSnapshot, state.snapshots[event.channel] == nil {
        state.snapshots[event.channel] = event.seq
        if state.snapshots.count == aliases.count { swap(&opener, &state.opener) }
      }
      return (state.snapshots[event.channel] != nil, opener)
    }
    if isWanted { offer(event.lines(for: aliases[event.channel] ?? [])) }
    opener?.resume()
  }

  /// Appends a message of the gateway itself.
  func offer(notice: String) { offer(ByteBuffer(string: Self.notice(notice))) }

  private static func notice(_ name: String, _ fields: [(String, Int)] = []) -> String {
    let pairs = fields.map { RESPValue.Pair(.simpleString($0.0), .integer($0.1)) }
    let event = RESPValue.Pair(.simpleString("event"), .simpleString(name))
    return "data: \(RESPValue.map([event] + pairs).json)\n\n"
  }

  /// Appends a comment if nothing was sent for this long.
  func keepAlive(after silence: Duration, at now: ContinuousClock.Instant) {
    if state.withLock({ now - $0.lastOffer >= silence && !$0.isHeld }) {
      offer(Self.comment)
    }
  }

  private static let comment = ByteBuffer(string: ":\n\n")

  private func offer(_ lines: ByteBuffer) {
    let (reader, bytes, isFull) = state.withLock { state in
      guard !state.isFinished else {
        return (nil as CheckedContinuation<ByteBuffer?, Never>?, nil as ByteBuffer?, false)
      }
      state.lastOffer = .now
      // The lines are shared by all streams, as long as nothing is before them.
      if state.unread.readableBytes == 0 {
        state.unread = lines
      } else {
        state.unread.writeImmutableBuffer(lines)
      }
      if state.unread.readableBytes > Self.mostUnread { return (nil, nil, true) }
      guard let reader = state.reader, !state.isHeld else { return (nil, nil, false) }
      state.reader = nil
      return (reader, state.take(), false)
    }
    if isFull {
      finish()
      close()
    }
    reader?.resume(returning: bytes)
  }

  // MARK: Beginning

  /// Waits for the first snapshot of each channel.
  ///
  /// - Returns: the number up to which they include events; nil if the stream has ended instead.
  func snapshots() async -> Int? {
    await withCheckedContinuation { continuation in
      let isNow = state.withLock { state in
        guard state.snapshots.count < aliases.count, !state.isFinished else { return true }
        state.opener = continuation
        return false
      }
      if isNow { continuation.resume() }
    }
    return state.withLock { state in
      state.snapshots.count == aliases.count ? state.snapshots.values.min() : nil
    }
  }

  /// Whether it waits for snapshots.
  var isOpening: Bool { state.withLock { $0.opener != nil } }

  /// Begins with a greeting, a notice if missed events are lost, and the missed events up to the
  /// snapshots. The lines offered before follow.
  ///
  /// - Parameter position: the number of the last event before the stream.
  func begin(
    at position: Int, endsIn life: Double, missed: [CountdownEvent] = [], isComplete: Bool = true
  ) {
    let (reader, bytes) = state.withLock { state in
      var before = ByteBuffer(string: "id: \(position)\n")
      before.writeString(Self.notice("hello", [("ends_in_ms", Int(life * 1_000))]))
      if !isComplete { before.writeString(Self.notice("gap")) }
      for event in missed {
        // A snapshot has the number of the newest event that it includes.
        guard let seq = event.seq, seq <= state.snapshots[event.channel] ?? .max else { continue }
        var event = EventLines(event)
        before.writeImmutableBuffer(event.lines(for: aliases[event.channel] ?? []))
      }
      var rest = state.unread
      before.writeBuffer(&rest)
      state.unread = before
      state.isHeld = false
      guard let reader = state.reader, let bytes = state.take() else {
        return (nil as CheckedContinuation<ByteBuffer?, Never>?, nil as ByteBuffer?)
      }
      state.reader = nil
      return (reader, bytes)
    }
    reader?.resume(returning: bytes)
  }

  // MARK: Reading

  /// Returns everything unread, waiting if there is nothing; nil at the end.
  func next() async -> ByteBuffer? {
    await withCheckedContinuation { continuation in
      let (isNow, bytes) = state.withLock { state in
        if state.unread.readableBytes > 0, !state.isHeld { return (true, state.take()) }
        if state.isFinished { return (true, nil) }
        state.reader = continuation
        return (false, nil)
      }
      if isNow { continuation.resume(returning: bytes) }
    }
  }

  /// Ends the stream once everything has been read.
  func finish() {
    let (reader, opener) = state.withLock { state in
      defer { (state.reader, state.opener) = (nil, nil) }
      state.isFinished = true
      state.isHeld = false
      return (state.reader, state.opener)
    }
    reader?.resume(returning: nil)
    opener?.resume()
  }
}

extension EventStream: Hashable {
  static func == (a: EventStream, b: EventStream) -> Bool { a === b }
  func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// An event as pages receive it, encoded once for all pages that use the same alias.
struct EventLines {
  private let event: CountdownEvent
  private var encoded: [String: ByteBuffer] = [:]

  init(_ event: CountdownEvent) { self.event = event }

  var channel: String { event.channel }
  var isSnapshot: Bool { event.name == .snapshot }
  var seq: Int { event.seq ?? 0 }

  mutating func lines(for aliases: [String]) -> ByteBuffer {
    guard aliases.count > 1 else { return aliases.first.map { lines(for: $0) } ?? ByteBuffer() }
    var all = ByteBuffer()
    for alias in aliases { all.writeImmutableBuffer(lines(for: alias)) }
    return all
  }

  private mutating func lines(for alias: String) -> ByteBuffer {
    if let lines = encoded[alias] { return lines }
    let id = event.seq.map { "id: \($0)\n" } ?? ""
    let lines = ByteBuffer(string: "\(id)data: \(event.fields.page(alias: alias).json)\n\n")
    encoded[alias] = lines
    return lines
  }
}
