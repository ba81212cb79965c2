import CountdownServer
import Dispatch
import Glibc
import Logging
import Runtime
import Synchronization
import Testing

@testable import countdownd

/// Lines for a journal that may stand still.
@Suite struct LogQueueTests {
  /// A journal that takes lines only while it moves.
  private final class Journal: Sendable {
    let lines = Mutex<[LogLine]>([])
    let moves = DispatchSemaphore(value: 0)
    private let isStopped = Mutex(true)
    let taken = Mutex(0)

    func write(_ line: LogLine) {
      taken.withLock { $0 += 1 }
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

  @Test(.timeLimit(.minutes(5)))
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
    #expect(!queue.isBehind())
    // All bytes are free again.
    for number in 0..<kept.count { queue.take(line("\(number) ", .notice, padding: padding)) }
    wait { journal.lines.withLock { $0.count } == lines.count + kept.count }
  }

  @Test(.timeLimit(.minutes(5))) func whoLogsMuchWaitsForAJournalThatReadsButNotForOneThatHangs() {
    let journal = Journal()
    let queue = LogQueue { journal.write($0) }
    queue.take(line("first", .notice))
    queue.take(line("much", .notice, padding: LogQueue.capacity * 3 / 4))
    #expect(!queue.isBehind(patience: .max), "it has read nothing yet")
    journal.moves.signal()
    wait { journal.taken.withLock { $0 } == 2 }
    #expect(queue.isBehind(patience: .max))
    #expect(!queue.isBehind(patience: 0), "it hangs")
    journal.move()
    wait { !queue.isBehind(patience: .max) }
  }
}
