import NIOCore
import Testing

@testable import countdownctl

@Suite struct BenchTests {
  // MARK: Replies

  /// Feeds a text in pieces of a length; how many replies were complete after each piece.
  static func count(_ text: String, pieces length: Int = .max) -> (counts: [Int], ReplyCounter) {
    var counter = ReplyCounter()
    var rest = Array(text.utf8)[...]
    var counts: [Int] = []
    while !rest.isEmpty {
      let piece = Array(rest.prefix(length))
      rest = rest.dropFirst(piece.count)
      counts.append(counter.feed(piece.span))
    }
    return (counts, counter)
  }

  static let replies: [(text: String, count: Int)] = [
    ("+OK\r\n", 1), (":42\r\n:-1\r\n", 2), ("$-1\r\n", 1), ("$0\r\n\r\n", 1),
    ("$5\r\na\r\nb\r\r\n", 1), ("*0\r\n", 1), ("*-1\r\n", 1), ("*2\r\n$1\r\na\r\n:5\r\n", 1),
    ("*2\r\n*1\r\n+a\r\n*0\r\n+b\r\n", 2), ("%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", 1),
    ("=7\r\ntxt:abc\r\n#t\r\n,1.5\r\n_\r\n", 4), ("|1\r\n+a\r\n+b\r\n:1\r\n", 1),
    (">2\r\n+a\r\n+b\r\n~1\r\n:3\r\n", 2), ("*2\r\n$1\r\na\r\n", 0), ("$3\r\nab", 0),
  ]

  @Test(arguments: replies)
  func repliesAreCountedHoweverTheyAreCut(_ text: String, _ count: Int) {
    for length in [1, 2, 3, 7, .max] {
      let (counts, counter) = Self.count(text, pieces: length)
      #expect(counts.reduce(0, +) == count, "in pieces of \(length)")
      #expect(counter.errors == 0)
    }
  }

  @Test func theFirstErrorIsKept() {
    for length in [1, 4, .max] {
      let (counts, counter) = Self.count(
        "+OK\r\n-LIMIT max-entities is 5 and reached\r\n-ERR other\r\n", pieces: length)
      #expect(counts.reduce(0, +) == 3)
      #expect(counter.errors == 2)
      #expect(counter.firstError == "LIMIT max-entities is 5 and reached")
    }
  }

  @Test func anErrorWithinAReplyIsNoneOfTheCommand() {
    let (counts, counter) = Self.count("*2\r\n-ERR inner\r\n:1\r\n")
    #expect(counts == [1])
    #expect(counter.errors == 0)
  }

  // MARK: Commands

  static func words(_ command: KeyCommand, key: Int, now: NIODeadline = .now()) -> [String] {
    var buffer = ByteBuffer()
    command.write(key: key, now: now, to: &buffer)
    let lines = String(buffer: buffer).split(separator: "\r\n", omittingEmptySubsequences: false)
    let words = stride(from: 2, to: lines.count, by: 2).map { String(lines[$0]) }
    let lengths = stride(from: 1, to: lines.count - 1, by: 2).map { String(lines[$0]) }
    #expect(lines.first == "*\(words.count)")
    #expect(lines.last == "")
    #expect(lengths == words.map { "$\($0.utf8.count)" })
    return words
  }

