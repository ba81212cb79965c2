import CountdownClient

/// The events that pages have missed, read from the daemon's log.
///
/// After an outage, all pages ask within moments. Questions that come while the daemon is being
/// asked wait, and one reading of the log then answers them all.
actor MissedEvents {
  struct Answer {
    var events: [CountdownEvent] = []
    /// False if events are missing before these.
    var isComplete = true
  }

  private struct Question {
    let channels: [String]
    let last: Int
    let answer: CheckedContinuation<Answer, any Error>
  }

  /// The number of missed events of a channel that a page receives; more than it can use.
  private static let most = 200
  /// Up to this many channels, the daemon picks their events; beyond, it sends those of all.
  private static let mostPatterns = 16
  /// How many events the daemon sends of all channels.
  private static let mostOfAll = 100_000

  private let daemon: Daemon
  private var waiting: [Question] = []
  private var isAsking = false

  init(_ daemon: Daemon) { self.daemon = daemon }

  /// Returns the events of channels after a number, each channel's in order; at least those that
  /// have happened by now.
  func answer(_ channels: [String], after last: Int) async throws -> Answer {
    try await withCheckedThrowingContinuation { answer in
      waiting.append(Question(channels: channels, last: last, answer: answer))
      guard !isAsking else { return }
      isAsking = true
      Task { await askAll() }
    }
  }

  private func askAll() async {
    while !waiting.isEmpty {
      let questions = waiting
      waiting = []
      do {
        let reading = try await read(for: questions)
        for question in questions {
          question.answer.resume(returning: reading.answer(question.channels, question.last))
        }
      } catch {
        for question in questions { question.answer.resume(throwing: error) }
      }
    }
    isAsking = false
  }

  private func read(for questions: [Question]) async throws -> Reading {
    var reading = Reading(channels: Set(questions.flatMap(\.channels)))
    var next = questions.map(\.last).min() ?? 0
    var patterns: [String] = []
    if reading.events.count <= Self.mostPatterns {
      patterns = reading.events.keys.compactMap(EntityChannel.init).flatMap {
        ["MATCH", $0.pattern]
      }
    } else {
      let newest = try await daemon.ask(["EVENTS", "LAST"]).int ?? 0
      next = min(max(next, newest - Self.mostOfAll), newest)
    }
    reading.begin = next
    var hasMore = true
    while hasMore {
      let reply = try await daemon.ask(["EVENTS", "SINCE", "\(next)"] + patterns)
      if next == reading.begin, reply["complete"]?.bool != true {
        reading.begin = try await beginning(of: next)
      }
      for entry in reply["events"]?.elements ?? [] {
        guard let pair = entry.elements, pair.count == 2, let channel = pair[0].string,
          let line = pair[1].bytes
        else { continue }
        try reading.add(line, of: channel)
      }
      next = reply["last_seq"]?.int ?? next
      hasMore = reply["more"]?.bool == true
    }
    reading.end = next
    return reading
  }

  /// Returns the number of the event before the oldest in the log.
  private func beginning(of last: Int) async throws -> Int {
    let reply = try await daemon.ask(["EVENTS", "SINCE", "\(last)", "LIMIT", "1"])
    guard let line = reply["events"]?.elements?.first?.elements?.last?.bytes,
      let seq = try CountdownEvent(channel: "", message: line).seq
    else { return reply["last_seq"]?.int ?? last }
    return seq - 1
  }

  /// What was read: all events of some channels from `begin` to `end`, but at most the newest of
  /// each channel.
  private struct Reading {
    var events: [String: [CountdownEvent]]
    var begin = 0
    var end = 0

    init(channels: Set<String>) {
      events = Dictionary(uniqueKeysWithValues: channels.map { ($0, []) })
    }

    mutating func add(_ line: [UInt8], of channel: String) throws {
      guard let index = events.index(forKey: channel) else { return }
      let event = try CountdownEvent(channel: channel, message: line)
      // Twice as many are kept now and then, so that each is moved at most once.
      if events.values[index].count >= 2 * MissedEvents.most {
        events.values[index].removeFirst(MissedEvents.most)
      }
      events.values[index].append(event)
    }

    func answer(_ channels: [String], _ last: Int) -> Answer {
      var answer = Answer(isComplete: last >= begin && last <= end)
      for channel in channels {
        let missed = events[channel, default: []].reversed().prefix { $0.seq ?? 0 > last }
        answer.events += missed.prefix(MissedEvents.most).reversed()
        if missed.count > MissedEvents.most { answer.isComplete = false }
      }
      return answer
    }
  }
}
