import Countdowns
import Glibc

/// The log as a start finds it.
///
/// Batches are read in order, up to the first damaged one. If later batches follow it, changes are
/// lost; if none does, it is the torn end of the last write, which was never answered.
struct LogContents {
  /// The batches to read.
  struct Query {
    /// The lineage of the tables. If it cannot be read, nil: then all batches are read, whether or
    /// not they are in the tables. Applying one twice changes nothing.
    var lineage: Int64?
    /// The number of the last batch in the tables.
    var folded: UInt64
  }

  /// The segments of this state, by number.
  private(set) var segments: [FoundSegment] = []
  /// The number of the last batch in each of `segments`.
  private(set) var lastNumbers: [UInt64] = []
  /// Segments of another state, such as one that a backup replaced.
  private(set) var others: [FoundSegment] = []
  /// The state directory.
  let path: String
  /// The number of the newest stored batch.
  private(set) var lastNumber: UInt64
  /// The newest start of these batches; later ones may have lost all of theirs.
  private(set) var lastStart: UInt32 = 0
  /// What tells the frames of this log from leftover bytes; 0 if there is none.
  private(set) var seal: UInt32 = 0
  /// Where the next frame goes: an index in `segments` and an offset in it; nil for a new segment.
  private(set) var end: (segment: Int, offset: Int)?
  /// Why changes are missing, or nil if none are.
  private(set) var damage: StoreError?
  /// The newest clocks in the log.
  private(set) var clocks: Meta.Clocks?
  /// The sequence number of the newest event; 0 if there is none.
  private(set) var lastEvent: Int64 = 0
  /// Whether the log drops the events in the tables.
  private(set) var dropsEvents = false
  private let folded: UInt64
  private(set) var newest = NewestChanges()

