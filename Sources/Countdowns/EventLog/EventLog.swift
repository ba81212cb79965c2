import DequeModule

/// A bounded log of the newest events of entities without an owner, and of the ends of those with
/// one, for clients that were disconnected.
///
/// Events are encoded as they arrive, and sealed into chunks. A store, if there is one, receives
/// each chunk once.
package struct EventLog {
  /// Encoded events, as a store receives them.
  package struct Portion: Equatable, Sendable {
    /// The number of the last event in the portion.
    package var lastSequence: Int64
    package var count: Int
    package var bytes: [UInt8]

    package init(lastSequence: Int64, count: Int, bytes: [UInt8]) {
      self.lastSequence = lastSequence
      self.count = count
      self.bytes = bytes
    }

    /// A portion that makes a store drop all events before it.
    package static let none = Portion(lastSequence: 0, count: 0, bytes: [])
    package var dropsAll: Bool { lastSequence == 0 }

    /// Appends the events that follow.
    package mutating func append(_ next: Portion) {
      lastSequence = next.lastSequence
      count += next.count
      bytes += next.bytes.dropFirst(EventCoding.headerLength)
    }
  }

  /// The result of `read`.
  package struct Reading: Equatable, Sendable {
    /// The number after which to continue reading.
    package var lastSequence: Int64
    /// Whether the log has all events after the requested number.
    package var isComplete: Bool
    /// Whether more events can be read at once.
    package var hasMore: Bool
  }

  private struct Chunk {
    var content = Portion(lastSequence: 0, count: 0, bytes: [])
    /// Whether a store has received the chunk.
    var isStored = false

    /// The memory that it takes, with what manages it.
    var size: Int { content.bytes.count + 96 }
  }

  /// The number of events that the log retains, plus at most one chunk. 0 turns it off.
  package let limit: Int
  /// The most bytes of the sealed chunks.
  private let mostBytes: Int
  /// Events with numbers up to here may be missing.
  package private(set) var droppedThrough: Int64
  /// The number of events in the log.
  package private(set) var count = 0
  /// How many events were dropped because of `mostBytes`.
  package private(set) var evicted = 0

  private var chunks: Deque<Chunk> = []
  /// The chunk that receives new events.
  private var open = Chunk()
  /// The bytes of all sealed chunks.
  private var sealedBytes = 0
  /// How many events, and bytes of them, fill a chunk.
  private let fullCount: Int
  private let fullBytes: Int
  /// The most bytes of memory that are reused for the next chunk.
  private static let mostKept = 256 << 10
  /// How many ends of owned entities it takes now. An owner may have very many, and their ends must
  /// not evict the rest.
  private var roomForOwned: Int
  /// How many events of `open` have made room for them, or are such ends.
  private var seenInOpen = 0
  /// The gap after the retained events that no store has received.
  private var unstoredGap: Int64?
  private let words = Words.Owner()
  /// The tail of the last event that was appended with an essence.
  private var tail = EventCoding.Tail()

  /// - Parameter sequence: events up to this number are unknown.
  init(limit: Int, bytes: Int = .max, after sequence: Int64) {
    self.limit = limit
    mostBytes = bytes
    fullCount = min(limit, 1_024)
    fullBytes = min(bytes / 16, Self.mostKept)
    droppedThrough = sequence
    roomForOwned = limit / Self.ownedShare
  }

  /// Ends of owned entities take at most one of so many places at once, and over time.
  private static let ownedShare = 4

  package var isOn: Bool { limit > 0 }

  /// The bytes of memory that the events take.
  package var bytes: Int { sealedBytes + open.content.bytes.count }

  /// The number of the newest retained event; `droppedThrough` if there is none.
  package var lastSequence: Int64 {
    if open.content.count > 0 { return open.content.lastSequence }
    return chunks.last?.content.lastSequence ?? droppedThrough
  }

  /// All sealed portions, oldest first, for another store. No event after `droppedThrough` is
  /// missing.
  package var portions: [Portion] { chunks.map(\.content) }

  /// Returns whether the bytes are events that `restore` accepts.
  package static func isValid(_ bytes: [UInt8]) -> Bool { EventCoding.count(bytes) != nil }

  /// Discards all events. Events up to `sequence` are then missing.
  package mutating func forget(through sequence: Int64) {
    (chunks, count, sealedBytes) = ([], 0, 0)
    open = Chunk()
    droppedThrough = sequence
  }

  /// Notes that events after the retained ones, up to `sequence`, may be missing.
  package mutating func noteGap(through sequence: Int64) {
    seal()
    droppedThrough = max(droppedThrough, sequence)
  }

  // MARK: Adding

  /// Returns whether the end of an owned entity is to be appended. If not, it is missing.
  mutating func takesEndOfOwned(_ sequence: Int64) -> Bool {
    guard isOn else { return false }
    makeRoomForOwned()
    guard roomForOwned > 0 else {
      noteGap(through: sequence)
      unstoredGap = sequence
      return false
    }
    roomForOwned -= 1
    seenInOpen += 1
    return true
  }

  private mutating func makeRoomForOwned() {
    let others = max(open.content.count - seenInOpen, 0)
    roomForOwned = min(roomForOwned + others / (Self.ownedShare - 1), limit / Self.ownedShare)
    seenInOpen = open.content.count
  }

  /// O(length of the event).
  mutating func append(_ head: Event.Head, _ view: some EntityView) {
    append(head, key: view.key.span, view)
  }

  /// - Parameter key: the key of the entity, whatever key the view has.
  mutating func append(
    _ head: Event.Head, key: Span<UInt8>, _ view: some EntityView
  ) {
    append(head, view.kind, key: key, view.mostEventBytes(head)) {
      head.writeRest(of: view, to: &$0)
    }
  }

  /// Appends a timed event of a countdown. There may be many of these at one moment.
  mutating func append(_ event: TimedEvent, key: Span<UInt8>, title: [UInt8]?) {
    var size = FieldSize()
    event.writeRest(title: title, to: &size)
    append(event.head, .countdown, key: key, size.bytes) { event.writeRest(title: title, to: &$0) }
  }

  /// Appends one of many events that may differ only in their numbers and keys. If the event before
  /// had the same `essence`, its tail is copied instead of encoded again.
  @inline(__always)
  mutating func append(
    _ head: Event.Head, key: Span<UInt8>, _ essence: EventCoding.Tail.TailKey,
    _ view: () -> some EntityView
  ) {
    if open.content.bytes.isEmpty { EventCoding.begin(&open.content.bytes) }
    tail.update(essence, head, words.words, Self.mostOfNumbers) {
      head.writeRest(of: view(), to: &$0)
    }
    EventCoding.append(
      head.sequence, .countdown, key: key, tail, to: &open.content.bytes, words.words)
    noteAppended(head.sequence)
  }

  /// The most bytes of the fields of an event that reports only numbers and predefined words.
  static let mostOfNumbers = 2_048

  /// Appends an event that another daemon has written, with a new sequence number.
  mutating func append(_ event: borrowing LoggedEvent, as sequence: Int64) {
    if open.content.bytes.isEmpty { EventCoding.begin(&open.content.bytes) }
    event.append(as: sequence, to: &open.content.bytes, words.words)
    noteAppended(sequence)
  }

  @inline(__always)
  private mutating func append(
    _ head: Event.Head, _ kind: EntityKind, key: Span<UInt8>, _ size: Int,
    _ rest: (inout EventCoding.Writer) -> Void
  ) {
    if open.content.bytes.isEmpty { EventCoding.begin(&open.content.bytes) }
    EventCoding.append(head, kind, key: key, to: &open.content.bytes, words.words, size, rest)
    noteAppended(head.sequence)
  }

  @inline(__always)
  private mutating func noteAppended(_ sequence: Int64) {
    open.content.lastSequence = sequence
    open.content.count += 1
    count += 1
    if open.content.count >= fullCount || open.content.bytes.count >= fullBytes { seal() }
  }

  private mutating func seal() {
    guard open.content.count > 0 else { return }
    makeRoomForOwned()
    seenInOpen = 0
    let bytes = open.content.bytes
    // Keeps a copy of exactly the size needed; the next chunk reuses the larger memory.
    open.content.bytes = Array(bytes.span)
    sealedBytes += open.size
    chunks.append(open)
    open = Chunk()
    open.content.bytes = bytes
    open.content.bytes.removeAll(keepingCapacity: bytes.count <= Self.mostKept)
    trim()
  }

  private mutating func trim() {
    while let oldest = chunks.first {
      let isTooLarge = sealedBytes > mostBytes
      guard isTooLarge || count - oldest.content.count >= limit else { return }
      if isTooLarge { evicted += oldest.content.count }
      count -= oldest.content.count
      sealedBytes -= oldest.size
      droppedThrough = max(droppedThrough, oldest.content.lastSequence)
      chunks.removeFirst()
    }
  }

  // MARK: Storing

  /// Whether there are events that no store has received.
  package var hasUnstored: Bool {
    open.content.count > 0 || chunks.last?.isStored == false || unstoredGap != nil
  }

  /// Returns the gap after the events that `takeUnstored` has returned, for a store; nil if there
  /// is none.
  package mutating func takeUnstoredGap() -> Portion? {
    defer { unstoredGap = nil }
    guard let gap = unstoredGap, gap > chunks.last?.content.lastSequence ?? 0 else { return nil }
    return Portion(lastSequence: gap, count: 0, bytes: [])
  }

  /// The most bytes of a portion for a store, unless one chunk has more: a store drops it as a
  /// whole.
  private static let mostInPortion = 1 << 20

  /// The most bytes of all portions for a store, unless one chunk has more: a batch has an end.
  private static let mostAtOnce = 1 << 30

  /// Returns the events since the last call, in portions, oldest first. If there are too many, the
  /// oldest are left out: events up to `missingThrough` are missing in the store.
  package mutating func takeUnstored(
    atMost most: Int = mostInPortion, inAll total: Int = mostAtOnce
  ) -> (portions: [Portion], missingThrough: Int64) {
    seal()
    var (first, bytes, missing) = (chunks.count, 0, droppedThrough)
    var next = chunks.count
    while next > 0, !chunks[next - 1].isStored {
      next -= 1
      chunks[next].isStored = true
      bytes += chunks[next].content.bytes.count
      if bytes <= total || first == chunks.count {
        first = next
      } else {
        missing = max(missing, chunks[next].content.lastSequence)
      }
    }
    var portions: [Portion] = []
    for index in first..<chunks.count {
      let next = chunks[index].content
      if let last = portions.last, last.bytes.count + next.bytes.count <= most {
        portions[portions.count - 1].append(next)
      } else {
        portions.append(next)
      }
    }
    return (portions, missing)
  }

  /// Restores a portion from a store. Portions come oldest first, before any new event.
  ///
  /// - Parameter sequence: events after the portion before, up to this number, are missing.
  /// - Returns: whether the events can be read. If not, events before them may be missing, too.
  @discardableResult
  package mutating func restore(
    _ bytes: [UInt8], after sequence: Int64, through last: Int64
  ) -> Bool {
    guard isOn else { return true }
    // In a damaged file, portions may come in any order, or twice.
    if let newest = chunks.last?.content.lastSequence, last <= newest {
      droppedThrough = newest
      return false
    }
    // The first portion, or one after a gap: events in between are unknown.
    if chunks.last.map({ sequence > $0.content.lastSequence }) ?? true { droppedThrough = sequence }
    guard let count = EventCoding.count(bytes) else {
      // Malformed, or of an unknown version.
      forget(through: last)
      return false
    }
    guard count > 0 else { return true }
    self.count += count
    let content = Portion(lastSequence: last, count: count, bytes: bytes)
    chunks.append(Chunk(content: content, isStored: true))
    sealedBytes += chunks[chunks.count - 1].size
    trim()
    return true
  }

  // MARK: Reading

  /// Reads the events after a number, oldest first.
  ///
  /// - Parameters:
  ///   - last: the number of the newest event of the engine, retained or not.
  ///   - limit: the most events.
  ///   - budget: the most work, by default a few milliseconds: 1 for each event examined, plus what
  ///     `matches` subtracts. At least one event is examined.
  ///   - body: returns whether it has room for another event.
  package func read(
    after sequence: Int64, newest last: Int64, limit: Int, budget: Int = 20_000,
    where matches: (EntityKind, [UInt8], _ budget: inout Int) -> Bool, _ body: (LoggedEvent) -> Bool
  ) -> Reading {
    guard isOn else {
      return Reading(lastSequence: last, isComplete: sequence == last, hasMore: false)
    }
    let isComplete = sequence >= droppedThrough && sequence <= last
    var reading = Reading(lastSequence: last, isComplete: isComplete, hasMore: false)
    var found = 0
    var budget = budget
    var hasRoom = true
    for index in firstChunk(after: sequence)...chunks.count {
      let chunk = index < chunks.count ? chunks[index] : open
      let isDone = EventCoding.forEach(chunk.content.bytes) { record in
        guard record.sequence > sequence else { return true }
        guard hasRoom, found < limit, budget > 0 else { return false }
        budget -= 1
        if matches(record.kind, record.key, &budget) {
          hasRoom = body(record)
          found += 1
        }
        reading.lastSequence = record.sequence
        return true
      }
      guard isDone else {
        reading.hasMore = true
        return reading
      }
    }
    reading.lastSequence = last
    return reading
  }

  /// Returns the index of the first chunk that may have events after a number. O(log n).
  private func firstChunk(after sequence: Int64) -> Int {
    var low = 0
    var high = chunks.count
    while low < high {
      let middle = (low + high) / 2
      if chunks[middle].content.lastSequence > sequence { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
