import ArgumentParser
import CountdownClient

struct Once: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "once",
    abstract: "Sees to it that something is done once, however often it is asked for.",
    discussion: """
      Examples:
        countdownctl once begin order-4711 --ttl 24h && pay && countdownctl once done order-4711 paid
        countdownctl once get order-4711
        countdownctl once cancel order-4711
      """,
    subcommands: [Begin.self, Done.self, Cancel.self, Get.self, List.self])

  struct Begin: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Asks whether this is the first request.",
      discussion: "Exit status 1 when it is not; then it shows how the first one went.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The request.") var key: String
    @Option(
      help: "For how long a repetition is known as one.", transform: DurationArgument.init(parsing:)
    ) var ttl: DurationArgument

    func run(_ session: Session) async throws {
      let view = try await session.send(["ONCE", "BEGIN", key], [("TTL", ttl.text)])
      try session.answer(view) { ViewText.line(try OnceView($0), style: Output.style) }
    }
  }

  struct Done: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Says that it was done, and how it went.",
      discussion: "Exit status 1 when it had been done before.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The request.") var key: String
    @Argument(help: "What others are answered.") var result: String

    func run(_ session: Session) async throws {
      let view = try await session.send(["ONCE", "DONE", key, result], generation.words)
      try session.answer(view) { ViewText.line(try OnceView($0), style: Output.style) }
    }
  }

  struct Cancel: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Says that it did not come about: the next request is the first.",
      discussion: "Exit status 1 when there was none.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The request.") var key: String

    func run(_ session: Session) async throws {
      let done = try await session.send(["ONCE", "CANCEL", key], generation.words)
      let name = key.printable
      try session.show(done: done, yes: "\(name)  cancelled", no: "nothing is known of '\(name)'")
    }
  }

  struct Get: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows how far it is.", discussion: "Exit status 1 when nothing is known of it.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The request.") var key: String

    func run(_ session: Session) async throws {
      let view = try await session.send(["ONCE", "GET", key])
      try session.show(view, absent: "nothing is known of '\(key)'") {
        ViewText.table($0, style: Output.style)
      }
    }
  }

  struct List: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Lists what is done once.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var options: ListOptions
    @OptionGroup var owner: OwnerFilter

    func run(_ session: Session) async throws {
      try await session.list("ONCE", options, of: owner, columns: Self.columns) { view in
        let view = try OnceView(view)
        return [
          view.key, view.state.rawValue, view.remainingTime.humanText, String(view.generation),
          view.owner ?? "", view.result ?? "",
        ]
      }
    }

    private static let columns = Columns([
      .init(title: "KEY"), .init(title: "STATE"), .init(title: "KNOWN FOR", alignRight: true),
      .init(title: "GENERATION", alignRight: true), .init(title: "OWNER"),
      .init(title: "RESULT"),
    ])
  }
}
