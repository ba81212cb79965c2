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
  let ends: ContinuousClock.Instant

  private struct State {
    var unread = ByteBuffer()
    /// The number of the first snapshot of each channel; events before it are dropped.
    var snapshots: [String: Int] = [:]
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
  func offer(_ event: CountdownEvent) {
    let isWanted = state.withLock { state in
      if event.name == .snapshot, state.snapshots[event.channel] == nil {
        state.snapshots[event.channel] = event.seq ?? 0
      }
      return state.snapshots[event.channel] != nil
    }
    if isWanted { offer(text(event)) }
  }

  private func text(_ event: CountdownEvent) -> String {
    let id = event.seq.map { "id: \($0)\n" } ?? ""
    return (aliases[event.channel] ?? []).map {
      "\(id)data: \(event.fields.page(alias: $0).json)\n\n"
    }.joined()
  }

  /// Appends a message of the gateway itself.
  func offer(notice: String) { offer(Self.notice(notice)) }

  private static func notice(_ name: String, _ fields: [(String, Int)] = []) -> String {
    let pairs = fields.map { RESPValue.Pair(.simpleString($0.0), .integer($0.1)) }
    let event = RESPValue.Pair(.simpleString("event"), .simpleString(name))
    return "data: \(RESPValue.map([event] + pairs).json)\n\n"
  }

  /// Appends a comment if nothing was sent for this long.
  func keepAlive(after silence: Duration, at now: ContinuousClock.Instant) {
    if state.withLock({ now - $0.lastOffer >= silence && !$0.isHeld }) { offer(":\n\n") }
  }

  private func offer(_ text: String) {
    let (reader, bytes, isFull) = state.withLock { state in
      guard !state.isFinished else {
        return (nil as CheckedContinuation<ByteBuffer?, Never>?, nil as ByteBuffer?, false)
      }
      state.lastOffer = .now
      state.unread.writeString(text)
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

  var hasAllSnapshots: Bool {
    state.withLock { $0.snapshots.count == aliases.count || $0.isFinished }
  }

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
        before.writeString(text(event))
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
    let reader = state.withLock { state in
      defer { state.reader = nil }
      state.isFinished = true
      state.isHeld = false
      return state.reader
    }
    reader?.resume(returning: nil)
  }
}
