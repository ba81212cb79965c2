import Glibc

/// The content of a screen: a state that keys and time change, drawn as lines.
protocol ScreenContent: Sendable {
  /// - Returns: false to end the screen.
  mutating func press(_ key: Key) -> Bool

  /// Updates the state to the time and the size of the next frame.
  mutating func prepare(at now: Duration, size: Terminal.Size)

  /// Returns the frame: at most `size.rows` lines, none wider than `size.columns`.
  func lines(at now: Duration, size: Terminal.Size, style: Style) -> [String]

  /// Returns how long the frame stays the same unless something happens.
  func pause(at now: Duration) -> Duration
}

/// Shows content on the terminal until a key or a signal ends it, and restores the terminal.
///
/// Times are durations since the screen was created.
actor Screen<Content: ScreenContent> {
  /// The minimum time between frames, except those that keys cause.
  private static var frame: Duration { .milliseconds(100) }

  private(set) var content: Content
  private let style: Style
  private let hasUnicode: Bool
  private let clock = ContinuousClock()
  private let start: ContinuousClock.Instant
  private let wakeups: AsyncStream<Void>
  private let wake: AsyncStream<Void>.Continuation

  init(_ content: Content, style: Style, hasUnicode: Bool = Terminal.showsUnicode()) {
    self.content = content
    self.style = style
    self.hasUnicode = hasUnicode
    start = clock.now
    (wakeups, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  /// Changes the content; the next frame shows it.
  func update(_ change: (inout Content, _ now: Duration) -> Void) {
    change(&content, clock.now - start)
    wake.yield()
  }

  /// Shows the screen until `work` is done.
  ///
  /// - Returns: the result of `work`; nil if a key or a signal ended the screen first.
  func show<Value: Sendable>(
    while work: @escaping @Sendable () async throws -> Value
  ) async throws -> Value? {
    let signals = Signals([SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT])
    defer { Terminal.close(forGood: true) }
    return try await firstOutcome(
      of: work,
      orEndOf: [
        {
          await self.draw()
          return false
        },
        {
          for await key in Terminal.keys() where await !self.press(key) { return true }
          return false
        },
        {
          await self.obey(signals)
          return true
        },
      ])
  }

  /// Handles signals; returns when one asks the screen to end.
  private func obey(_ signals: Signals) async {
    for await signal in signals.received {
      switch signal {
      case SIGWINCH, SIGCONT: wake.yield()
      case SIGTSTP:
        Terminal.close()
        kill(getpid(), SIGSTOP)
      default: return
      }
    }
  }

  private func press(_ key: Key) -> Bool {
    guard content.press(key) else { return false }
    drawOnce()
    return true
  }

  private func draw() async {
    var alarm: Task<Void, Never>?
    drawOnce()
    wake.yield()
    for await _ in wakeups {
      alarm?.cancel()
      drawOnce()
      let pause = max(content.pause(at: clock.now - start), Self.frame)
      alarm = Task { [wake] in
        // A cancelled alarm draws nothing.
        if (try? await Task.sleep(for: pause)) != nil { wake.yield() }
      }
      guard (try? await Task.sleep(for: Self.frame)) != nil else { break }
    }
    alarm?.cancel()
  }

  private func drawOnce() {
    let (now, size) = (clock.now - start, Terminal.size)
    content.prepare(at: now, size: size)
    let lines = content.lines(at: now, size: size, style: style)
    Terminal.draw(hasUnicode ? lines : lines.map { $0.inASCII }, size: size)
  }
}

extension String {
  /// The text in ASCII with the same width, for terminals without Unicode.
  var inASCII: String {
    if utf8.allSatisfy({ $0 < 0x80 }) { return self }
    return reduce(into: "") { text, character in
      switch character {
      case _ where character.isASCII: text.append(character)
      case "━", "╾": text += "="
      case "…": text += "~"
      case "–", "—", "─": text += "-"
      case "‖": text += "|"
      case "█": text += "_"
      case "×": text += "x"
      case "µ": text += "u"
      case "↑": text += "^"
      case "↓": text += "v"
      default: text += String(repeating: "?", count: DisplayWidth.of(character))
      }
    }
  }
}
