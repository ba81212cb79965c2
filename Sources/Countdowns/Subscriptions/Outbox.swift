import Wire

/// Events on their way to subscribers, in the order in which they happened. Each is written when it
/// happens: its key, then its line of JSON, and so on.
package struct Outbox: ~Copyable {
  private struct Entry {
    let kind: EntityKind
    let canBeMerged: Bool
    let sequence: Int64
    let audience: Int
    /// Where the key begins; the line follows.
    let key: Int
    let line: Int
    let end: Int
  }

  private var entries: [Entry] = []
  private var audiences: [Audience] = []
  private var lines = JSONLine()

  package init() {}

  package var isEmpty: Bool { entries.isEmpty }
  var count: Int { entries.count }
  /// The bytes of all keys and lines.
  var length: Int { lines.count }

  /// Appends an event. `write` writes the fields of its line.
  @inline(__always)
  mutating func append(
    _ kind: EntityKind, _ key: Span<UInt8>, _ sequence: Int64, canBeMerged: Bool,
    to audience: Audience, _ write: (inout JSONLine) -> Void
  ) {
    // Successive events often have the same audience, which need not be counted again.
    if audiences.last !== audience { audiences.append(audience) }
    let start = lines.count
    lines.append(key)
    lines.begin()
    write(&lines)
    lines.end()
    entries.append(
      Entry(
        kind: kind, canBeMerged: canBeMerged, sequence: sequence, audience: audiences.count - 1,
        key: start, line: start + key.count, end: lines.count))
  }

  /// Removes all events. Keeps the memory for the next ones, unless there were many.
  package mutating func removeAll() {
    guard entries.count <= 1_024 else {
      self = Outbox()
      return
    }
    entries.removeAll(keepingCapacity: true)
    audiences.removeAll(keepingCapacity: true)
    lines.removeAll()
  }

  /// Lends the events one by one, until `body` returns false.
  ///
  /// - Parameter first: the index of the first to lend.
  /// - Returns: the index of the event for which `body` returned false, or their number.
  func lendEach(from first: Int, _ body: (Message, Audience) -> Bool) -> Int {
    let bytes = lines.bytes
    for (index, entry) in entries[first...].enumerated() {
      let message = Message(
        kind: entry.kind, key: bytes.extracting(entry.key..<entry.line),
        line: bytes.extracting(entry.line..<entry.end), sequence: entry.sequence,
        canBeMerged: entry.canBeMerged)
      guard body(message, audiences[entry.audience]) else { return first + index }
    }
    return entries.count
  }
}

/// An event as it is sent to subscribers. Its parts are lent for as long as it is sent.
struct Message: ~Escapable {
  let kind: EntityKind
  let key: Span<UInt8>
  /// The line of JSON.
  let line: Span<UInt8>
  let sequence: Int64
  /// Whether a newer event replaces this one for a client that reads too slowly.
  let canBeMerged: Bool

  /// Returns the event with another line.
  @_lifetime(copy self, copy line)
  func with(_ line: Span<UInt8>) -> Message {
    Message(kind: kind, key: key, line: line, sequence: sequence, canBeMerged: canBeMerged)
  }

  /// The channel, as subscribers name it.
  var channel: [UInt8] { kind.channelPrefix + key }

  @_lifetime(copy key, copy line)
  init(
    kind: EntityKind, key: Span<UInt8>, line: Span<UInt8>, sequence: Int64, canBeMerged: Bool
  ) {
    self.kind = kind
    self.key = key
    self.line = line
    self.sequence = sequence
    self.canBeMerged = canBeMerged
  }
}

/// Sees the events that are sent, with their views: tests compare them with models.
package protocol EventObserver: AnyObject {
  func observe(
    _ head: Event.Head, _ view: some EntityView, _ kind: EntityKind, _ key: Span<UInt8>,
    to audience: Audience)
}
