import Countdowns

/// The log as a start finds it.
///
/// Batches are read in their order, up to the first that is not as it was written. Where others
/// follow that one, changes are lost; where none does it is the torn end of the last write, which
/// nobody has a reply to.
struct LogContents {
  /// Which batches are asked for.
  struct Query {
    /// Of the state that the tables are of; nil where that cannot be read.
    var lineage: Int64?
    /// Up to this number batches are in the tables.
    var folded: UInt64
    /// The number of the newest start that is known of.
    var start: UInt32
  }

  /// Of this state, by number.
  private(set) var segments: [FoundSegment] = []
  /// Of the last batch in each of them.
  private(set) var lastNumbers: [UInt64] = []
  /// Of another state, such as the one that a backup has replaced.
  private(set) var others: [FoundSegment] = []
  /// The directory.
  let path: String
  /// Of the newest batch that was stored.
  private(set) var lastNumber: UInt64
  private(set) var lastStart: UInt32
  /// Where the next frame goes: an index in `segments`, and a place in it. Nil: in another segment.
  private(set) var end: (segment: Int, place: Int)?
  /// Why changes are missing; nil if none are.
  private(set) var damage: StoreError?
  /// As they were noted last.
  private(set) var clocks: Meta.Clocks?
  /// Of the newest event; 0 if there is none.
  private(set) var lastEvent: Int64 = 0
  /// Whether events that the tables have are dropped.
  private(set) var dropsEvents = false
  private let folded: UInt64
  private(set) var newest = NewestChanges()

  init(_ files: StateFiles, _ query: Query) throws(StoreError) {
    path = files.directory
    folded = query.folded
    lastNumber = 0
    // What is in the log may be of starts before that.
    lastStart = 0
    var lineage = query.lineage
    var sizes: [Int] = []
    for segment in files.segments() {
      switch FoundSegment.header(
        try segment.read(LogSegment.headerLength), lineage: lineage ?? 0)
      {
      case .ours(let size):
        segments.append(segment)
        sizes.append(size)
      case .damaged:
        // What is in it is known by its numbers.
        segments.append(segment)
        sizes.append(.max)
      case .other where lineage == nil:
        lineage = 0
        segments.append(segment)
        sizes.append(0)
      case .other: others.append(segment)
      }
    }
    try read(sizes)
    newest.sort()
    lastStart = max(lastStart, query.start)
    if lastNumber < folded, damage == nil {
      damage = StoreError(
        .corrupt, segments.last?.path ?? path,
        "newest changes are lost: batch \(folded) is in the tables, and nothing from there on in the log"
      )
    }
    if lastNumber < folded { end = nil }
    lastNumber = max(lastNumber, folded)
  }

  private mutating func read(_ sizes: [Int]) throws(StoreError) {
    var lengths: [Int] = []
    for index in segments.indices {
      let bytes = try segments[index].read()
      lengths.append(bytes.count)
      var place = LogSegment.headerLength
      while let frame = next(in: bytes, at: place, isFirst: place == LogSegment.headerLength) {
        (lastNumber, lastStart) = (frame.number, max(lastStart, frame.start))
        if frame.number > folded, !note(bytes[frame.payload], index) {
          damage = lost(index, "batch \(frame.number) makes no sense")
          return
        }
        place = frame.end
        end = (index, place)
      }
      // One that is folded may have been left behind: then the next one continues where the tables
      // end.
      if index > 0, segments[index].number != segments[index - 1].number + 1,
        place == LogSegment.headerLength
      {
        damage = lost(index, "the segment before it is missing")
        return
      }
      lastNumbers.append(lastNumber)
      if let found = laterBatch(in: bytes, from: place) {
        damage = lost(
          index, "batches from \(max(lastNumber, folded) + 1) to \(found - 1) cannot be read")
        return
      }
    }
    // What was in the rest of it, or in what follows, is unknown.
    if let cut = sizes.indices.first(where: { $0 >= end?.segment ?? 0 && lengths[$0] < sizes[$0] })
    {
      damage = lost(cut, "it was cut short, or its header is damaged")
    }
  }

