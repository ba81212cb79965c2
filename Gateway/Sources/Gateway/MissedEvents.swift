import CountdownClient
import Synchronization

/// The events that pages have missed, read from the daemon's log.
///
/// After an outage, the pages of one countdown ask the same question: the daemon answers it once.
final class MissedEvents: Sendable {
  struct Question: Hashable {
    let channel: String
    /// The number of the last event that the page has seen.
    let last: Int
  }

  struct Answer {
    fileprivate(set) var events: [CountdownEvent] = []
    fileprivate(set) var isComplete = true
    /// The number up to which the answer has everything.
    fileprivate(set) var end = 0
  }

  /// The number of missed events after which reading stops; more than a page can use.
  private static let most = 200
  private static let mostQuestions = 10_000

  private let daemon: Daemon
  private let asked = Mutex<[Question: Task<Answer, any Error>]>([:])

  init(_ daemon: Daemon) { self.daemon = daemon }

  /// - Parameter needed: the number up to which the events are needed. An answer to an earlier page
  ///   may end before it.
  func answer(_ question: Question, through needed: Int) async throws -> Answer {
    var tooOld: Task<Answer, any Error>?
    while true {
      let (task, isMine) = asked.withLock { asked in
        if let task = asked[question], task != tooOld { return (task, false) }
        if asked.count >= Self.mostQuestions { asked = [:] }
        let task = Task { [daemon] in try await Self.ask(question, daemon) }
        asked[question] = task
        return (task, true)
      }
      if isMine { return try await task.value }
      if let answer = try? await task.value, answer.end >= needed { return answer }
      tooOld = task
    }
  }

  private static func ask(_ question: Question, _ daemon: Daemon) async throws -> Answer {
    var answer = Answer(end: question.last)
    guard let pattern = EntityChannel(question.channel)?.pattern else { return answer }
    var hasMore = true
    while hasMore {
      let reply = try await daemon.ask(["EVENTS", "SINCE", "\(answer.end)", "MATCH", pattern])
      for entry in reply["events"]?.elements ?? [] {
        guard let pair = entry.elements, pair.count == 2, let line = pair[1].bytes else { continue }
        answer.events.append(try CountdownEvent(channel: question.channel, message: line))
      }
      answer.isComplete = answer.isComplete && reply["complete"]?.bool == true
      answer.end = reply["last_seq"]?.int ?? answer.end
      hasMore = reply["more"]?.bool == true
      if hasMore, answer.events.count >= most {
        answer.isComplete = false
        hasMore = false
      }
    }
    return answer
  }
}