  init(_ files: StateFiles, _ query: Query) throws(StoreError) {
    path = files.directory
    lastNumber = 0
    var lineage = query.lineage
    var sizes: [Int] = []
    for segment in try files.segments() {
      switch FoundSegment.header(try segment.read(LogSegment.headerLength)) {
      case .intact(let found, let size) where found == lineage ?? found:
        lineage = found
        segments.append(segment)
        sizes.append(size)
      case .intact: others.append(segment)
      case .damaged:
        // Its frames are still recognized by their numbers.
        segments.append(segment)
        sizes.append(.max)
      }
    }
    if query.lineage == nil, let first = segments.first,
      let frame = LogFrame(in: try first.read(), at: LogSegment.headerLength)
    {
      folded = frame.number - 1
    } else {
      folded = query.folded
    }
    try read(sizes)
    newest.sort()
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
      var offset = LogSegment.headerLength
      while let frame = next(in: bytes, at: offset, isFirst: offset == LogSegment.headerLength) {
        (lastNumber, lastStart) = (frame.number, max(lastStart, frame.start))
        seal = frame.seal
        if frame.number > folded, !note(bytes[frame.payload], index) {
          damage = lost(index, "batch \(frame.number) makes no sense")
          return
        }
        offset = frame.end
        end = (index, offset)
      }
      // A folded segment may have been left behind: then the next one continues where the tables
      // end.
      if index > 0, segments[index].number != segments[index - 1].number + 1,
        offset == LogSegment.headerLength
      {
        damage = lost(index, "the segment before it is missing")
        return
      }
      lastNumbers.append(lastNumber)
      if let found = laterBatch(in: bytes, from: offset) {
        damage = lost(
          index, "batches from \(max(lastNumber, folded) + 1) to \(found - 1) cannot be read")
        return
      }
    }
    // The missing part of a segment, or segments after it, may have held more batches.
    if let cut = sizes.indices.first(where: { $0 >= end?.segment ?? 0 && lengths[$0] < sizes[$0] })
    {
      damage = lost(cut, "it was cut short, or its header is damaged")
    }
  }

  private func lost(_ index: Int, _ detail: String) -> StoreError {
    StoreError(.corrupt, segments[index].path, "newest changes are lost: \(detail)")
  }

  /// Returns the frame at an offset, or nil if it is not the next one.
  ///
  /// - Parameter isFirst: whether the offset is the first of its segment.
  private func next(in bytes: [UInt8], at offset: Int, isFirst: Bool) -> LogFrame? {
    let numbers =
      isFirst && lastNumber <= folded
      ? lastNumber + 1...folded + 1 : lastNumber + 1...lastNumber + 1
    guard let frame = LogFrame(in: bytes, at: offset, numbers: numbers), frame.isOfLog(sealed: seal)
    else { return nil }
    // Leftover bytes come from an earlier start.
    return frame.start >= lastStart || frame.number <= folded ? frame : nil
  }

  /// Returns the number of a later batch in the rest of a segment, from `offset`, where reading
  /// stopped; nil if there is none.
  private func laterBatch(in bytes: [UInt8], from offset: Int) -> UInt64? {
    let last = max(lastNumber, folded)
    // No log has more batches or starts than this. Bytes of records may look like a frame, by
    // chance or because a client wants that, but have no seal.
    let numbers = last + 1...last + 1 << 30
    let starts = UInt64(lastStart)...UInt64(lastStart) + 1 << 16
    return unsafe bytes.withUnsafeBytes { memory in
      func word(_ offset: Int) -> UInt64 {
        unsafe UInt64(littleEndian: memory.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
      }
      guard offset < memory.count, unsafe !Self.isUnwritten(memory[offset...]) else { return nil }
      for offset in stride(from: offset, through: memory.count - LogFrame.headerLength, by: 8)
      where numbers.contains(word(offset + 8)) && starts.contains(word(offset + 16) & .max >> 32) {
        if let frame = LogFrame(in: bytes, at: offset), frame.isOfLog(sealed: seal) {
          return frame.number
        }
      }
      return nil
    }
  }

  /// Whether nothing was written here since the file was created: then each byte is zero, and so is
  /// the next.
  private static func isUnwritten(_ rest: Slice<UnsafeRawBufferPointer>) -> Bool {
    let rest = unsafe UnsafeRawBufferPointer(rebasing: rest)
    let first = rest.baseAddress!
    return unsafe rest[0] == 0 && memcmp(first, first + 1, rest.count - 1) == 0
  }

  /// Notes the changes of a batch. Returns false if the bytes are no valid batch.
  private mutating func note(_ payload: ArraySlice<UInt8>, _ segment: Int) -> Bool {
    var isValid = true
    let isWhole = ChangeEntry.forEach(of: payload) { entry in
      if !newest.note(entry, inSegment: segment) { isValid = false }
      switch entry {
      case .events(let events, _):
        if events.dropsAll { (lastEvent, dropsEvents) = (0, true) }
        lastEvent = max(lastEvent, events.lastSequence)
      case .clocks(let bytes):
        if let read = Meta.Clocks(bytes: bytes, offset: 0) {
          clocks = read
        } else {
          isValid = false
        }
      case .current, .gone: break
      }
    }
    return isWhole && isValid
  }

  /// Calls `body` with each entry to apply, in order: for each entity only the newest entry, and
  /// none if the entity has ended.
  ///
  /// - Parameter records: false to skip all entities.
  func forEachNewest(
    records: Bool = true, _ body: (ChangeEntry) -> Void
  ) throws(StoreError) {
    guard let end, lastNumber > folded else { return }
    for index in 0...end.segment {
      let bytes = try segments[index].read()
      let last = index == end.segment ? end.offset : bytes.count
      Self.forEachBatch(in: bytes, numbers: folded + 1...lastNumber, before: last) { payload in
        _ = ChangeEntry.forEach(of: payload) { entry in
          switch entry {
          case .current(let kind, let offset, let bytes):
            if records, newest.isNewest(kind, offset, bytes, inSegment: index) { body(entry) }
          case .gone: break
          case .events, .clocks: body(entry)
          }
        }
      }
    }
  }

  /// Calls `body` with the batches of an intact segment whose number is in `numbers`.
  static func forEachBatch(
    in bytes: [UInt8], numbers: ClosedRange<UInt64>, before end: Int,
    _ body: (ArraySlice<UInt8>) -> Void
  ) {
    var offset = LogSegment.headerLength
    var (last, seal): (UInt64, UInt32) = (0, 0)
    while offset < end,
      let frame = LogFrame(in: bytes, at: offset, numbers: 1...numbers.upperBound),
      frame.number > last, frame.isOfLog(sealed: seal)
    {
      (last, seal) = (frame.number, frame.seal)
      if numbers.contains(frame.number) { body(bytes[frame.payload]) }
      offset = frame.end
    }
  }
}
