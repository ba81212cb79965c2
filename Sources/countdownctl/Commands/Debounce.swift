import ArgumentParser
import CountdownClient

struct Debounce: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "debounce",
    abstract: "Makes one event of many calls, once they have been quiet.",
    discussion: """
      Examples:
        countdownctl debounce call draft-3 2s --payload 'the text' --max-wait 30s
        countdownctl debounce flush draft-3
        countdownctl watch --debounce
      """,
    subcommands: [Call.self, Cancel.self, Flush.self, Get.self, List.self])

  struct Call: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "One call of many.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "What is called.") var key: String
    @Argument(help: "How long it must be quiet.", transform: DurationArgument.init(parsing:))
    var quiet: DurationArgument
    @Option(help: "Comes back when it fires; that of the newest call.") var payload: String?
    @Flag(help: "The first call fires at once.") var leading = false
    @Option(
      help: "Fires no later than this after the first call that it stands for.",
      transform: DurationArgument.init(parsing:))
    var maxWait: DurationArgument?

    func run(_ session: Session) async throws {
      let view = try await session.send(
        ["DEBOUNCE", "CALL", key, quiet.text] + (leading ? ["LEADING"] : []),
        [("PAYLOAD", payload), ("MAXWAIT", maxWait?.text)])
      try session.answer(view) { ViewText.line(try DebounceView($0), style: Output.style) }
    }
  }

  struct Cancel: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Forgets what was called.", discussion: "Exit status 1 when nothing was.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "What is called.") var key: String

    func run(_ session: Session) async throws {
      let done = try await session.send(["DEBOUNCE", "CANCEL", key], generation.words)
      let name = key.printable
      try session.show(done: done, yes: "\(name)  cancelled", no: "'\(name)' is quiet")
    }
  }

  struct Flush: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Fires what waits, at once.", discussion: "Exit status 1 when nothing does.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "What is called.") var key: String

    func run(_ session: Session) async throws {
      let done = try await session.send(["DEBOUNCE", "FLUSH", key], generation.words)
      let name = key.printable
      try session.show(done: done, yes: "\(name)  fired", no: "nothing of '\(name)' waits")
    }
  }

  struct Get: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows what waits for quiet.", discussion: "Exit status 1 when it is quiet.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "What is called.") var key: String

    func run(_ session: Session) async throws {
      let view = try await session.send(["DEBOUNCE", "GET", key])
      try session.show(view, absent: "'\(key)' is quiet") {
        ViewText.table($0, style: Output.style)
      }
    }
  }

  struct List: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Lists what waits for quiet.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var options: ListOptions
    @OptionGroup var owner: OwnerFilter

    func run(_ session: Session) async throws {
      try await session.list("DEBOUNCE", options, of: owner, columns: Self.columns) { view in
        let view = try DebounceView(view)
        return [
          view.key, view.state.rawValue, view.remainingTime.humanText, String(view.calls),
          String(view.generation), view.owner ?? "", view.payload ?? "",
        ]
      }
    }

    private static let columns = Columns([
      .init(title: "KEY"), .init(title: "STATE"), .init(title: "IN", alignRight: true),
      .init(title: "CALLS", alignRight: true), .init(title: "GENERATION", alignRight: true),
      .init(title: "OWNER"), .init(title: "PAYLOAD"),
    ])
  }
}