  @Test func commandsAreEncodedAsRESP() {
    #expect(
      Self.words(.start(prefix: "bench:1:", .asConfigured), key: 12)
        == ["COUNTDOWN", "START", "bench:1:000000012"])
    #expect(
      Self.words(.start(prefix: "b:", .steps(3, everyMS: 1500)), key: 0)
        == ["COUNTDOWN", "START", "b:000000000", "COUNT", "3", "EVERY", "1500"])
    #expect(Self.words(.get(prefix: "b:"), key: 7) == ["COUNTDOWN", "GET", "b:000000007"])
    #expect(
      Self.words(.cancel(prefix: "b:"), key: 999_999_999)
        == ["COUNTDOWN", "CANCEL", "b:999999999"])
  }

  @Test func allCountdownsAreDueAtOneMoment() {
    let moment = NIODeadline.uptimeNanoseconds(10_000_000_000)
    let command = KeyCommand.start(prefix: "b:", .at(moment))
    func every(_ now: TimeAmount) -> String? {
      Self.words(command, key: 1, now: .uptimeNanoseconds(0) + now).last
    }
    #expect(every(.seconds(0)) == "10000")
    #expect(every(.nanoseconds(9_998_999_999)) == "2")
    #expect(every(.milliseconds(9_991)) == "9")
    // The moment has passed: as soon as possible.
    #expect(every(.seconds(11)) == "1")
  }

  @Test func momentsAreSpreadAndTheSameForTheSameKey() {
    let command = KeyCommand.start(prefix: "b:", .within(milliseconds: 1000))
    let moments = (0..<10_000).map { Int(Self.words(command, key: $0).last ?? "") ?? 0 }
    #expect(moments.allSatisfy { (1...1000).contains($0) })
    #expect(Set(moments).count > 990)
    #expect(moments[5] == Int(Self.words(command, key: 5).last ?? ""))
  }

  // MARK: Events

  static func scan(_ text: String, pieces length: Int = .max) -> [ScannedEvent] {
    var scanner = EventScanner()
    var events: [ScannedEvent] = []
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      var piece = ByteBuffer(bytes: rest.prefix(length))
      rest = rest.dropFirst(length)
      #expect(scanner.feed(&piece) { events.append($0) } == nil)
    }
    return events
  }

  static func message(_ json: String) -> String {
    let words = ["pmessage", "countdown:b:*", "countdown:b:1", json]
    return "*4\r\n" + words.map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined()
  }

  @Test func eventsAreFoundHoweverTheyAreCut() {
    let stream =
      "*3\r\n$10\r\npsubscribe\r\n$13\r\ncountdown:b:*\r\n:1\r\n"
      + Self.message(#"{"event":"started","key":"b:1","seq":1}"#)
      + Self.message(#"{"event":"tick","key":"b:1","due_unix_ms":1790000001000,"late_us":143}"#)
      + Self.message(#"{"late_us":-7,"due_unix_ms":5,"event":"ready"}"#)
    for length in [1, 10, 33, 1000] {
      let events = Self.scan(stream, pieces: length).filter { $0.name != .other }
      #expect(
        events == [
          .init(name: .tick, dueUnixMS: 1_790_000_001_000, lateMicroseconds: 143),
          .init(name: .ready, dueUnixMS: 5, lateMicroseconds: -7),
        ])
    }
  }

  @Test func aRefusedSubscriptionShowsTheServersError() {
    var scanner = EventScanner()
    var bytes = ByteBuffer(string: "-LIMIT max-subscriptions is 1 and reached\r\n")
    #expect(scanner.feed(&bytes) { _ in } == "LIMIT max-subscriptions is 1 and reached")
  }

  @Test func anEarlyEventIsNoticed() {
    var counts = EventCounts()
    counts.add(
      .init(name: .ready, dueUnixMS: 1000, lateMicroseconds: 5), atUnixMicroseconds: 1_000_400)
    #expect((counts.ready, counts.early) == (1, 0))
    #expect(counts.arrivedLate.max == 400)
    counts.add(
      .init(name: .tick, dueUnixMS: 1000, lateMicroseconds: 5), atUnixMicroseconds: 999_999)
    counts.add(
      .init(name: .tick, dueUnixMS: 1000, lateMicroseconds: -1), atUnixMicroseconds: 1_000_001)
    counts.add(.init(name: .other, dueUnixMS: 1000, lateMicroseconds: 0), atUnixMicroseconds: 0)
    #expect((counts.ticks, counts.early) == (2, 2))
  }

  // MARK: Report

  static func facts(_ extra: String) -> ServerFacts {
    ServerFacts(info: "# Server\r\nsocket:/a:b\r\n" + extra)
  }

  static func report(
    started: Int, ready: Int, accepted: Int, isInterrupted: Bool = false
  ) throws -> BenchReport {
    var events = EventCounts()
    events.ready = ready
    var latencies = Latencies.microseconds
    latencies.record(250, count: UInt64(started))
    let cpu = { (seconds: String) in "used_cpu_user:\(seconds)\r\nused_cpu_sys:1.0\r\n" }
    return BenchReport(
      options: try .parse(["--mix", "burst", "-n", "\(started)"]), prefix: "bench:1:",
      load: LoadResult(
        stages: [.init(name: "start", latencies: latencies)], nanoseconds: 500_000_000),
      started: started, events: events, pings: nil,
      before: facts("starts_accepted:7\r\nused_memory_rss:1000000\r\n" + cpu("1.00")),
      loaded: facts("used_memory_rss:3000000\r\n" + cpu("1.05")),
      after: facts("starts_accepted:\(7 + accepted)\r\n"), isInterrupted: isInterrupted)
  }

  @Test func theReportCounts() throws {
    let report = try Self.report(started: 20_000, ready: 20_000, accepted: 20_000)
    #expect(report.problems.isEmpty)
    #expect(report.perSecond == 40_000)
    #expect(report.memoryPerCountdown == 100)
    #expect(abs((report.processorPerCommand ?? 0) - 2.5) < 0.001)
    let json = report.json
    #expect(json["events"]?["lost"]?.int == 0)
    #expect(json["latency_us"]?["start"]?["p99"]?.int == 250)
    #expect(json["server"]?["starts_accepted"]?.int == 20_000)
    #expect(report.lines(style: Style(hasColour: false))[0].contains("20,000 countdowns"))
  }

  @Test func whatIsLostOrRefusedIsAProblem() throws {
    #expect(try Self.report(started: 10, ready: 9, accepted: 10).problems.count == 1)
    #expect(try Self.report(started: 10, ready: 11, accepted: 10).problems.count == 1)
    #expect(try Self.report(started: 10, ready: 10, accepted: 9).problems.count == 1)
    // Others may use the daemon at the same time.
    #expect(try Self.report(started: 10, ready: 10, accepted: 12).problems.isEmpty)
    #expect(
      try Self.report(started: 10, ready: 5, accepted: 10, isInterrupted: true).problems.isEmpty)
  }

  @Test func missingFactsAreNil() {
    let facts = Self.facts("")
    #expect(facts["socket"] == "/a:b")
    #expect(facts.processorSeconds == nil)
    #expect(facts.rise("starts_accepted", since: facts) == nil)
  }

  @Test(arguments: [
    (["bench", "--countdowns", "0"], "--countdowns is 1 to"),
    (["bench", "-P", "0"], "--pipeline is 1 to"),
    (["bench", "--due", "0"], "--due is 1ms to 3650d"),
    (
      ["bench", "--due", "4000d"],
      "not a duration with ms, s, m, h or d, such as 90s, 1h30m or 1.5s, at most 3650d"
    ),
    (["bench", "-c", "2", "--threads", "3"], "--threads is 1 to 2"),
    (["bench", "--mix", "watched", "--due", "5s"], "--steps and --every"),
    (["bench", "--mix", "other"], "start-cancel"),
  ])
  func wrongOptionsAreRefused(_ arguments: [String], _ text: String) async {
    await #expect {
      _ = try await Countdownctl.asyncParseAsRoot(arguments)
    } throws: {
      Countdownctl.fullMessage(for: $0).contains(text)
    }
  }

  @Test func numbersAreGroupedForReading() {
    #expect(grouped(0) == "0")
    #expect(grouped(1_234_567) == "1,234,567")
    #expect(grouped(-1_000) == "-1,000")
    #expect(fixed(1.005, 2) == "1.00" || fixed(1.005, 2) == "1.01")
    #expect(fixed(0.05, 1) == "0.1")
    #expect(fixed(12, 3) == "12.000")
    #expect(ProgressBar.text("start", 0.5, detail: "7/s").hasSuffix(" 50 %  7/s"))
  }
}
