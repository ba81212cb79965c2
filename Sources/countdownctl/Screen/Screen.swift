import Glibc

/// What a screen shows: a state that keys and time change, and its picture.
protocol ScreenContent: Sendable {
  /// - Returns: whether the screen stays; false ends it.
  mutating func press(_ key: Key) -> Bool

  /// Brings the state up to the time and the size of the next picture.
  mutating func prepare(at now: Duration, size: Terminal.Size)

  /// The picture: as many lines as there are rows at most, none wider than the columns.
  func lines(at now: Duration, size: Terminal.Size, style: Style) -> [String]

  /// How long the picture stays the same unless something happens.
  func pause(at now: Duration) -> Duration
}

/// Shows a content on the terminal until a key or a signal ends it, and restores the terminal.
///
/// Times are durations since the screen was made.
actor Screen<Content: ScreenContent> {
  /// However much happens, there are no more pictures a second than ten.
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

  /// Changes the content, which is drawn with the next picture.
  func update(_ change: (inout Content, _ now: Duration) -> Void) {
    change(&content, clock.now - start)
    wake.yield()
  }

  /// Shows the screen until `work` is done.
  ///
  /// - Returns: what `work` returned; nil if a key or a signal ended the screen before.
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

  /// Returns when a signal asks to end.
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
        // A task that was cancelled wakes nobody.
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
  /// The text in as many columns, for terminals without Unicode.
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
