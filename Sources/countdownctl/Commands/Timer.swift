import ArgumentParser
import CountdownClient

struct Timer: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "timer",
    abstract: "Sets plain timers: something is due later, once or again and again.",
    discussion: """
      Examples:
        countdownctl timer set tea 4m --payload 'tea is ready'
        countdownctl timer set backup 1h --every 24h --clock wall
        countdownctl watch --timer
      """,
    subcommands: [
      Set.self, Get.self, Pause.self, Resume.self, Retime.self, Delete.self, List.self,
    ])

  struct Set: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Arms a timer; one of that name is replaced.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The timer.") var key: String
    @Argument(
      help: "When it is due, from now: 30s, 2m.", transform: DurationArgument.init(parsing:))
    var delay: DurationArgument
    @Option(help: "Then again and again, in phase.", transform: DurationArgument.init(parsing:))
    var every: DurationArgument?
    @Option(help: "Comes back when it fires.") var payload: String?
    @Option(
      help: "fire, skip or coalesce: what becomes of missed periods.",
      completion: .list(["fire", "skip", "coalesce"]))
    var late: String?
    @Option(
      help: "boot, or wall: follows the wall clock.", completion: .list(["boot", "wall"]))
    var clock: String?
    @OptionGroup var owner: OwnerOption

    func run(_ session: Session) async throws {
      let view = try await session.send(
        ["TIMER", "SET", key, delay.text],
        [("EVERY", every?.text), ("PAYLOAD", payload), ("LATE", late), ("CLOCK", clock)]
          + owner.words)
      try session.timer(view)
    }
  }

  struct Get: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a timer.", discussion: "Exit status 1 when there is none.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The timer.") var key: String

    func run(_ session: Session) async throws {
      let view = try await session.send(["TIMER", "GET", key])
      try session.show(view, absent: "there is no timer '\(key)'") {
        ViewText.table($0, style: Output.style)
      }
    }
  }

  struct Pause: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Pauses a timer; the time left is kept.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The timer.") var key: String

    func run(_ session: Session) async throws {
      try session.timer(try await session.send(["TIMER", "PAUSE", key], generation.words))
    }
  }

  struct Resume: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Lets a paused timer go on.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The timer.") var key: String

    func run(_ session: Session) async throws {
      try session.timer(try await session.send(["TIMER", "RESUME", key], generation.words))
    }
  }

  struct Retime: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Makes a timer due a given time from now.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The timer.") var key: String
    @Argument(
      help: "When it is due, from now: 30s, 2m.", transform: DurationArgument.init(parsing:))
    var delay: DurationArgument

    func run(_ session: Session) async throws {
      try session.timer(
        try await session.send(["TIMER", "RETIME", key, delay.text], generation.words))
    }
  }

  struct Delete: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Disarms a timer.", discussion: "Exit status 1 when there was none.",
      aliases: ["del"])

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The timer.") var key: String

    func run(_ session: Session) async throws {
      let done = try await session.send(["TIMER", "DEL", key], generation.words)
      let name = key.printable
      try session.show(done: done, yes: "\(name)  deleted", no: "there is no timer '\(name)'")
    }
  }

  struct List: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the timers.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var options: ListOptions
    @OptionGroup var owner: OwnerFilter

    func run(_ session: Session) async throws {
      try await session.list("TIMER", options, of: owner, columns: Self.columns) { view in
        let view = try TimerView(view)
        return [
          view.key, view.state.rawValue, view.remainingTime.humanText,
          view.every?.humanText ?? "once", String(view.fired), String(view.missed),
          String(view.generation), view.owner ?? "", view.payload ?? "",
        ]
      }
    }

    private static let columns = Columns([
      .init(title: "KEY"), .init(title: "STATE"), .init(title: "DUE IN", alignRight: true),
      .init(title: "EVERY", alignRight: true), .init(title: "FIRED", alignRight: true),
      .init(title: "MISSED", alignRight: true), .init(title: "GENERATION", alignRight: true),
      .init(title: "OWNER"), .init(title: "PAYLOAD"),
    ])
  }
}

extension Session {
  fileprivate func timer(_ view: JSONValue) throws {
    Output.line(json ? view.text : ViewText.line(try TimerView(view), style: Output.style))
  }
}
