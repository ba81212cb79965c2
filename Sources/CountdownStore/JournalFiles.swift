import Countdowns
import Glibc
import Synchronization

/// The files of the journal of decisions: segments, each named after the position of its first byte
/// in all that was ever kept. A thread writes them, so a slow disk holds nobody up.
///
/// They are no part of the state: nothing is synced, and what waits in memory is lost if the daemon
/// is killed. They leave it the last space on the disk.
///
/// What cannot be kept is counted. Entries that were dropped are counted by the entry that begins
/// the next segment; those of a file that is missing show as a gap in the numbers.
package final class JournalFiles: Sendable {
  private struct Segment {
    let position: Int64
    var bytes: Int64 = 0
    /// The number of its first entry, counted from 1.
    let first: UInt64
    var entries = 0
    var end: Int64 { position + bytes }
  }

  private struct Contents {
    var segments: [Segment] = []
    /// The number of the newest entry, and of the oldest that was not removed to make room.
    var newest: UInt64 = 0
    var firstNumber: UInt64 = 1
    var descriptor: Int32 = -1
    /// Where the next segment begins.
    var end: Int64 = 0
    var queue: [Journal.Portion] = []
    /// The bytes of the queue, and of what is being written.
    var waitingBytes = 0
    var limits: (bytes: Int, entries: Int)
    /// Why entries cannot be written, and since when.
    var problem: String?
    var failedAt: Int64 = 0
    /// How many entries are lost since the start.
    var lost = 0
    /// How many of them the journal does not know yet.
    var unreported = 0
    /// Whether the journal must begin a segment.
    var mustStartOver = false
    var bytes: Int64 { segments.reduce(0) { $0 + $1.bytes } }
    var entries: Int { segments.reduce(0) { $0 + $1.entries } }

    /// Counts entries as lost. What comes after them begins a segment.
    mutating func drop(_ portions: some Sequence<Journal.Portion>) {
      for portion in portions {
        lost += portion.decisiveEntries
        unreported += portion.decisiveEntries + portion.lost
      }
      mustStartOver = true
    }

    /// Forgets a segment whose file is missing. Its entries show as a gap in the numbers.
    mutating func forget(_ missing: Segment) {
      guard let index = segments.firstIndex(where: { $0.position == missing.position }) else {
        return
      }
      lost += segments[index].entries
      // It may be written to, without a name.
      if index == segments.count - 1 { mustStartOver = true }
      segments.remove(at: index)
    }

    /// How many entries after those in the files are lost, and no segment reports.
    var lostAtEnd: Int {
      let last = segments.last.map { $0.first + UInt64($0.entries) - 1 } ?? firstNumber - 1
      return unreported + Int(newest - min(last, newest))
    }
  }

  /// The figures for INFO and METRICS.
  package struct Facts: Sendable {
    package var bytes: Int64
    package var entries: Int
    /// Since the start.
    package var lost: Int
    package var problem: String?
  }

  package let directory: String
  /// The last entry that was there at the start.
  package let lastEntry: [UInt8]
  private let contents: Mutex<Contents>
  private let thread: Mutex<UpkeepThread?>
  private static let suffix = ".journal"
  private static let retryMicroseconds: Int64 = 1_000_000
  /// Nothing is added while more bytes than this wait for the disk.
  private static let maximumWaiting = 16 << 20
  /// What stays free for the state: this share of the file system, and at most so many bytes.
  private static let reservedShare: UInt64 = 4
  private static let maximumReserved: UInt64 = 256 << 20

  /// Opens the journal in a directory, which is made if it is not there.
  package init(
    _ directory: String, bytes: Int, entries: Int
  ) throws(StoreError) {
    self.directory = directory
    // With `durability: none` there may be no state directory yet.
    if let slash = directory.lastIndex(of: "/") {
      _ = unsafe mkdir(String(directory[..<slash]), 0o700)
    }
    guard unsafe mkdir(directory, 0o700) == 0 || errno == EEXIST else {
      throw StoreError(systemError: errno, path: directory, doing: "make the journal's directory")
    }
    var found = Contents(limits: (bytes, entries))
    var last: [UInt8] = []
    for position in try Self.positions(in: directory) {
      let path = Self.path(position, in: directory)
      var status = stat()
      guard unsafe stat(path, &status) == 0, status.st_size > 0 else { continue }
      let start = (try? SafeFile.read(path, atMost: 1 << 16)) ?? []
      let first = LogFrame(in: start, at: 0)?.number ?? found.newest + 1
      if let before = found.segments.indices.last {
        // Its entries end where these begin, unless the file of a segment in between is missing.
        let isNext = found.segments[before].end == position
        let end = isNext ? first : Self.last(of: found.segments[before], in: directory).number + 1
        found.segments[before].entries =
          Int(max(end, found.segments[before].first))
          - Int(found.segments[before].first)
      }
      found.segments.append(
        Segment(position: position, bytes: Int64(status.st_size), first: first))
      found.newest = max(found.newest, first)
    }
    if let segment = found.segments.last {
      let read = Self.last(of: segment, in: directory)
      (found.newest, last) = (max(found.newest, read.number), read.entry)
      found.segments[found.segments.count - 1].entries = Int(found.newest + 1 - segment.first)
      found.end = segment.end
    }
    found.firstNumber = found.segments.first?.first ?? 1
    lastEntry = last
    contents = Mutex(found)
    thread = Mutex(nil)
    let thread = UpkeepThread { [self] in work() }
    let code = thread.start()
    guard code == 0 else {
      throw StoreError(systemError: code, path: directory, doing: "start the journal's thread")
    }
    self.thread.withLock { $0 = thread }
  }

  /// Returns the last entry of a segment and its number; 0 if there is none, and no entry if a
  /// damaged one follows it.
  private static func last(
    of segment: Segment, in directory: String
  ) -> (number: UInt64, entry: [UInt8]) {
    let path = path(segment.position, in: directory)
    let bytes = (try? SafeFile.read(path, atMost: Int(segment.bytes))) ?? []
    var last: (number: UInt64, entry: [UInt8]) = (0, [])
    let read = JournalFrames.read(bytes) { last = (max(last.number, $0), $1) }
    return read < bytes.count ? (last.number, []) : last
  }

  package var facts: Facts {
    contents.withLock { contents in
      Facts(
        bytes: contents.bytes, entries: contents.entries, lost: contents.lost,
        problem: contents.problem)
    }
  }

  package func reload(bytes: Int, entries: Int) {
    contents.withLock { $0.limits = (bytes, entries) }
  }

  /// Has entries written. Returns nil; or how many are lost, these and those before them, if the
  /// journal has to begin a segment.
  package func append(_ portions: [Journal.Portion]) -> Int? {
    let lost: Int? = contents.withLock { contents in
      let now = ChangeLog.now
      let isFailing = contents.problem != nil && now - contents.failedAt < Self.retryMicroseconds
      let isSlow = contents.waitingBytes > Self.maximumWaiting
      if isSlow, !isFailing {
        contents.problem = "the disk is slow: \(contents.waitingBytes >> 20) MiB wait for it"
        contents.failedAt = now
      }
      if isSlow || isFailing || contents.mustStartOver {
        contents.drop(portions)
        defer { (contents.unreported, contents.mustStartOver) = (0, false) }
        return contents.unreported
      }
      contents.queue += portions
      contents.waitingBytes += portions.reduce(0) { $0 + $1.bytes }
      return nil
    }
    if lost == nil { thread.withLock { $0?.wake() } }
    return lost
  }

  /// Returns once everything is written, and ends.
  package func close() {
    thread.withLock { thread in
      thread?.stop()
      thread = nil
    }
    _ = work()
    contents.withLock { contents in
      if contents.descriptor >= 0 { Glibc.close(contents.descriptor) }
      contents.descriptor = -1
    }
  }

  // MARK: Writing

  private func work() -> UpkeepThread.Next {
    let queue = contents.withLock { contents in
      defer { contents.queue = [] }
      return contents.queue
    }
    guard !queue.isEmpty else { return .waitUntilWoken }
    for (index, portion) in queue.enumerated() {
      do {
        try write(portion)
      } catch {
        contents.withLock { contents in
          contents.problem = error.description
          contents.failedAt = ChangeLog.now
          contents.drop(queue[index...] + contents.queue)
          (contents.queue, contents.waitingBytes) = ([], 0)
        }
        return .waitUntilWoken
      }
      contents.withLock { $0.waitingBytes -= portion.bytes }
    }
    contents.withLock { $0.problem = nil }
    return .goOn
  }

  private func write(_ portion: Journal.Portion) throws(StoreError) {
    var (descriptor, number) = contents.withLock { ($0.descriptor, $0.newest) }
    var frames: [UInt8] = []
    for entry in portion.entries {
      number += 1
      frames += JournalFrames.frame(entry, number: number)
    }
    if portion.beginsSegment || descriptor < 0 {
      if descriptor >= 0 { Glibc.close(descriptor) }
      contents.withLock { $0.descriptor = -1 }
      dropOldest()
      try checkRoom(for: frames.count)
      let (position, first) = contents.withLock { ($0.end, $0.newest + 1) }
      let path = Self.path(position, in: directory)
      descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
      guard descriptor >= 0 else {
        throw StoreError(systemError: errno, path: path, doing: "make a segment of the journal")
      }
      contents.withLock {
        $0.segments.append(Segment(position: position, first: first))
        $0.descriptor = descriptor
      }
    } else {
      try checkRoom(for: frames.count)
    }
    var rest = frames[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes {
        unsafe Glibc.write(descriptor, $0.baseAddress, $0.count)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        let code = errno
        endSegment(descriptor, without: frames.count - rest.count)
        throw StoreError(systemError: code, path: directory, doing: "write the journal")
      }
      rest = rest.dropFirst(count)
    }
    contents.withLock { contents in
      contents.newest = number
      contents.end += Int64(frames.count)
      guard let last = contents.segments.indices.last,
        contents.segments[last].end + Int64(frames.count) == contents.end
      else { return }
      contents.segments[last].bytes += Int64(frames.count)
      contents.segments[last].entries += portion.entries.count
    }
  }

  /// Ends a segment after a failed write: the next one is another file.
  ///
  /// - Parameter count: how many bytes were written in part. They are not counted.
  private func endSegment(_ descriptor: Int32, without count: Int) {
    var status = stat()
    if unsafe fstat(descriptor, &status) == 0 {
      ftruncate(descriptor, status.st_size - off_t(count))
    }
    Glibc.close(descriptor)
    contents.withLock { contents in
      contents.descriptor = -1
      if contents.segments.last?.bytes == 0 { contents.segments.removeLast() }
    }
  }

  /// Throws if the disk would have less room than what is reserved for the state.
  private func checkRoom(for count: Int) throws(StoreError) {
    var system = statvfs()
    guard unsafe statvfs(directory, &system) == 0 else {
      throw StoreError(systemError: errno, path: directory, doing: "statvfs")
    }
    let unit = UInt64(system.f_frsize)
    let reserved = min(UInt64(system.f_blocks) * unit / Self.reservedShare, Self.maximumReserved)
    let free = UInt64(system.f_bavail) * unit
    guard free >= reserved + UInt64(count) else {
      throw StoreError(
        .full, directory,
        "no space left for the journal: \(free >> 10) KiB are free, and \(reserved >> 10) KiB stay "
          + "free for the state")
    }
  }

  /// Removes the oldest segments until there is room for one more.
  private func dropOldest() {
    while true {
      let gone: Int64? = contents.withLock { contents in
        let maximum = Journal.segments - 1
        guard let oldest = contents.segments.first,
          contents.bytes > Int64(contents.limits.bytes / Journal.segments * maximum)
            || contents.entries > contents.limits.entries / Journal.segments * maximum
        else { return nil }
        contents.segments.removeFirst()
        contents.firstNumber = oldest.first + UInt64(oldest.entries)
        return oldest.position
      }
      guard let gone else { return }
      unsafe unlink(Self.path(gone, in: directory))
    }
  }

  // MARK: Reading

  /// Returns bytes of one segment; later ones if those at the position were removed or their file
  /// is missing, and none at the end.
  package func read(at position: Int64, count: Int) throws(StoreError) -> JournalPart {
    while true {
      let (segments, end, lost) = contents.withLock { ($0.segments, $0.end, $0.lostAtEnd) }
      guard let segment = segments.first(where: { position < $0.end }) else {
        return JournalPart(
          position: end, next: end, segment: segments.last?.position ?? 0, bytes: [], lost: lost)
      }
      let start = max(position, segment.position)
      let bytes = try read(segment, from: start, count: min(count, Int(segment.end - start)))
      guard !bytes.isEmpty else {
        contents.withLock { $0.forget(segment) }
        continue
      }
      return JournalPart(
        position: start, next: start + Int64(bytes.count), segment: segment.position,
        bytes: bytes, lost: 0)
    }
  }

  /// Returns bytes of a segment; none if its file is missing or was cut.
  private func read(
    _ segment: Segment, from start: Int64, count: Int
  ) throws(StoreError) -> [UInt8] {
    let path = Self.path(segment.position, in: directory)
    do {
      return try SafeFile.read(path, from: Int(start - segment.position), atMost: count)
    } catch {
      if error.code == ENOENT { return [] }
      throw StoreError(error, path: path, doing: "read the journal")
    }
  }

  // MARK: Names

  private static func path(_ position: Int64, in directory: String) -> String {
    let digits = String(position)
    return directory + "/" + String(repeating: "0", count: 16 - digits.count) + digits + suffix
  }

  private static func positions(in directory: String) throws(StoreError) -> [Int64] {
    try StateFiles.names(in: directory).compactMap { name in
      guard name.hasSuffix(suffix), let position = Int64(name.dropLast(suffix.count)),
        (0..<1_000_000_000_000_000).contains(position)
      else { return nil }
      return position
    }.sorted()
  }
}

extension JournalFiles {
  /// Whether a journal ends in order, in this boot: then its state is that of the start after it.
  package func endsInOrder(bootID: String) -> Bool {
    guard let entry = JournalEntry(bytes: lastEntry, offset: 0) else { return false }
    return entry.what == .closed && entry.segment.bootID == bootID
  }
}

/// The entries of a journal as bytes, on the disk and in an exported file.
package enum JournalFrames {
  package static func frame(_ entry: [UInt8], number: UInt64) -> [UInt8] {
    var frame: [UInt8] = []
    LogFrame.write(entry, number: number, start: 0, to: &frame)
    return frame
  }

  /// Calls `body` with each entry, up to the first that is cut off or damaged. Returns where that
  /// is.
  package static func read<E: Error>(
    _ bytes: [UInt8], _ body: (_ number: UInt64, _ entry: [UInt8]) throws(E) -> Void
  ) throws(E) -> Int {
    var offset = 0
    while let frame = LogFrame(in: bytes, at: offset), frame.end <= bytes.count {
      try body(frame.number, Array(bytes[frame.payload]))
      offset = frame.end
    }
    return offset
  }
}
