import DequeModule

/// The newest events of entities without an owner, for clients that were disconnected. Bounded.
///
/// Events are encoded as they come, and sealed into chunks. A store, where there is one, receives
/// each chunk once.
package struct EventLog {
  /// What a store receives.
  package struct Portion: Equatable, Sendable {
    /// Of the last event in it.
    package var lastSequence: Int64
    package var count: Int
    package var bytes: [UInt8]

    package init(lastSequence: Int64, count: Int, bytes: [UInt8]) {
      self.lastSequence = lastSequence
      self.count = count
      self.bytes = bytes
    }

    /// What is stored where none are to be kept any more: those before it are dropped.
    package static let none = Portion(lastSequence: 0, count: 0, bytes: [])
    package var dropsAll: Bool { lastSequence == 0 }

    /// Adds those that follow.
    package mutating func append(_ next: Portion) {
      lastSequence = next.lastSequence
      count += next.count
      bytes += next.bytes.dropFirst(EventCoding.headerLength)
    }
  }

  /// What `read` found.
  package struct Reading: Equatable, Sendable {
    /// To read on from.
    package var lastSequence: Int64
    /// False if events between are not here any more, or never were.
    package var isComplete: Bool
    /// Whether there is more to be read at once.
    package var hasMore: Bool
  }

  private struct Chunk {
    var content = Portion(lastSequence: 0, count: 0, bytes: [])
    /// Whether a store was handed it.
    var isStored = false
  }

  /// How many events the log holds at least; at most one chunk more. 0 turns it off.
  package let limit: Int
  /// Events with numbers up to here may be missing.
  package private(set) var droppedThrough: Int64
  /// How many there are.
  package private(set) var count = 0

  private var chunks: Deque<Chunk> = []
  /// Takes what comes.
  private var open = Chunk()
  /// Longer memory than this is not kept for the next chunk.
  private static let mostKept = 256 << 10
  private let words = Words.Owner()
  /// Of the last event that has an essence.
  private var tail = EventCoding.Tail()

  /// - Parameter sequence: nothing is known of events up to this number.
  init(limit: Int, after sequence: Int64) {
    self.limit = limit
    droppedThrough = sequence
  }

  package var isOn: Bool { limit > 0 }

  /// Of the newest event that is kept.
  package var lastSequence: Int64 {
    if open.content.count > 0 { return open.content.lastSequence }
    return chunks.last?.content.lastSequence ?? droppedThrough
  }

  /// All portions that a store received, oldest first, for another store. Nothing is missing after
  /// `droppedThrough`.
  package var portions: [Portion] { chunks.map(\.content) }

  /// Whether these are events, as `restore` takes them.
  package static func makesSense(_ bytes: [UInt8]) -> Bool { EventCoding.count(bytes) != nil }

  /// Some of the events up to that number are not known.
  package mutating func forget(through sequence: Int64) {
    (chunks, count) = ([], 0)
    open = Chunk()
    droppedThrough = sequence
  }

  /// Of the events up to that number some may be missing, after those that are here.
  package mutating func noteGap(through sequence: Int64) {
    seal()
    droppedThrough = max(droppedThrough, sequence)
  }

  // MARK: Adding

  /// O(length of the event).
  mutating func append(_ head: Event.Head, _ view: some EntityView) {
    append(head, key: view.key.span, view)
  }

  /// - Parameter key: of what it is about, whatever key the view has.
  mutating func append(
    _ head: Event.Head, key: Span<UInt8>, _ view: some EntityView
  ) {
    append(head, view.kind, key: key, view.mostEventBytes(head)) {
      head.writeRest(of: view, to: &$0)
    }
  }

  /// The same for what time does to countdowns, of which there may be many at one moment.
  mutating func append(_ event: TimedEvent, key: Span<UInt8>, title: [UInt8]?) {
    var size = FieldSize()
    event.writeRest(title: title, to: &size)
    append(event.head, .countdown, key: key, size.bytes) { event.writeRest(title: title, to: &$0) }
  }

  /// The same for one of many that may differ in nothing but their numbers and keys: those with the
  /// `essence` of the one before are not made, but copied.
  @inline(__always)
  mutating func append(
    _ head: Event.Head, key: Span<UInt8>, _ essence: EventCoding.Tail.Essence,
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

  /// Bytes of the fields of an event that has nothing but numbers and words of ours.
  static let mostOfNumbers = 2_048

  /// The same for one that was written by another daemon, under another number.
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
    if open.content.count >= min(limit, 1_024) { seal() }
  }

  private mutating func seal() {
    guard open.content.count > 0 else { return }
    let bytes = open.content.bytes
    // A copy, which takes no more memory than it needs; what it came in takes the next chunk.
    open.content.bytes = Array(bytes.span)
    chunks.append(open)
    open = Chunk()
    open.content.bytes = bytes
    open.content.bytes.removeAll(keepingCapacity: bytes.count <= Self.mostKept)
    trim()
  }

  private mutating func trim() {
    while let oldest = chunks.first?.content, count - oldest.count >= limit {
      count -= oldest.count
      droppedThrough = max(droppedThrough, oldest.lastSequence)
      chunks.removeFirst()
    }
  }

  // MARK: Storing

  /// Whether there is anything that no store was handed.
  package var hasUnstored: Bool {
    open.content.count > 0 || chunks.last?.isStored == false
  }

  /// What has come since the last call; nil if nothing.
  package mutating func takeUnstored() -> Portion? {
    seal()
    var first = chunks.count
    while first > 0, !chunks[first - 1].isStored { first -= 1 }
    guard first < chunks.count else { return nil }
    var portion = chunks[first].content
    for chunk in chunks[(first + 1)...] { portion.append(chunk.content) }
    for index in first..<chunks.count { chunks[index].isStored = true }
    return portion
  }

  /// Puts back what a store has, oldest first, before any new event.
  ///
  /// - Parameter sequence: events up to this one, and after those of the portion before, are
  ///   missing.
  /// - Returns: whether they can be read. If not, those before them may be missing, too.
  @discardableResult
  package mutating func restore(
    _ bytes: [UInt8], after sequence: Int64, through last: Int64
  ) -> Bool {
    guard isOn else { return true }
    // In a damaged file they may come in any order, or twice.
    if let newest = chunks.last?.content.lastSequence, last <= newest {
      droppedThrough = newest
      return false
    }
    // The first; or one that does not follow on the one before: nobody knows what was between.
    if chunks.last.map({ sequence > $0.content.lastSequence }) ?? true { droppedThrough = sequence }
    guard let count = EventCoding.count(bytes) else {
      // Of a version that is not known here.
      forget(through: last)
      return false
    }
    guard count > 0 else { return true }
    self.count += count
    chunks.append(
      Chunk(content: Portion(lastSequence: last, count: count, bytes: bytes), isStored: true))
    trim()
    return true
  }

  // MARK: Reading

  /// Events after a number, oldest first.
  ///
  /// - Parameters:
  ///   - last: the number of the newest event of the engine, retained or not.
  ///   - limit: the most events.
  ///   - budget: the most work, a few milliseconds of it: 1 for each event that is examined, and
  ///     what `matches` takes. At least one event is examined.
  ///   - body: returns whether it has room for another one.
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

  /// The first that may have events after a number. O(log n).
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
