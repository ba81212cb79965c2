import Countdowns
import Glibc
import Synchronization

/// The files of the journal of decisions: segments, each named after the position of its first byte
/// in all that was ever kept. A thread writes them, so a slow disk holds nobody up.
///
/// They are no part of the state: nothing is synced, and what waits in memory is lost if the daemon
/// is killed.
package final class JournalFiles: Sendable {
  private struct Segment {
    let position: Int64
    var bytes: Int64 = 0
    /// The number of its first entry, counted from 1.
    var first: UInt64
    var end: Int64 { position + bytes }
  }

  private struct Contents {
    var segments: [Segment] = []
    /// The number of the newest entry.
    var newest: UInt64 = 0
    var descriptor: Int32 = -1
    var queue: [Journal.Portion] = []
    var limits: (bytes: Int, entries: Int)
    /// Why entries cannot be written, since when, and how many are lost for it.
    var problem: String?
    var failedAt: Int64 = 0
    var lost = 0
    var bytes: Int64 { segments.reduce(0) { $0 + $1.bytes } }
    var end: Int64 { segments.last.map(\.end) ?? 0 }
  }

  /// The figures for INFO and METRICS.
  package struct Facts: Sendable {
    package var bytes: Int64
    package var entries: UInt64
    package var problem: String?
  }

  package let directory: String
  /// The last entry that was there at the start.
  package let lastEntry: [UInt8]
  private let contents: Mutex<Contents>
  private let thread: Mutex<UpkeepThread?>
  private static let suffix = ".journal"
  private static let retryMicroseconds: Int64 = 1_000_000

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
      let start = (try? FileContents.read(path, atMost: 1 << 16)) ?? []
      let first = LogFrame(in: start, at: 0)?.number ?? found.newest + 1
      found.segments.append(
        Segment(position: position, bytes: Int64(status.st_size), first: first))
      found.newest = max(found.newest, first)
    }
    if let segment = found.segments.last {
      let path = Self.path(segment.position, in: directory)
      let bytes = (try? FileContents.read(path, atMost: Int(segment.bytes))) ?? []
      let read = JournalFrames.read(bytes) { number, entry in
        (found.newest, last) = (max(found.newest, number), entry)
      }
      if read < bytes.count { last = [] }
    }
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

  package var facts: Facts {
    contents.withLock { contents in
      Facts(
        bytes: contents.bytes,
        entries: contents.segments.first.map { contents.newest + 1 - $0.first } ?? 0,
        problem: contents.problem)
    }
  }

  package func reload(bytes: Int, entries: Int) {
    contents.withLock { $0.limits = (bytes, entries) }
  }

  /// Has entries written. Returns how many earlier ones are lost; then these are, too, unless they
  /// begin a segment.
  package func append(_ portions: [Journal.Portion]) -> Int {
    let lost = contents.withLock { contents in
      let lost = contents.lost
      let isFailing =
        contents.problem != nil && ChangeLog.now - contents.failedAt < Self.retryMicroseconds
      if lost > 0 || isFailing {
        contents.lost = 0
        return lost + portions.reduce(0) { $0 + $1.entries.count }
      }
      contents.queue += portions
      return 0
    }
    if lost == 0 { thread.withLock { $0?.wake() } }
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
          contents.lost += (queue[index...] + contents.queue).reduce(0) { $0 + $1.entries.count }
          contents.queue = []
        }
        return .waitUntilWoken
      }
    }
    contents.withLock { $0.problem = nil }
    return .goOn
  }

  private func write(_ portion: Journal.Portion) throws(StoreError) {
    var (descriptor, number) = contents.withLock { ($0.descriptor, $0.newest) }
    if portion.beginsSegment || descriptor < 0 {
      if descriptor >= 0 { Glibc.close(descriptor) }
      contents.withLock { $0.descriptor = -1 }
      // Read before the oldest are dropped, which may be all.
      let position = contents.withLock(\.end)
      dropOldest()
      let path = Self.path(position, in: directory)
      descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
      guard descriptor >= 0 else {
        throw StoreError(systemError: errno, path: path, doing: "make a segment of the journal")
      }
      contents.withLock {
        $0.segments.append(Segment(position: position, first: number + 1))
        $0.descriptor = descriptor
      }
    }
    var bytes: [UInt8] = []
    for entry in portion.entries {
      number += 1
      bytes += JournalFrames.frame(entry, number: number)
    }
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes {
        unsafe Glibc.write(descriptor, $0.baseAddress, $0.count)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        let code = errno
        // What was written in part is not counted, and the next segment is another file.
        ftruncate(descriptor, contents.withLock { Int($0.segments.last!.bytes) })
        Glibc.close(descriptor)
        contents.withLock { contents in
          contents.descriptor = -1
          if contents.segments.last!.bytes == 0 { contents.segments.removeLast() }
        }
        throw StoreError(systemError: code, path: directory, doing: "write the journal")
      }
      rest = rest.dropFirst(count)
    }
    contents.withLock {
      $0.segments[$0.segments.count - 1].bytes += Int64(bytes.count)
      $0.newest = number
    }
  }

  /// Removes the oldest segments until there is room for one more.
  private func dropOldest() {
    while true {
      let gone: Int64? = contents.withLock { contents in
        let most = Journal.segments - 1
        guard let oldest = contents.segments.first,
          contents.bytes > Int64(contents.limits.bytes / Journal.segments * most)
            || contents.newest + 1 - oldest.first
              > UInt64(contents.limits.entries / Journal.segments * most)
        else { return nil }
        contents.segments.removeFirst()
        return oldest.position
      }
      guard let gone else { return }
      unsafe unlink(Self.path(gone, in: directory))
    }
  }

  // MARK: Reading

  /// Returns bytes of one segment; later ones if those at the position were removed, and none
  /// at the end.
  package func read(at position: Int64, count: Int) throws(StoreError) -> JournalPart {
    let segments = contents.withLock(\.segments)
    guard
      let segment = segments.first(where: { position < $0.end })
    else {
      let end = segments.last.map(\.end) ?? 0
      return JournalPart(
        position: end, next: end, segment: segments.last?.position ?? 0, bytes: [])
    }
    let start = max(position, segment.position)
    let length = min(Int64(count), segment.end - start)
    let path = Self.path(segment.position, in: directory)
    let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else {
      throw StoreError(systemError: errno, path: path, doing: "read the journal")
    }
    defer { Glibc.close(file) }
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: Int(length)) { memory, read in
      let place = Int(start - segment.position)
      read = max(unsafe pread(file, memory.baseAddress, Int(length), place), 0)
    }
    guard !bytes.isEmpty else {
      throw StoreError(systemError: errno, path: path, doing: "read the journal")
    }
    return JournalPart(
      position: start, next: start + Int64(bytes.count), segment: segment.position, bytes: bytes)
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
    var place = 0
    while let frame = LogFrame(in: bytes, at: place), frame.end <= bytes.count {
      try body(frame.number, Array(bytes[frame.payload]))
      place = frame.end
    }
    return place
  }
}
