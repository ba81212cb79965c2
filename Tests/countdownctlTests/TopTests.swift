import CountdownClient
import Testing

@testable import countdownctl

@Suite struct TopTests {
  /// `INFO` after so many commands.
  static func sample(
    commands: Int, at seconds: Int, slow: RESPValue = .array([])
  ) -> TopSample {
    let text = """
      # Server\r\ncountdownd_version:1.2.3\r\nuptime_in_seconds:\(60 + seconds)\r
      # Clients\r\nconnected_clients:3\r
      # Memory\r\nused_memory_rss:10485760\r
      # Cpu\r\nused_cpu_sys:1.0\r\nused_cpu_user:\(1 + Double(seconds) / 2)\r
      # Stats\r\ntotal_commands_processed:\(commands)\r\ntotal_error_replies:0\r\nevents_sent:7\r
      # Timers\r\nentities:1234\r\narmed:17\r
      # Lateness\r\nexpired:9\r\nlate_us_p50:80\r\nlate_us_p99:410\r\nlate_us_p999:1200\r
      late_us_max:2000000\r
      # Commandstats\r
      cmdstat_ping:calls=\(commands),usec=\(commands),usec_per_call=1.00,failed_calls=0\r
      cmdstat_countdown|start:calls=\(2 * commands),usec=\(50 * commands),usec_per_call=25.00,\
      failed_calls=4\r
      # Users\r
      user_0:connections=2,entities=1000,commands=\(commands),usec=\(100 * commands),unread=0\r
      user_4294967290:connections=1,entities=234,commands=5,usec=90,unread=77\r
      """
    return TopSample(
      info: .bulkString(Array(text.utf8)), slow: slow,
      at: .seconds(seconds))
  }

  static let slow = RESPValue.array([
    .array([
      .integer(1), .integer(1_790_000_000), .integer(12_345),
      .array([.bulkString(Array("SCOPE".utf8)), .bulkString(Array("CLOSE".utf8))]),
      .bulkString(Array("unix:77".utf8)), .bulkString([]),
    ]),
    .array([
      .integer(0), .integer(1_790_000_000), .integer(20_000),
      .array([.bulkString(Array("INFO".utf8))]), .bulkString(Array("unix:78".utf8)),
      .bulkString([]),
    ]),
  ])

  private func value(_ name: String, of figures: TopFigures) -> RESPValue? {
    figures.facts.first { $0.name == name }?.value?.asReply
  }

  @Test func ratesAreOfTheTimeBetweenTwoSamples() {
    let figures = TopFigures(
      Self.sample(commands: 3000, at: 2), since: Self.sample(commands: 1000, at: 0))
    #expect(value("commands_per_second", of: figures) == .double(1000))
    #expect(value("events_per_second", of: figures) == .double(0))
    #expect(value("cpu", of: figures) == .double(0.5))
    #expect(figures.users.map(\.commandsPerSecond) == [1000, 0])
    #expect(figures.users.map(\.busy) == [0.1, 0])
    #expect(figures.commands.map(\.name) == ["countdown start", "ping"])
    #expect(figures.commands[0].callsPerSecond == 2000)
    #expect(figures.commands[0].microsecondsPerCall == 25)
  }

  @Test func oneSampleHasNoRates() {
    let figures = TopFigures(Self.sample(commands: 10, at: 0), since: nil)
    #expect(!figures.hasRates)
    #expect(value("commands_per_second", of: figures) == nil)
    #expect(value("cpu", of: figures) == nil)
    #expect(value("entities", of: figures) == .integer(1234))
    let late = ["p50", "p99", "p999", "max"].map { value("late_us_\($0)", of: figures) }
    #expect(late == [.integer(80), .integer(410), .integer(1200), .integer(2_000_000)])
    #expect(figures.commands[0].microsecondsPerCall == 25)
  }

  @Test func ratesCountFromZeroAfterARestart() {
    let figures = TopFigures(
      Self.sample(commands: 50, at: 1), since: Self.sample(commands: 9000, at: 0))
    #expect(value("commands_per_second", of: figures) == .double(50))
  }

  @Test func theSlowestCommandComesFirst() {
    let figures = TopFigures(Self.sample(commands: 1, at: 0, slow: Self.slow), since: nil)
    #expect(figures.slow?.map(\.words) == [["INFO"], ["SCOPE", "CLOSE"]])
    let refused = TopFigures(
      Self.sample(commands: 1, at: 0, slow: .error("NOPERM SLOWLOG GET")), since: nil)
    #expect(refused.slow == nil)
    let text = refused.lines(columns: 80, rows: 24, style: Style(hasColour: false))
    #expect(text.contains("Only an admin may read the slow log."))
  }

  @Test func picturesFitIntoAnyTerminal() {
    let figures = TopFigures(
      Self.sample(commands: 3_000_000, at: 2, slow: Self.slow),
      since: Self.sample(commands: 1, at: 0))
    for columns in 1...210 {
      for line in figures.lines(columns: columns, rows: 30, style: Style(hasColour: false)) {
        #expect(DisplayWidth.of(line) <= columns, "\(columns): \(line)")
      }
    }
    let wide = figures.lines(columns: 80, rows: 24, style: Style(hasColour: false))
    #expect(wide.count <= 24)
    #expect(wide[1].contains("commands   1.5 M/s  errors"))
    #expect(wide.contains { $0.contains("late p99") && $0.contains("410 µs") })
    #expect(wide.contains { $0.hasPrefix("SCOPE CLOSE") && $0.contains("12.3 ms") })
    let narrow = figures.lines(columns: 40, rows: 50, style: Style(hasColour: false))
    #expect(narrow.contains { $0.hasPrefix("countdown start") && $0.contains("5.0 %") == false })
  }

  @Test func jsonHasEveryFigure() {
    let figures = TopFigures(
      Self.sample(commands: 3000, at: 2, slow: Self.slow),
      since: Self.sample(commands: 1000, at: 0))
    let json = figures.json.json
    #expect(json.contains(#""commands_per_second":1000.0"#))
    #expect(json.contains(#""late_us_p99":410"#))
    #expect(json.contains(#""command":["SCOPE","CLOSE"]"#))
  }
}
