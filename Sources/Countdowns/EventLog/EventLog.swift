import DequeModule

/// A bounded log of the newest events of entities without an owner, and of the ends of those with
/// one, for clients that were disconnected.
///
/// Events are encoded as they arrive, and sealed into chunks, each of one user. A store, if there
/// is one, receives each chunk once.
package struct EventLog {
  /// Encoded events of one user, as a store receives them.
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

    /// The user whose events these are.
    package var user: UInt32 { EventCoding.user(of: bytes.span)?.user ?? EventCoding.noUser }

    /// Appends later events of the same user.
    package mutating func append(_ next: Portion) {
      lastSequence = next.lastSequence
      count += next.count
      bytes += next.bytes.dropFirst(EventCoding.headerLength(next.bytes))
      EventCoding.setCount(count, of: &bytes)
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
    var content: Portion
    /// Whether a store has received the chunk.
    var isStored = false

    /// What it takes, with the memory that manages it.
    var amount: EventBound.Amount { .init(count: content.count, bytes: content.bytes.count + 96) }
  }

  /// The events of one user, oldest first.
  private struct Lane {
    var chunks: Deque<Chunk> = []
    /// What `chunks` take.
    var amount = EventBound.Amount()
    /// The events after `chunks` of a user who is not the writer: few.
    var rest = Portion.none
  }

  /// The number of events that the log retains, plus at most one chunk. 0 turns it off. Chunks have
  /// at most so many bytes.
  package var limit: Int { bound.count }
  private let bound: EventBound
  /// Whether events are separated by users.
  private let hasUsers: Bool
  /// Events with numbers up to here may be missing.
  package private(set) var droppedThrough: Int64
  /// How many events were dropped because of their bytes.
  package private(set) var evicted = 0

  /// Users who have events, and the writer.
  private var lanes: [UInt32: Lane] = [:]
  /// The user whose events `open` has; nil if it is empty.
  private var writer: UInt32?
  /// The chunk that receives new events. Its memory is reused.
  private var open = Portion.none
  private var differences = EventDifferences()
  /// Whether the last event in `open` is the difference to another one.
  private var isDifference = false
  /// Users of whose events a store may not have received all, besides those in `open`.
  private var pending: Set<UInt32> = []
  /// How many events were ever appended, and removed.
  private var appended = 0
  private var removed = 0
  /// The bytes of all sealed chunks.
  private var sealedBytes = 0
  /// How many events, and bytes of them, fill a chunk.
  private let fullCount: Int
  private let fullBytes: Int
  /// The most bytes of memory that are reused for the next chunk.
  private static let maximumKept = 256 << 10
  /// The most bytes that are set aside, not sealed, when another user's event comes.
  private static let maximumSetAside = 2_048
  /// How many ends of owned entities it takes now. An owner may have very many, and their ends must
  /// not evict the rest.
  private var roomForOwned: Int
  /// How many of `appended` have made room for them, or are such ends.
  private var seen = 0
  /// The number up to which a store has received events.
  private var lastTaken: Int64 = 0
  /// The gap after the events that a store has received, of which it does not know.
  private var unstoredGap: Int64?
  /// The end of the last portion that was restored.
  private var restoredThrough: Int64?
  private let words = Words.Owner()
  /// The tail of the last event that was appended with a `tailKey`.
  private var tail = EventCoding.Tail()

  /// - Parameter sequence: events up to this number are unknown.
  init(limit: Int, bytes: Int = .max, hasUsers: Bool = true, after sequence: Int64) {
    bound = EventBound(count: limit, bytes: bytes)
    self.hasUsers = hasUsers
    fullCount = min(limit, 1_024)
    fullBytes = min(bytes / 16, Self.maximumKept)
    droppedThrough = sequence
    roomForOwned = limit / Self.ownedShare
  }

  /// Ends of owned entities take at most one of so many places at once, and over time.
  private static let ownedShare = 4

  package var isOn: Bool { limit > 0 }

  /// The number of events in the log.
  package var count: Int { appended - removed }

  /// The bytes of memory that the events take.
  package var bytes: Int {
    lanes.values.reduce(sealedBytes + open.bytes.count) { $0 + $1.rest.bytes.count }
  }

  /// All sealed portions by their last number, for another store. No event after `droppedThrough`
  /// is missing.
  package var portions: [Portion] {
    lanes.values.flatMap { $0.chunks.map(\.content) }
      .sorted { $0.lastSequence < $1.lastSequence }
  }

  /// Returns whether the bytes are events that `restore` accepts.
  package static func isValid(_ bytes: [UInt8]) -> Bool { EventCoding.count(bytes) != nil }

  /// Discards all events. Events up to `sequence` are then missing.
  package mutating func forget(through sequence: Int64) {
    (lanes, pending, writer, open) = ([:], [], nil, .none)
    differences.removeAll()
    (removed, seen, sealedBytes) = (appended, appended, 0)
    droppedThrough = sequence
  }

  /// Notes that events after the retained ones, up to `sequence`, may be missing.
  package mutating func noteGap(through sequence: Int64) {
    sealAll()
    droppedThrough = max(droppedThrough, sequence)
  }

  // MARK: Adding

  /// Returns whether the end of an owned entity is to be appended. If not, it is missing.
  mutating func takesEndOfOwned(_ sequence: Int64) -> Bool {
    guard isOn else { return false }
    makeRoomForOwned()
    guard roomForOwned > 0 else {
      droppedThrough = max(droppedThrough, sequence)
      unstoredGap = sequence
      return false
    }
    roomForOwned -= 1
    seen += 1
    return true
  }

  private mutating func makeRoomForOwned() {
    let others = max(appended - seen, 0)
    roomForOwned = min(roomForOwned + others / (Self.ownedShare - 1), limit / Self.ownedShare)
    seen = appended
  }

  /// O(length of the event).
  ///
  /// - Parameter user: the user whose share the event takes.
  mutating func append(_ head: Event.Head, _ view: some EntityView, of user: UInt32) {
    append(head, key: view.key.span, view, of: user)
  }

  /// - Parameter key: the key of the entity, whatever key the view has.
  mutating func append(
    _ head: Event.Head, key: Span<UInt8>, _ view: some EntityView, of user: UInt32
  ) {
    append(head, view.kind, key: key, view.maximumEventBytes(head), of: user) {
      head.writeRest(of: view, to: &$0)
    }
  }

  /// Appends a timed event of a countdown. There may be many of these at one moment.
  mutating func append(
    _ event: TimedEvent, key: Span<UInt8>, title: [UInt8]?, of user: UInt32
  ) {
    var size = FieldSize()
    event.writeRest(title: title, to: &size)
    append(event.head, .countdown, key: key, size.bytes, of: user) {
      event.writeRest(title: title, to: &$0)
    }
  }

  /// Appends one of many events that may differ only in their numbers and keys. If the event before
  /// had the same `tailKey`, its tail is copied instead of encoded again.
  @inline(__always)
  mutating func append(
    _ head: Event.Head, key: Span<UInt8>, _ tailKey: EventCoding.Tail.TailKey, of user: UInt32,
    _ view: () -> some EntityView
  ) {
    begin(user)
    tail.update(tailKey, head, words.words, Self.maximumOfNumbers) {
      head.writeRest(of: view(), to: &$0)
    }
    EventCoding.append(head.sequence, .countdown, key: key, tail, to: &open.bytes, words.words)
    noteAppended(head.sequence)
  }

  /// The most bytes of the fields of an event that reports only numbers and predefined words.
  static let maximumOfNumbers = 2_048

  /// Appends an event that another daemon has written, with a new sequence number.
  mutating func append(_ event: borrowing LoggedEvent, as sequence: Int64) {
    begin(EventCoding.noUser)
    let start = open.bytes.count
    event.append(as: sequence, to: &open.bytes, words.words)
    shorten(event.kind, sequence, from: start)
    noteAppended(sequence)
  }

  @inline(__always)
  private mutating func append(
    _ head: Event.Head, _ kind: EntityKind, key: Span<UInt8>, _ size: Int, of user: UInt32,
    _ rest: (inout EventCoding.Writer) -> Void
  ) {
    begin(user)
    let start = open.bytes.count
    EventCoding.append(head, kind, key: key, to: &open.bytes, words.words, size, rest)
    shorten(kind, head.sequence, from: start)
    noteAppended(head.sequence)
  }

  @inline(__always)
  private mutating func begin(_ user: UInt32) {
    if user != writer { setWriter(user) }
    if open.bytes.isEmpty { EventCoding.begin(&open.bytes, hasUsers ? user : nil) }
  }

  /// Stores the last event as a difference, if that is much shorter. Not without users: older hosts
  /// of a fleet would not know what it is.
  @inline(__always)
  private mutating func shorten(_ kind: EntityKind, _ sequence: Int64, from start: Int) {
    isDifference =
      EventDifferences.isLong(open.bytes.count - start) && hasUsers
      && differences.shorten(&open.bytes, from: start, kind, sequence, words.words)
  }

  @inline(__always)
  private mutating func noteAppended(_ sequence: Int64) {
    open.lastSequence = sequence
    open.count += 1
    appended += 1
    if open.count >= fullCount || open.bytes.count >= fullBytes && isFull { seal() }
  }

  /// Whether a chunk with enough bytes takes no more: differences to its events are short, and the
  /// first may have that many bytes by itself.
  private var isFull: Bool {
    !isDifference && open.count > 1 || open.bytes.count >= 2 * fullBytes
  }

  private mutating func seal() {
    guard let writer else { return }
    add(takeOpen(), to: writer)
    trim()
  }

  /// Lets `open` receive the events of another user.
  @inline(never)
  private mutating func setWriter(_ user: UInt32) {
    let user = hasUsers ? user : EventCoding.noUser
    guard user != writer else { return }
    setAside()
    writer = user
    let rest = lanes[user]?.rest ?? .none
    lanes[user, default: Lane()].rest = .none
    (open.lastSequence, open.count) = (rest.lastSequence, rest.count)
    open.bytes += rest.bytes
  }

  /// Makes `open` free for another user.
  private mutating func setAside() {
    guard let user = writer else { return }
    writer = nil
    guard open.count > 0 else { return forgetIfEmpty(user) }
    let rest = takeOpen()
    guard rest.bytes.count > Self.maximumSetAside else {
      lanes[user]?.rest = rest
      pending.insert(user)
      return
    }
    add(rest, to: user)
    trim()
  }

  /// Takes a copy of exactly the size needed; the next chunk reuses the larger memory.
  private mutating func takeOpen() -> Portion {
    var taken = Portion(
      lastSequence: open.lastSequence, count: open.count, bytes: Array(open.bytes.span))
    EventCoding.setCount(taken.count, of: &taken.bytes)
    open.count = 0
    differences.removeAll()
    open.bytes.removeAll(keepingCapacity: open.bytes.count <= Self.maximumKept)
    return taken
  }

  /// Seals the events of all users.
  private mutating func sealAll() {
    if let writer, open.count > 0 { add(takeOpen(), to: writer) }
    for user in pending where user != writer {
      guard let rest = lanes[user]?.rest, rest.count > 0 else { continue }
      lanes[user]?.rest = .none
      add(rest, to: user)
    }
    trim()
  }

  private mutating func add(_ content: Portion, to user: UInt32, isStored: Bool = false) {
    let chunk = Chunk(content: content, isStored: isStored)
    lanes[user, default: Lane()].chunks.append(chunk)
    lanes[user]?.amount += chunk.amount
    sealedBytes += chunk.amount.bytes
    if !isStored { pending.insert(user) }
  }

  private mutating func trim() {
    while let victim, let chunk = takeOldest(of: victim.user) {
      lanes[victim.user]?.amount -= chunk.amount
      sealedBytes -= chunk.amount.bytes
      removed += chunk.content.count
      if victim.isForBytes { evicted += chunk.content.count }
      let last = chunk.content.lastSequence
      droppedThrough = max(droppedThrough, last)
      if !chunk.isStored { unstoredGap = max(unstoredGap ?? 0, last) }
      forgetIfEmpty(victim.user)
    }
  }

  /// The user who loses its oldest chunk now.
  private var victim: (user: UInt32, isForBytes: Bool)? {
    bound.victim(
      of: EventBound.Amount(count: count, bytes: sealedBytes),
      lanes.lazy.filter { !$1.chunks.isEmpty }.map { (user: $0, amount: $1.amount) },
      oldest: { lanes[$0]?.chunks.first?.content.count ?? 0 })
  }

  private mutating func takeOldest(of user: UInt32) -> Chunk? { lanes[user]?.chunks.popFirst() }

  private mutating func forgetIfEmpty(_ user: UInt32) {
    guard let lane = lanes[user], user != writer, lane.chunks.isEmpty, lane.rest.count == 0 else {
      return
    }
    lanes[user] = nil
    pending.remove(user)
  }

  // MARK: Storing

  /// Whether there are events, or a gap, that no store has received.
  package var hasUnstored: Bool { open.count > 0 || !pending.isEmpty || unstoredGap != nil }

  /// Returns the gap after the events that `takeUnstored` has returned, for a store; nil if there
  /// is none.
  package mutating func takeUnstoredGap() -> Portion? {
    defer { unstoredGap = nil }
    guard let gap = unstoredGap, gap > lastTaken else { return nil }
    lastTaken = gap
    return Portion(lastSequence: gap, count: 0, bytes: [])
  }

  /// The most bytes of a portion for a store, unless one chunk has more: a store drops it as a
  /// whole.
  private static let maximumInPortion = 1 << 20

  /// The most bytes of all portions for a store, unless one chunk has more: a batch has an end.
  private static let maximumAtOnce = 1 << 30

  /// Returns the events since the last call, in portions by their last number. If there are too
  /// many, the oldest are left out: events up to `missingThrough` are missing in the store.
  package mutating func takeUnstored(
    atMost maximum: Int = maximumInPortion, inAll total: Int = maximumAtOnce
  ) -> (portions: [Portion], missingThrough: Int64) {
    sealAll()
    var found: [Portion] = []
    for user in pending { takeUnstored(of: user, to: &found) }
    pending.removeAll(keepingCapacity: true)
    if found.count == 1 {
      lastTaken = max(lastTaken, found[0].lastSequence)
      return (found, droppedThrough)
    }
    found.sort { $0.lastSequence < $1.lastSequence }
    var (first, bytes, missing) = (found.count, 0, droppedThrough)
    while first > 0 {
      bytes += found[first - 1].bytes.count
      if bytes > total, first < found.count {
        missing = max(missing, found[first - 1].lastSequence)
        break
      }
      first -= 1
    }
    var portions: [Portion] = []
    for next in found[first...] {
      if let last = portions.last, last.user == next.user,
        last.bytes.count + next.bytes.count <= maximum
      {
        portions[portions.count - 1].append(next)
      } else {
        portions.append(next)
      }
    }
    lastTaken = max(lastTaken, portions.last?.lastSequence ?? 0)
    return (portions, missing)
  }

  private mutating func takeUnstored(of user: UInt32, to found: inout [Portion]) {
    var next = lanes[user]?.chunks.count ?? 0
    while next > 0, let chunk = lanes[user]?.chunks[next - 1], !chunk.isStored {
      next -= 1
      lanes[user]?.chunks[next].isStored = true
      found.append(chunk.content)
    }
  }

  /// Restores a portion from a store. Portions come by their last number, before any new event.
  ///
  /// - Parameter sequence: events after the portion before, up to this number, are missing.
  /// - Returns: whether the events can be read. If not, events before them may be missing, too.
  @discardableResult
  package mutating func restore(
    _ bytes: [UInt8], after sequence: Int64, through last: Int64
  ) -> Bool {
    guard isOn else { return true }
    // In a damaged file, portions may come in any order, or twice.
    if let newest = restoredThrough, last < newest || last == newest && !bytes.isEmpty {
      droppedThrough = newest
      return false
    }
    // The first portion, or one after a gap: events in between are unknown.
    if restoredThrough.map({ sequence > $0 }) ?? true { droppedThrough = sequence }
    (restoredThrough, lastTaken) = (last, last)
    guard let count = EventCoding.count(bytes) else {
      // Malformed, or of an unknown version.
      forget(through: last)
      return false
    }
    guard count > 0 else { return true }
    let content = Portion(lastSequence: last, count: count, bytes: bytes)
    appended += count
    seen += count
    add(content, to: content.user, isStored: true)
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
    var isFirst = true
    var cursors = cursors(after: sequence)
    while let index = cursors.indices.min(by: { cursors[$0].next < cursors[$1].next }) {
      // The events of a user up to the next one of another user.
      var end = Int64.max
      for other in cursors.indices where other != index { end = min(end, cursors[other].next) }
      budget -= cursors.count / 16
      let isDone = cursors[index].forEach(after: sequence) { record in
        guard record.sequence <= end else { return false }
        guard hasRoom, found < limit, budget > 0 || isFirst else {
          reading.hasMore = true
          return false
        }
        isFirst = false
        budget -= 1
        if matches(record.kind, record.key, &budget) {
          hasRoom = body(record)
          found += 1
        }
        reading.lastSequence = record.sequence
        return true
      }
      if reading.hasMore { return reading }
      if isDone { cursors.remove(at: index) }
    }
    reading.lastSequence = last
    return reading
  }

  /// How far the events of one user are read.
  private struct Cursor {
    let chunks: Deque<Chunk>
    let rest: Portion
    var index: Int
    var position = 0
    /// The number of the next event; `.min` if it is unknown.
    var next = Int64.min

    /// Calls `body` with each event after a number. Stops and returns false if `body` does.
    mutating func forEach(after sequence: Int64, _ body: (LoggedEvent) -> Bool) -> Bool {
      while index <= chunks.count {
        let content = index < chunks.count ? chunks[index].content : rest
        var stoppedAt: Int64?
        _ = EventCoding.forEach(content.bytes, from: &position, after: sequence) { event in
          if body(event) { return true }
          stoppedAt = event.sequence
          return false
        }
        if let stoppedAt {
          next = stoppedAt
          return false
        }
        (index, position) = (index + 1, 0)
      }
      return true
    }
  }

  /// Returns a cursor for each user who has events after a number.
  private func cursors(after sequence: Int64) -> [Cursor] {
    lanes.compactMap { user, lane in
      let rest = user == writer ? open : lane.rest
      let first = lane.chunks.firstIndexAfter { $0.content.lastSequence <= sequence }
      guard first < lane.chunks.count || rest.count > 0 && rest.lastSequence > sequence else {
        return nil
      }
      return Cursor(chunks: lane.chunks, rest: rest, index: first)
    }
  }
}
