import Glibc
import Synchronization

/// The log of changes: one frame for each batch, in segments that have their room on the disk
/// before they are needed.
///
/// One thread appends. Another one reserves segments ahead, and releases those whose changes are
/// in the tables.
final class ChangeLog: @unchecked Sendable {
  /// How long a failed write is retried.
  private static let patience: Int64 = 1_000_000
  private static let pause: UInt32 = 20_000
  /// In microseconds.
  private static let longestPause = 2_000

  private let files: StateFiles
  private let lineage: Int64
  private let segmentSize: Int
  /// How many segments may be full before appending is slowed down.
  private let ease: Int
  private let synchronizes: Bool
  /// Called when a segment is full, on the thread that appends. To be set before another one does.
  var filled: @Sendable () -> Void = {}

  // Of the thread that appends.
  private var current: LogSegment
  private var place: Int
  private let start: UInt32
  private var frame: [UInt8] = []

  private struct Shared {
    /// Those that are full, oldest first, with the number of their last batch.
    var full: [(segment: LogSegment, last: UInt64)] = []
    /// The next one.
    var spare: LogSegment?
    var lastNumber: UInt64
    var current: LogSegment
    /// In the current one, in bytes.
    var room: Int
    /// Why there is no next one.
    var problem: StoreError?
  }

  private let shared: Mutex<Shared>
  /// Held while a segment is made, which has a name of its own.
  private let making = Mutex(())

  /// - Parameter start: of the daemon; higher than that of any frame that is there.
  init(
    _ options: Store.Options, _ contents: LogContents, lineage: Int64, start: UInt32
  ) throws(StoreError) {
    files = StateFiles(directory: options.directory)
    self.lineage = lineage
    segmentSize = options.segmentSize
    ease = options.mostSegments / 4
    synchronizes = options.durability == .power
    self.start = start
    var full: [(segment: LogSegment, last: UInt64)] = []
    var spare: LogSegment?
    let last = contents.segments.last?.number ?? 0
    if let end = contents.end {
      for (found, last) in zip(contents.segments[..<end.segment], contents.lastNumbers) {
        full.append((try LogSegment(opening: found), last))
      }
      current = try LogSegment(opening: contents.segments[end.segment])
      place = end.place
      // What comes after it was reserved, and not used yet.
      for found in contents.segments[(end.segment + 1)...] {
        if spare == nil, found.number == current.number + 1, found.fileSize >= segmentSize {
          spare = try LogSegment(opening: found)
        } else {
          unlink(found.path)
        }
      }
    } else {
      for found in contents.segments {
        full.append((try LogSegment(opening: found), contents.lastNumber))
      }
      current = try LogSegment.create(
        last + 1, size: segmentSize, lineage: lineage, filled: synchronizes, in: files)
      place = LogSegment.headerLength
    }
    shared = Mutex(
      Shared(
        full: full, spare: spare, lastNumber: contents.lastNumber, current: current,
        room: current.size - place))
  }

  // MARK: Appending

  /// Of the newest batch.
  var lastNumber: UInt64 { shared.withLock { $0.lastNumber } }

  /// Writes what a batch has changed, and waits for the disk with `durability: power`. Retries a
  /// failure for a second.
  ///
  /// - Returns: how long it took, in microseconds.
  @discardableResult
  func append(_ batch: [UInt8]) throws(StoreError) -> Int64 {
    let number = lastNumber + 1
    LogFrame.write(batch, number: number, start: start, to: &frame)
    let began = Self.now
    var hasFilled = false
    while true {
      do throws(StoreError) {
        if place + frame.count > current.size {
          try advance(atLeast: frame.count)
          hasFilled = true
        }
        try current.write(frame, at: place)
        if synchronizes { try current.synchronize() }
        break
      } catch {
        guard Self.now < began + Self.patience else { throw error }
        usleep(Self.pause)
      }
    }
    place += frame.count
    let room = current.size - place
    shared.withLock {
      $0.lastNumber = number
      $0.room = room
    }
    if hasFilled { filled() }
    slowDown(frame.count)
    return Self.now - began
  }

  /// Changes must not come faster than they are folded for long. So each batch takes
  /// longer the more there is to do.
  private func slowDown(_ bytes: Int) {
    let behind = fullSegments - ease
    if behind > 0 { usleep(UInt32(min(bytes * behind / (8 * ease), Self.longestPause))) }
  }

  private static var now: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
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
        $0.spare = nil
        $0.current = next
      }
      return next
    }
    current = next
    place = LogSegment.headerLength
  }

  // MARK: Looking after it

  /// Why no batch should be begun: there is room for what is under way only.
  ///
  /// Once half of the current segment is used, waits until it is known whether there is a next one:
  /// a disk that is full is not to be noticed by a batch that has been done.
  var problem: StoreError? {
    let isPressing = shared.withLock {
      $0.spare == nil && $0.problem == nil && $0.room < segmentSize / 2
    }
    if isPressing { reserve() }
    return shared.withLock { $0.spare == nil ? $0.problem : nil }
  }

  /// How many segments are full, and not in the tables.
  var fullSegments: Int { shared.withLock { $0.full.count } }

  /// The one that is written to.
  var currentSegment: LogSegment { shared.withLock { $0.current } }

  /// The oldest that are full, and the number of their last batch. A later batch is in the log: so
  /// the newest number in it is never below what is in the tables, unless some of it is lost.
  func oldestFull(_ most: Int) -> (segments: [FoundSegment], last: UInt64) {
    shared.withLock { shared in
      let oldest = shared.full.prefix(most).prefix { $0.last < shared.lastNumber }
      return (oldest.map(\.segment.found), oldest.last?.last ?? 0)
    }
  }

  /// All that are there, and the number of the newest batch.
  var all: (segments: [FoundSegment], last: UInt64) {
    shared.withLock { shared in
      (shared.full.map(\.segment.found) + [shared.current.found], shared.lastNumber)
    }
  }

  /// Whether a segment is there that has not been given back.
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

  /// The number of the next segment, if it is not there.
  private var missingSpare: UInt64? {
    shared.withLock { $0.spare == nil ? $0.current.number + 1 : nil }
  }

  private func take(_ spare: LogSegment) {
    shared.withLock {
      $0.problem = nil
      $0.spare = spare
    }
  }

  /// Releases the oldest segments: all their changes are in the tables, on disk.
  func recycle(_ count: Int) throws(StoreError) {
    for _ in 0..<count {
      try making.withLock { _ throws(StoreError) in
        guard let oldest = shared.withLock({ $0.full.first?.segment }) else { return }
        if let number = missingSpare, oldest.size == segmentSize {
          take(try oldest.recycle(as: number, in: files))
        } else {
          unlink(oldest.path)
        }
        shared.withLock { _ = $0.full.removeFirst() }
      }
    }
  }
}
