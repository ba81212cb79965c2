import ArgumentParser
import CountdownClient

struct Top: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Show what the daemon does now: load, lateness, users, slow commands.",
    discussion: """
      On a terminal it is a screen that is refreshed each second; q quits. Elsewhere it prints the \
      same as text, or with --json as a line of JSON, each second until Ctrl-C.

      Figures are of the last second, its own two commands included; lateness and slow commands \
      are since the daemon's start or CONFIG RESETSTAT. BUSY is the share of one core that \
      commands took. Slow commands need the right to manage the daemon.

      Examples:
        countdownctl top
        countdownctl top --once
        countdownctl top --once --json | jq .commands_per_second
      """)

  @Flag(help: "Measure for one second, print the figures and end.") var once = false
  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    if Terminal.canShowScreens, !session.json, !once {
      let screen = Screen(TopContent(), style: Output.style)
      _ = try await screen.show {
        try await Self.eachSecond(session) { figures in
          await screen.update { content, _ in content.take(figures) }
          return true
        }
      }
      return
    }
    let once = once
    _ = try await Signals.end {
      try await Self.eachSecond(session) { figures in
        // Rates need a second sample.
        guard let figures, figures.hasRates else { return true }
        if session.json {
          Output.line(figures.json.json)
        } else {
          let columns = Output.isTerminal ? Terminal.size.columns : 100
          let lines = figures.lines(columns: columns, rows: 60, style: Output.style)
          let isASCII = Output.isTerminal && !Terminal.showsUnicode()
          Output.lines((isASCII ? lines.map { $0.inASCII } : lines) + (once ? [] : [""]))
        }
        return !once
      }
    }
  }

  /// Passes new figures to `body` each second until it returns false; nil while the daemon cannot
  /// be reached. Throws if the first request fails.
  private static func eachSecond(
    _ session: Session, _ body: @Sendable (TopFigures?) async -> Bool
  ) async throws {
    let clock = ContinuousClock()
    let start = clock.now
    var last: TopSample?
    while true {
      let next = clock.now + .seconds(1)
      do {
        let replies = try await session.client.pipeline([["INFO"], ["SLOWLOG", "GET", "128"]])
        let sample = TopSample(info: replies[0], slow: replies[1], at: clock.now - start)
        guard await body(TopFigures(sample, since: last)) else { return }
        last = sample
      } catch {
        guard last != nil else { throw error }
        guard await body(nil) else { return }
      }
      try await clock.sleep(until: next)
    }
  }
}

/// The screen of `top`.
struct TopContent: ScreenContent {
  private var figures: TopFigures?
  private var isConnected = true

  /// - Parameter figures: nil while the daemon cannot be reached.
  mutating func take(_ figures: TopFigures?) {
    isConnected = figures != nil
    self.figures = figures ?? self.figures
  }

  func press(_ key: Key) -> Bool { key != .character("q") && key != .character("Q") }

  func prepare(at now: Duration, size: Terminal.Size) {}

  /// New figures draw a frame by themselves.
  func pause(at now: Duration) -> Duration { .seconds(5) }

  func lines(at now: Duration, size: Terminal.Size, style: Style) -> [String] {
    let maximum = max(0, size.rows - 1)
    var lines =
      figures?.lines(columns: size.columns, rows: maximum, style: style).prefix(maximum).map(\.self)
      ?? []
    lines += Array(repeating: "", count: maximum - lines.count)
    let footer = isConnected ? "q quit" : "Connection lost, trying again …"
    let cut = DisplayWidth.truncate(footer, size.columns)
    return lines + [isConnected ? style.dim(cut) : style.red(cut)]
  }
}
