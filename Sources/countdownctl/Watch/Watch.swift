import ArgumentParser
import CountdownClient
import Glibc

struct Watch: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Watch countdowns, HUDs, timers and all other kinds live.",
    discussion: """
      On a terminal each has a line with a bar and the time left; elsewhere every event is a \
      line. Ctrl-C ends it with status 0. When the connection is lost, it reconnects by itself, \
      and shows the events disconnected and resubscribed; then the events that were missed, after \
      a gap if the event log does not have all of them.

      Examples:
        countdownctl watch
        countdownctl watch '+45*' hud:main
        countdownctl watch --hud --timer
        countdownctl watch --json | jq -c 'select(.event=="ready")'
        countdownctl watch +4512345678 --exit-when-ready && echo 'send again'
      """)

  @OptionGroup var global: GlobalOptions

  @Argument(
    help: .init(
      "Keys, patterns (*, ?, [a-z]) or channels (countdown:KEY, hud:SCREEN, timer:KEY, "
        + "throttle:KEY, once:KEY, gate:SESSION, debounce:KEY, scope:ID, nav:STACK, page:PAGE) "
        + "(default: all countdowns).", valueName: "name"))
  var names: [String] = []

  @Flag var kinds: [WatchKind] = []

  @Flag(
    help: """
      Exit with status 0 once all the countdowns named are ready, with 1 as soon as one of them \
      does not exist or is cancelled.
      """)
  var exitWhenReady = false

  var target: WatchTarget {
    WatchTarget(
      names: names, kinds: kinds.isEmpty ? ["countdown"] : kinds.map(\.rawValue))
  }

  func validate() throws {
    guard exitWhenReady else { return }
    let target = target
    guard target.patterns.isEmpty, target.channels.allSatisfy({ $0.hasPrefix("countdown:") })
    else { throw ValidationError("--exit-when-ready needs the keys of countdowns") }
  }

  func run(_ session: Session) async throws {
    let target = target
    let events = session.client.events(channels: target.channels, patterns: target.patterns)
    let signals = Signals([SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT])
    let printer: any WatchPrinter =
      Output.isTerminal && !session.json
      ? WatchScreen(style: Output.style) : WatchLog(json: session.json)
    let waiting = exitWhenReady ? Set(target.channels) : nil
    await printer.begin()
    let status: ExitCode
    do {
      status = try await withThrowingTaskGroup(of: ExitCode?.self) { group in
        group.addTask { try await Self.follow(events, printer, waiting: waiting) }
        group.addTask { await Self.obey(signals, printer) }
        group.addTask { await printer.draw() }
        defer { group.cancelAll() }
        while let status = try await group.next() {
          if let status { return status }
        }
        return .success
      }
    } catch {
      await printer.end()
      throw error
    }
    await printer.end()
    if status != .success { throw status }
  }

  /// Shows the events; returns when there is nothing left to wait for.
  private static func follow(
    _ events: CountdownEvents, _ printer: any WatchPrinter, waiting: Set<String>?
  ) async throws -> ExitCode? {
    var waiting = waiting
    for try await event in events {
      await printer.show(event)
      guard waiting?.contains(event.channel) == true else { continue }
      switch event.countdown?.state {
      case _ where event.name == .cancelled: return .refused
      case .ready: waiting?.remove(event.channel)
      case .idle: return .refused
      case .counting, .paused, nil: break
      }
      if waiting?.isEmpty == true { return .success }
    }
    return .success
  }

  /// Returns when a signal asks to end.
  private static func obey(_ signals: Signals, _ printer: any WatchPrinter) async -> ExitCode? {
    for await signal in signals.received {
      switch signal {
      case SIGWINCH: await printer.resize()
      case SIGTSTP:
        await printer.end()
        kill(getpid(), SIGSTOP)
      case SIGCONT: await printer.begin()
      default: return .success
      }
    }
    return nil
  }
}

/// Shows the events of `watch`.
protocol WatchPrinter: Actor {
  func begin()
  func show(_ event: CountdownEvent)
  func resize()
  /// Draws what moves, again and again; returns at once if nothing ever does.
  func draw() async -> ExitCode?
  func end()
}

/// One line per event.
actor WatchLog: WatchPrinter {
  private let json: Bool

  init(json: Bool) { self.json = json }

  func begin() {}
  func resize() {}
  func draw() async -> ExitCode? { nil }
  func end() {}

  func show(_ event: CountdownEvent) {
    Output.line(json ? EventLine.json(event) : EventLine.text(event))
  }
}

/// The live board, drawn in place while something moves.
actor WatchScreen: WatchPrinter {
  private let style: Style
  private let clock = ContinuousClock()
  private let start: ContinuousClock.Instant
  private var board = LiveBoard()
  private var terminal = Terminal()
  private let wakeups: AsyncStream<Void>
  private let wake: AsyncStream<Void>.Continuation

  init(style: Style) {
    self.style = style
    start = clock.now
    (wakeups, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  private var now: Duration { clock.now - start }

  func begin() {
    terminal.begin()
    // The first snapshots are on their way: "nothing counts" would only flash.
    Task { [wake] in
      try? await Task.sleep(for: .milliseconds(300))
      wake.yield()
    }
  }

  func show(_ event: CountdownEvent) {
    board.apply(event, at: now)
    wake.yield()
  }

  func resize() { wake.yield() }

  func end() {
    // What made it end may not have been drawn yet.
    if !board.order.isEmpty { drawOnce() }
    terminal.end()
  }

  func draw() async -> ExitCode? {
    var alarm: Task<Void, Never>?
    for await _ in wakeups {
      alarm?.cancel()
      drawOnce()
      if let delay = board.nextFrame(at: now) {
        alarm = Task { [wake] in
          // A task that was cancelled wakes nobody.
          if (try? await Task.sleep(for: delay)) != nil { wake.yield() }
        }
      }
      // However many events come, no more than ten frames a second.
      guard (try? await Task.sleep(for: LiveBoard.frame)) != nil else { break }
    }
    alarm?.cancel()
    return nil
  }

  private func drawOnce() {
    let (columns, rows) = Terminal.size
    board.expire(at: now)
    let plain = Style(hasColour: false)
    // One column and row are left free: a full last line would make some terminals scroll.
    let lines = board.draw(at: now, columns: columns - 1, rows: rows - 1, style: style)
    let widths = board.draw(at: now, columns: columns - 1, rows: rows - 1, style: plain)
      .map { DisplayWidth.of($0) }
    terminal.draw(lines, widths: widths, columns: columns)
  }
}
