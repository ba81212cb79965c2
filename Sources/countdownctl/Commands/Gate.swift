import ArgumentParser
import CountdownClient

struct Gate: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "gate",
    abstract: "Runs an action now if the session is open, else once after the login.",
    discussion: """
      Examples:
        countdownctl gate check session-9 buy --payload 4711 || show-login
        countdownctl gate open session-9 --ttl 30m
        countdownctl gate close session-9
        countdownctl watch --gate
      """,
    subcommands: [Check.self, Open.self, Cancel.self, Close.self, Get.self, List.self])

  struct Check: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Asks whether an action may run now; if not, it waits for the session to open.",
      discussion: "Exit status 1 when it waits.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The session.") var session: String
    @Argument(help: "The action.") var action: String
    @Option(help: "Comes back when it is run.") var payload: String?
    @Option(help: "on, or off: it needs no open session.", completion: .list(["on", "off"]))
    var required: String?
    @Option(help: "How long it waits.", transform: DurationArgument.init(parsing:)) var ttl:
      DurationArgument?

    func run(_ daemon: Session) async throws {
      let view = try await daemon.send(
        ["GATE", "CHECK", session, action],
        [("PAYLOAD", payload), ("REQUIRED", required), ("TTL", ttl?.text)])
      try daemon.answer(view) { ViewText.line(try GateView($0), style: Output.style) }
    }
  }

  struct Open: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Opens a session and runs what waits for it.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The session.") var session: String
    @Option(
      help: "Closes by itself after this; for good unless given.",
      transform: DurationArgument.init(parsing:))
    var ttl: DurationArgument?

    func run(_ daemon: Session) async throws {
      let view = try await daemon.send(["GATE", "OPEN", session], [("TTL", ttl?.text)])
      try daemon.answer(view) { ViewText.line(try GateView($0), style: Output.style) }
    }
  }

  struct Cancel: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Drops the action that waits.", discussion: "Exit status 1 when none does.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The session.") var session: String

    func run(_ daemon: Session) async throws {
      let done = try await daemon.send(["GATE", "CANCEL", session], generation.words)
      let name = session.printable
      try daemon.show(done: done, yes: "\(name)  dismissed", no: "nothing waits for '\(name)'")
    }
  }

  struct Close: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Closes a session.", discussion: "Exit status 1 when it is not open.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The session.") var session: String

    func run(_ daemon: Session) async throws {
      let done = try await daemon.send(["GATE", "CLOSE", session], generation.words)
      let name = session.printable
      try daemon.show(done: done, yes: "\(name)  closed", no: "'\(name)' is not open")
    }
  }

  struct Get: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a session.",
      discussion: "Exit status 1 when it is closed and nothing waits.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The session.") var session: String

    func run(_ daemon: Session) async throws {
      let view = try await daemon.send(["GATE", "GET", session])
      try daemon.show(view, absent: "'\(session)' is closed, and nothing waits") {
        ViewText.table($0, style: Output.style)
      }
    }
  }

  struct List: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Lists the sessions that are open, or that something waits for.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var options: ListOptions
    @OptionGroup var owner: OwnerFilter

    func run(_ session: Session) async throws {
      try await session.list("GATE", options, of: owner, columns: Self.columns) { view in
        let view = try GateView(view)
        return [
          view.key, view.state.rawValue, view.remainingTime?.humanText ?? "for good",
          String(view.generation), view.owner ?? "", view.action ?? "", view.payload ?? "",
        ]
      }
    }

    private static let columns = Columns([
      .init(title: "SESSION"), .init(title: "STATE"), .init(title: "FOR", alignRight: true),
      .init(title: "GENERATION", alignRight: true), .init(title: "OWNER"),
      .init(title: "ACTION"), .init(title: "PAYLOAD"),
    ])
  }
}
