import ArgumentParser
import CountdownClient

struct Gate: AsyncParsableCommand, Entity {
  typealias View = GateView

  static let configuration = CommandConfiguration(
    abstract: "Run an action now if a session is open, or once after the login.",
    discussion: """
      Examples:
        countdownctl gate check session-9 buy --payload 4711 || show-login
        countdownctl gate open session-9 --ttl 30m
        countdownctl gate take session-9
        countdownctl gate close session-9
        countdownctl watch --gate
      """,
    subcommands: commands + [Take.self])

  static let kind = CountdownEvent.Kind.gate
  static let noun = "session"
  static var argument: ArgumentHelp { .init("The session.", valueName: "session") }
  static let keyTitle = "SESSION"
  static let absence = "it is closed and no action waits"
  static let listed = "sessions that are open or have a waiting action"

  static var columns: [ListColumn<GateView>] {
    [
      .init("FOR", alignRight: true) { $0.timeLeft?.humanText ?? "for good" },
      .owner, .init("ACTION") { $0.action ?? "" },
      .init("PAYLOAD") { $0.payload?.textOrBase64 ?? "" },
    ]
  }

  static func absent(_ key: String) -> String {
    "session '\(key)' is closed and no action waits for it"
  }

  static func absent(_ key: String, after verb: String) -> String {
    switch verb {
    case "done": "session '\(key)' has no action to run, or another client runs it"
    case "cancel": "no action waits for session '\(key)'"
    case "close": "session '\(key)' is not open"
    default: absent(key)
    }
  }

  static func line(_ view: GateView, style: Style) -> String {
    let state = style.state(view.state.rawValue, view.state.rawValue)
    let action = view.action.map { "'\($0.printable)'" }
    if view.accepted == false, view.reason != .login || action == nil {
      return line(view, refusal: view.reason?.rawValue, [action], style: style)
    }
    if view.accepted == false {
      let (action, left) = (action ?? "", view.timeLeft?.humanText ?? "")
      return style.yellow("login") + "     \(view.key.printable): \(action) waits for \(left)"
        + style.generation(view.generation)
    }
    let left = view.timeLeft.map { "  for \($0.humanText)" } ?? ""
    let word = view.accepted == nil ? "" : style.green("run") + "       "
    let parts = [action, view.payload?.textOrBase64.printable].compactMap(\.self).map { "  \($0)" }
    return word + "\(view.key.printable)  \(state)\(left)\(parts.joined())"
  }

  static func details(_ event: CountdownEvent) -> [String?] {
    [event.state, event.gate?.action, event.gate?.payload?.textOrBase64, event.lateness]
  }

  // MARK: Subcommands

  struct Take: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Take the action of an open session, to run it once.",
      discussion: """
        Of several that ask, one receives the action; it is done then, as this program ends. Exit
        status 1 if there is none, or another client runs it.
        """)

    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Gate>
    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      let reply = try await session.send(
        .init("GATE", "TAKE", target.key, options: ["GENERATION": generation.value]))
      if reply["accepted"]?.bool == true {
        _ = try await session.send(
          .init("GATE", "DONE", target.key, options: ["GENERATION": reply["generation"]?.int]))
      }
      try session.show(reply, of: Gate.self, key: target.key, after: "take")
    }
  }
}
