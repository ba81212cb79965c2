import CountdownServer
import DispatchTimers
import Logging
import Runtime
import Synchronization
import SystemdSupport

/// Log lines on their way to the journal. A journal that does not read stops nobody: up to `bytes`
/// wait for it. Lines beyond are lost and counted, and a line says so once the journal reads again.
final class LogQueue: Sendable {
  /// In bytes, about 20,000 lines.
  static let capacity = 16 << 20
  /// The part of the capacity that only critical lines may use.
  static let reserved = 1 << 20
  /// How long the journal may read nothing before nobody waits for it, in microseconds.
  static let patience: Int64 = 10_000_000

  private struct Room {
    var used = 0
    /// The lines lost since the last line that says how many.
    var gap = LostLines()
    /// When a line was written last; nil before the first.
    var lastWritten: Int64?
  }

  private let room: Lock<Room>
  private let outbox: Outbox<LogLine>

  /// - Parameter write: called on a thread of its own; it may wait.
  init(_ write: @escaping @Sendable (LogLine) -> Void) {
    let room = Lock(Room())
    self.room = room
    outbox = Outbox { line in
      write(line)
      let gap = room.withLock { room in
        room.used -= line.size
        room.lastWritten = Int64(BootClock.now)
        // Not at once, as lines may be lost as fast as others are written.
        guard room.gap.all > 0, room.used <= Self.capacity / 2 else { return LostLines() }
        defer { room.gap = LostLines() }
        return room.gap
      }
      if gap.all > 0 { write(gap.line) }
    }
  }

  func take(_ line: LogLine) {
    let limit = line.level == .critical ? Self.capacity : Self.capacity - Self.reserved
    let fits = room.withLock { room in
      let fits = room.used + line.size <= limit
      if fits { room.used += line.size } else { room.gap.count(line) }
      return fits
    }
    guard fits else { return LostLines.sinceStart.withLock { $0.count(line) } }
    outbox.change { $0.append(line) }
  }

  /// Whether the journal reads, but not fast enough: who causes many lines should wait.
  func isBehind(patience: Int64 = patience) -> Bool {
    room.withLock { room in
      guard room.used > Self.capacity / 2, let last = room.lastWritten else { return false }
      return Int64(BootClock.now) - last < patience
    }
  }

  /// Waits until all lines are written, but not for long: call it before the process ends. While
  /// the journal hangs, standard error has room, so it gets the critical lines.
  func flush() {
    for line in outbox.drain() where line.level == .critical { StandardError.write(tagged: line) }
  }
}

/// How many log lines were not taken in time by who reads them.
struct LostLines: Sendable {
  private(set) var all = 0
  /// Those about changes for another user.
  private(set) var audit = 0

  static let sinceStart = Mutex(LostLines())

  mutating func count(_ line: LogLine) {
    all += 1
    if line.isAudit { audit += 1 }
  }

  /// The line that says so.
  var line: LogLine {
    var metadata: Logger.Metadata = ["lines": "\(all)", "audit-lines": "\(audit)"]
    metadata[LogMessage.metadataKey] = .string(LogMessage.linesLost.rawValue)
    return LogLine(
      LogEvent(
        level: .error, message: "log lines are missing here: the journal did not take them in time",
        metadata: metadata, source: "", file: #fileID, function: #function, line: #line), [:])
  }
}

extension LogLine {
  /// Roughly the bytes of memory that it takes.
  fileprivate var size: Int { 512 + text.utf8.count + about.reduce(0) { $0 + $1.value.utf8.count } }
}
