import ArgumentParser
import CountdownClient

struct Watch: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Watch countdowns, HUDs, timers and all other kinds live.",
    discussion: """
      On a terminal it shows one line for each entity, soonest first; elsewhere, and with \
      TERM=dumb, one line for each event. When the connection is lost, it reconnects by itself, \
      and shows the events disconnected and resubscribed; then the events that were missed, after \
      a gap if the event log does not have all of them. Ctrl-C ends it with status 0.

      Keys: q quits. / filters by kind, key, state or title; Enter ends the input, Esc shows all. \
      The arrows, PgUp, PgDn, Home and End scroll.

      Examples:
        countdownctl watch
        countdownctl watch '+45*' hud:main
        countdownctl watch --hud --timer
        countdownctl watch --json | jq -c 'select(.event=="ready")'
        countdownctl watch +4512345678 --exit-when-ready && echo 'send again'
      """)

  @Argument(
    help: .init(
      "Keys of countdowns, patterns (*, ?, [a-z]) or channels (countdown:KEY, hud:SCREEN, "
        + "timer:KEY, throttle:KEY, once:KEY, gate:SESSION, debounce:KEY, scope:ID, nav:STACK, "
        + "page:PAGE) (default: everything).", valueName: "name"))
  var names: [String] = []

  @Flag var kinds: [CountdownEvent.Kind] = []

  @Flag(
    help: """
      Exit with status 0 once all the countdowns named are ready, with 1 as soon as one of them \
      does not exist or is cancelled.
      """)
  var exitWhenReady = false
  @OptionGroup var global: GlobalOptions

  var target: WatchTarget { WatchTarget(names: names, kinds: kinds.map(\.rawValue)) }

  func validate() throws {
    guard exitWhenReady else { return }
    let target = target
    guard target.channels.allSatisfy({ !$0.isPattern && $0.name.hasPrefix("countdown:") })
    else { throw ValidationError("--exit-when-ready needs the keys of countdowns") }
  }

  func run(_ session: Session) async throws {
    let status =
      if Terminal.canShowScreens, !session.json {
        try await showScreen(session)
      } else {
        try await printEvents(session)
      }
    if status != .success { throw status }
  }

  private func showScreen(_ session: Session) async throws -> ExitCode {
    let content = WatchContent()
    let screen = Screen(content, style: session.style)
    let target = target
    let events = session.client.events(
      target.channels, waits: false, ticks: content.shown.contains)
    let waiting = waiting
    let status = try await screen.show {
      try await Self.follow(events, waiting: waiting) { event in
        await screen.update { $0.board.apply(event, at: $1) }
      }
    }
    return status ?? .success
  }

  /// Prints one line per event.
  private func printEvents(_ session: Session) async throws -> ExitCode {
    let target = target
    let events = session.client.events(target.channels, waits: false, ticks: nil)
    let isASCII = Output.isTerminal && !Terminal.showsUnicode()
    let (json, style, waiting) = (session.json, session.style, waiting)
    let status = try await Signals.end {
      try await Self.follow(events, waiting: waiting) { event in
        let line = json ? EventLine.json(event) : EventLine.text(event, style: style)
        Output.line(isASCII ? line.inASCII : line)
      }
    }
    return status ?? .success
  }

  /// The channels to wait for; nil without `--exit-when-ready`.
  private var waiting: Set<String>? { exitWhenReady ? Set(target.channels.map(\.name)) : nil }

  /// Shows the events; returns the exit status when there is nothing left to wait for.
  private static func follow(
    _ events: CountdownEvents, waiting: Set<String>?,
    _ show: @Sendable (CountdownEvent) async -> Void
  ) async throws -> ExitCode {
    var waiting = waiting
    for try await event in events {
      await show(event)
      guard waiting?.contains(event.channel) == true else { continue }
      switch event.countdown?.state {
      case _ where event.name == .cancelled: return .refused
      case .ready: waiting?.remove(event.channel)
      case .idle: return .refused
      default: break
      }
      if waiting?.isEmpty == true { return .success }
    }
    return .success
  }
}
