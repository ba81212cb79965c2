import CountdownServer
import Dispatch
import Glibc
import Logging
import Synchronization
import Testing

@testable import countdownd

/// Lines for a journal that may stand still.
@Suite struct LogQueueTests {
  /// A journal that takes lines only while it moves.
  private final class Journal: Sendable {
    let lines = Mutex<[LogLine]>([])
    private let moves = DispatchSemaphore(value: 0)
    private let isStopped = Mutex(true)

    func write(_ line: LogLine) {
      if isStopped.withLock({ $0 }) { moves.wait() }
      lines.withLock { $0.append(line) }
    }

    func move() {
      isStopped.withLock { $0 = false }
      moves.signal()
    }
  }

  private func line(
    _ text: String, _ level: Logger.Level, _ id: LogMessage = .ready, padding: Int = 0
  ) -> LogLine {
    var line = LogLine(
      LogEvent(
        level: level, message: "", metadata: [LogMessage.metadataKey: "\(id.rawValue)"],
        source: "", file: "", function: "", line: 1), [:])
    line.text = text + String(repeating: "x", count: padding)
    return line
  }

  private func wait(_ condition: () -> Bool) {
    while !condition() { usleep(1_000) }
  }

  @Test(.timeLimit(.minutes(1)))
  func aJournalThatHangsLosesLinesButNoCriticalOnesAndReportsHowMany() {
    let journal = Journal()
    let queue = LogQueue { journal.write($0) }
    // More than fits.
    let padding = 64 << 10
    let count = 2 * LogQueue.capacity / padding
    for number in 0..<count {
      let id = number == count - 1 ? LogMessage.foreignChange : .ready
      queue.take(line("\(number) ", .notice, id, padding: padding))
    }
    queue.take(line("important", .critical))
    journal.move()
    wait { journal.lines.withLock { $0.last?.text == "important" } }

    let lines = journal.lines.withLock(\.self)
    let kept = lines.filter { $0.text.hasSuffix("x") }
    #expect(kept.enumerated().allSatisfy { $1.text.hasPrefix("\($0) ") })
    let gaps = lines.filter { $0.messageID == LogMessage.linesLost.rawValue }
    #expect(gaps.count == 1)
    #expect(gaps.first?.about.map(\.value) == ["1", "\(count - kept.count)"])
    // All bytes are free again.
    for number in 0..<kept.count { queue.take(line("\(number) ", .notice, padding: padding)) }
    wait { journal.lines.withLock { $0.count } == lines.count + kept.count }
  }
}