  private func lost(_ index: Int, _ detail: String) -> StoreError {
    StoreError(.corrupt, segments[index].path, "newest changes are lost: \(detail)")
  }

  /// The frame at a place, if it comes next.
  ///
  /// - Parameter isFirst: of its segment.
  private func next(in bytes: [UInt8], at place: Int, isFirst: Bool) -> LogFrame? {
    let numbers =
      isFirst && lastNumber <= folded
      ? lastNumber + 1...folded + 1 : lastNumber + 1...lastNumber + 1
    guard let frame = LogFrame(in: bytes, at: place, numbers: numbers) else { return nil }
    // What is left of before is of an earlier start.
    return frame.start >= lastStart || frame.number <= folded ? frame : nil
  }

  /// The number of a batch that comes after the next one, in the rest of a segment. It is searched
  /// for only behind what could be read; segments are searched in turn.
  private func laterBatch(in bytes: [UInt8], from place: Int) -> UInt64? {
    let last = max(lastNumber, folded)
    // Not more than fit in a log. What is in records may look like any number, but hardly like all
    // of these.
    let numbers = last + 1...last + 1 << 30
    let starts = UInt64(lastStart)...UInt64(lastStart) + 1 << 16
    return bytes.withUnsafeBytes { memory in
      func word(_ place: Int) -> UInt64 {
        UInt64(littleEndian: memory.loadUnaligned(fromByteOffset: place, as: UInt64.self))
      }
      for place in stride(from: place, through: memory.count - LogFrame.headerLength, by: 8)
      where numbers.contains(word(place + 8)) && starts.contains(word(place + 16)) {
        if let frame = LogFrame(in: bytes, at: place) { return frame.number }
      }
      return nil
    }
  }

  /// False if the bytes are no batch.
  private mutating func note(_ payload: ArraySlice<UInt8>, _ segment: Int) -> Bool {
    var makesSense = true
    let isWhole = ChangeEntry.forEach(of: payload) { entry in
      if !newest.note(entry, inSegment: segment) { makesSense = false }
      switch entry {
      case .events(let events, _):
        if events.dropsAll { (lastEvent, dropsEvents) = (0, true) }
        lastEvent = max(lastEvent, events.lastSequence)
      case .clocks(let bytes):
        if let read = Meta.Clocks(bytes: bytes, offset: 0) {
          clocks = read
        } else {
          makesSense = false
        }
      case .current, .gone: break
      }
    }
    return isWhole && makesSense
  }

  /// Calls `body` with each entry that has to be applied, in their order: of entities the newest
  /// only, and none of those that have ended.
  ///
  /// - Parameter records: false to pass over all entities.
  func forEachNewest(
    records: Bool = true, _ body: (ChangeEntry) -> Void
  ) throws(StoreError) {
    guard let end, lastNumber > folded else { return }
    for index in 0...end.segment {
      let bytes = try segments[index].read()
      let last = index == end.segment ? end.place : bytes.count
      Self.forEachBatch(in: bytes, numbers: folded + 1...lastNumber, before: last) { payload in
        _ = ChangeEntry.forEach(of: payload) { entry in
          switch entry {
          case .current(let kind, let place, let bytes):
            if records, newest.isNewest(kind, place, bytes, inSegment: index) { body(entry) }
          case .gone: break
          case .events, .clocks: body(entry)
          }
        }
      }
    }
  }

  /// Batches of a segment that was written as it should be.
  static func forEachBatch(
    in bytes: [UInt8], numbers: ClosedRange<UInt64>, before end: Int,
    _ body: (ArraySlice<UInt8>) -> Void
  ) {
    var place = LogSegment.headerLength
    var last: UInt64 = 0
    while place < end, let frame = LogFrame(in: bytes, at: place, numbers: 1...numbers.upperBound),
      frame.number > last
    {
      last = frame.number
      if numbers.contains(frame.number) { body(bytes[frame.payload]) }
      place = frame.end
    }
  }
}
