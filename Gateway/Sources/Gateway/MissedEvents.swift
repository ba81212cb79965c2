import CountdownClient

/// The events that pages have missed, read from the daemon's log, or from that of its fleet.
///
/// After an outage, all pages ask within moments. Questions that come while the daemon is being
/// asked wait, and one reading of the log then answers them all.
actor MissedEvents {
  struct Answer {
    /// In the order in which they happened.
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
  /// How far back the daemon's log is read, in numbers.
  private static let depth = 100_000
  /// How many replies of the daemon are read of the log of a fleet.
  private static let mostReplies = 10

  private let daemon: Daemon
  private var waiting: [Question] = []
  private var isAsking = false

  init(_ daemon: Daemon) { self.daemon = daemon }

  /// Returns the events of channels after a cursor; at least those that have happened by now.
  ///
  /// - Parameters:
  ///   - cursor: what a page sends, which may be anything.
  ///   - isShared: whether the daemon belongs to a fleet, where a number says too little.
  func answer(
    _ channels: [String], after cursor: String, isShared: Bool
  ) async throws -> Answer {
    guard cursor.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
      let last = Int(cursor)
    else { return try await read(channels, after: cursor) }
    var answer = try await withCheckedThrowingContinuation { answer in
      waiting.append(Question(channels: channels, last: last, answer: answer))
      guard !isAsking else { return }
      isAsking = true
      Task { await askAll() }
    }
    if isShared { answer.isComplete = false }
    return answer
  }

  // MARK: The log of a fleet

  private func read(_ channels: [String], after cursor: String) async throws -> Answer {
    var reading = Reading(channels: Set(channels))
    var (next, isComplete) = (cursor, true)
    for _ in 0..<Self.mostReplies {
      let reply: RESPValue
      do {
        reply = try await daemon.ask(["EVENTS", "SINCE", next] + reading.patterns)
      } catch CountdownClientError.server(let code, _)
        where code == .invalid || code == .unavailable
      {
        // No cursor, or the fleet's servers do not answer: the snapshots are all there is.
        return Answer(isComplete: false)
      }
      try reading.add(reply)
      if reply["complete"]?.bool != true { isComplete = false }
      guard reply["more"]?.bool == true, let cursor = reply["cursor"]?.string else {
        return reading.answer(channels, isComplete: isComplete)
      }
      next = cursor
    }
    return reading.answer(channels, isComplete: false)
  }

  // MARK: The log of one daemon

  private func askAll() async {
    while !waiting.isEmpty {
      let questions = waiting
      waiting = []
      do {
        let reading = try await read(for: questions)
        for question in questions {
          question.answer.resume(
            returning: reading.answer(
              question.channels, after: question.last,
              isComplete: question.last >= reading.begin && question.last <= reading.end))
        }
      } catch {
        for question in questions { question.answer.resume(throwing: error) }
      }
    }
    isAsking = false
  }

  private func read(for questions: [Question]) async throws -> Reading {
    var reading = Reading(channels: Set(questions.flatMap(\.channels)))
    let patterns = reading.events.count <= Self.mostPatterns ? reading.patterns : []
    let newest = try await daemon.ask(["EVENTS", "LAST"]).int ?? 0
    var next = questions.map(\.last).min() ?? 0
    next = min(max(next, newest - Self.depth), newest)
    reading.begin = next
    var hasMore = true
    while hasMore {
      let reply = try await daemon.ask(["EVENTS", "SINCE", "\(next)"] + patterns)
      if next == reading.begin, reply["complete"]?.bool != true {
        reading.begin = try await beginning(of: next)
      }
      try reading.add(reply)
      next = reply["last_seq"]?.int ?? next
      hasMore = reply["more"]?.bool == true
    }
    reading.end = next
    return reading
  }

  /// Returns the number of the event before the oldest in the log.
  private func beginning(of last: Int) async throws -> Int {
    let reply = try await daemon.ask(["EVENTS", "SINCE", "\(last)", "LIMIT", "1"])
    guard let pair = reply["events"]?.elements?.first?.elements, pair.count == 2,
      let channel = pair[0].string, let line = pair[1].bytes,
      let seq = try CountdownEvent(channel: channel, message: line).seq
    else { return reply["last_seq"]?.int ?? last }
    return seq - 1
  }

  /// What was read: all events of some channels from `begin` to `end`, but at most the newest of
  /// each channel.
  private struct Reading {
    private(set) var events: [String: [(place: Int, event: CountdownEvent)]]
    private var count = 0
    var begin = 0
    var end = 0

    init(channels: Set<String>) {
      events = Dictionary(uniqueKeysWithValues: channels.map { ($0, []) })
    }

    /// The options with which the daemon picks the events.
    var patterns: [String] {
      events.keys.compactMap(EntityChannel.init).flatMap { ["MATCH", $0.pattern] }
    }

    /// Adds the events of a reply.
    mutating func add(_ reply: RESPValue) throws {
      for entry in reply["events"]?.elements ?? [] {
        guard let pair = entry.elements, pair.count == 2, let channel = pair[0].string,
          let line = pair[1].bytes, let index = events.index(forKey: channel)
        else { continue }
        // Twice as many are kept now and then, so that each is moved at most once.
        if events.values[index].count >= 2 * MissedEvents.most {
          events.values[index].removeFirst(MissedEvents.most)
        }
        count += 1
        let event = try CountdownEvent(channel: channel, message: line)
        events.values[index].append((count, event))
      }
    }

    func answer(_ channels: [String], after last: Int = -1, isComplete: Bool) -> Answer {
      var isComplete = isComplete
      var found: [(place: Int, event: CountdownEvent)] = []
      for channel in channels {
        let missed = events[channel, default: []].reversed().prefix { $0.event.seq ?? 0 > last }
        found += missed.prefix(MissedEvents.most)
        if missed.count > MissedEvents.most { isComplete = false }
      }
      found.sort { $0.place < $1.place }
      return Answer(events: found.map(\.event), isComplete: isComplete)
    }
  }
}
