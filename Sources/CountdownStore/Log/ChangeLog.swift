import Glibc
import Synchronization

/// The change log: one frame per batch, in segments whose space on the disk is reserved in advance.
///
/// One thread appends. Other threads reserve segments ahead, and recycle folded ones.
final class ChangeLog: @unchecked Sendable {
  /// How long a failed write is retried, in microseconds.
  private static let patience: Int64 = 1_000_000
  private static let pause: UInt32 = 20_000
  /// The longest delay of a batch in `slowDown`, in microseconds.
  private static let longestPause = 2_000

  private let files: StateFiles
  private let lineage: Int64
  private let segmentSize: Int
  /// How many segments may be full before appends are slowed down.
  private let fullSegmentsBeforePausing: Int
  private let synchronizes: Bool
  /// Called on the appending thread when a segment is full. Set it before another thread appends.
  var filled: @Sendable () -> Void = {}

  // Used only by the appending thread.
  private var current: LogSegment
  private var offset: Int
  private let start: UInt32
  private let seal: UInt32
  private var frame: [UInt8] = []

  private struct Shared {
    /// Full segments, oldest first, each with the number of its last batch.
    var full: [(segment: LogSegment, last: UInt64)] = []
    /// When the newest of them became full, as `now`; `.min` if that was before this start.
    var filledAt: Int64 = .min
    /// The next segment, reserved ahead.
    var spare: LogSegment?
    var lastNumber: UInt64
    var current: LogSegment
    /// The free space in the current segment, in bytes.
    var room: Int
    /// Why no spare segment could be reserved, or nil.
    var problem: StoreError?
  }

  private let shared: Mutex<Shared>
  /// Lets one thread at a time create, take or recycle a segment.
  private let making = Mutex(())

  /// - Parameter start: the number of this start; higher than that of any frame in the log.
  init(
    _ files: StateFiles, _ options: Store.Options, _ contents: LogContents, lineage: Int64,
    start: UInt32
  ) throws(StoreError) {
    self.files = files
    self.lineage = lineage
    segmentSize = options.segmentSize
    fullSegmentsBeforePausing = options.maximumSegments / 4
    synchronizes = options.durability == .power
    self.start = start
    seal = contents.seal == 0 ? .random(in: 1 ... .max) : contents.seal
    var full: [(segment: LogSegment, last: UInt64)] = []
    var spare: LogSegment?
    let last = contents.segments.last?.number ?? 0
    if let end = contents.end {
      for (found, last) in zip(contents.segments[..<end.segment], contents.lastNumbers) {
        full.append((try LogSegment(opening: found), last))
      }
      current = try LogSegment(opening: contents.segments[end.segment])
      offset = end.offset
      // Segments after the current one were reserved, but not used.
      for found in contents.segments[(end.segment + 1)...] {
        if spare == nil, found.number == current.number + 1, found.fileSize >= segmentSize {
          spare = try LogSegment(opening: found)
        } else {
          unsafe unlink(found.path)
        }
      }
    } else {
      // No batch of them can be read. Those behind a gap must not be found again.
      for found in contents.segments { unsafe unlink(found.path) }
      try files.synchronize()
      current = try LogSegment.create(
        last + 1, size: segmentSize, lineage: lineage, filled: synchronizes, in: files)
      offset = LogSegment.headerLength
    }
    shared = Mutex(
      Shared(
        full: full, spare: spare, lastNumber: contents.lastNumber, current: current,
        room: current.size - offset))
  }

  // MARK: Appending

  /// The number of the newest batch.
  var lastNumber: UInt64 { shared.withLock { $0.lastNumber } }

  /// Appends a batch, and waits for the disk with `durability: power`. Retries a failed write for a
  /// second.
  ///
  /// - Returns: the time it took, in microseconds.
  @discardableResult
  func append(_ batch: [UInt8]) throws(StoreError) -> Int64 {
    guard batch.count <= LogFrame.longestPayload else {
      throw StoreError(
        .misuse, current.path,
        "a batch of \(batch.count >> 20) MiB is longer than a frame of the log can be")
    }
    let number = lastNumber + 1
    LogFrame.write(batch, number: number, start: start, seal: seal, to: &frame)
    let began = Self.now
    var hasFilled = false
    while true {
      do throws(StoreError) {
        if offset + frame.count > current.size {
          try advance(atLeast: frame.count)
          hasFilled = true
        }
        try current.write(frame, at: offset)
        if synchronizes { try current.synchronize() }
        break
      } catch {
        guard Self.now < began + Self.patience else { throw error }
        usleep(Self.pause)
      }
    }
    offset += frame.count
    let room = current.size - offset
    shared.withLock {
      $0.lastNumber = number
      $0.room = room
    }
    if hasFilled { filled() }
    slowDown(frame.count)
    return Self.now - began
  }

  /// Delays each batch, longer the more segments wait to be folded: changes must not outpace
  /// folding for long.
  private func slowDown(_ bytes: Int) {
    let behind = fullSegments - fullSegmentsBeforePausing
    if behind > 0 {
      usleep(UInt32(min(bytes * behind / (8 * fullSegmentsBeforePausing), Self.longestPause)))
    }
  }

  /// The time in microseconds, on a clock that nobody sets.
  static var now: Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
  }

  /// Continues in the next segment.
  private func advance(atLeast length: Int) throws(StoreError) {
    let size = max(segmentSize, LogSegment.headerLength + length)
    let next = try making.withLock { _ throws(StoreError) in
      let next: LogSegment
      if let reserved = shared.withLock({ $0.spare }) {
        next = reserved
        if next.size < size { try next.grow(to: size, lineage: lineage, filled: false) }
      } else {
        next = try .create(
          current.number + 1, size: size, lineage: lineage, filled: false, in: files)
      }
      let old = current
      shared.withLock {
        $0.full.append((old, $0.lastNumber))
        $0.filledAt = Self.now
        $0.spare = nil
        $0.current = next
      }
      return next
    }
    current = next
    offset = LogSegment.headerLength
  }

  // MARK: Looking after it

  /// The reason to refuse new batches, or nil: only batches under way still have room.
  ///
  /// Once half of the current segment is used, waits for an attempt to reserve the next one, so
  /// that a full disk is noticed before a batch is executed, not after.
  var problem: StoreError? {
    let isPressing = shared.withLock {
      $0.spare == nil && $0.problem == nil && $0.room < segmentSize / 2
    }
    if isPressing { reserve() }
    return shared.withLock { $0.spare == nil ? $0.problem : nil }
  }

  /// The number of full segments that are not folded yet.
  var fullSegments: Int { shared.withLock { $0.full.count } }

  /// When the last segment became full, as `now`; `.min` if none has since the start.
  var filledAt: Int64 { shared.withLock { $0.filledAt } }

  /// The segment that is written to.
  var currentSegment: LogSegment { shared.withLock { $0.current } }

  /// Returns the oldest full segments, and the number of their last batch. At least one later batch
  /// stays in the log, so a log that ends before the tables has lost batches.
  func oldestFull(_ maximum: Int) -> (segments: [FoundSegment], last: UInt64) {
    shared.withLock { shared in
      let oldest = shared.full.prefix(maximum).prefix { $0.last < shared.lastNumber }
      return (oldest.map(\.segment.found), oldest.last?.last ?? 0)
    }
  }

  /// All segments in use, and the number of the newest batch.
  var all: (segments: [FoundSegment], last: UInt64) {
    shared.withLock { shared in
      (shared.full.map(\.segment.found) + [shared.current.found], shared.lastNumber)
    }
  }

  /// Returns whether a segment is still in use, not recycled.
  func has(_ segment: FoundSegment) -> Bool {
    shared.withLock { shared in
      shared.current.number == segment.number
        || shared.full.contains { $0.segment.number == segment.number }
    }
  }

  /// Reserves the next segment.
  func reserve() {
    making.withLock { _ in
      guard let number = missingSpare else { return }
      do throws(StoreError) {
        take(
          try .create(
            number, size: segmentSize, lineage: lineage, filled: synchronizes, in: files))
      } catch {
        shared.withLock { $0.problem = error }
      }
    }
  }

  /// The number of the next segment, or nil if it is reserved.
  private var missingSpare: UInt64? {
    shared.withLock { $0.spare == nil ? $0.current.number + 1 : nil }
  }

  private func take(_ spare: LogSegment) {
    shared.withLock {
      $0.problem = nil
      $0.spare = spare
    }
  }

  /// Recycles or removes the oldest full segments, whose changes are in the tables on the disk.
  func recycle(_ count: Int) throws(StoreError) {
    for _ in 0..<count {
      try making.withLock { _ throws(StoreError) in
        guard let oldest = shared.withLock({ $0.full.first?.segment }) else { return }
        let spare: LogSegment?
        if let number = missingSpare, oldest.size == segmentSize {
          spare = try oldest.renamed(to: number, in: files)
        } else {
          unsafe unlink(oldest.path)
          spare = nil
        }
        // Its old name does not exist any more. If the new one cannot be synchronized, the next
        // attempt to reserve a segment replaces the file.
        shared.withLock { _ = $0.full.removeFirst() }
        guard let spare else { return }
        try files.synchronize()
        take(spare)
      }
    }
  }
}
