import ArgumentParser
import CountdownClient

struct Throttle: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "throttle",
    abstract: "Asks exact rate limits: may it be done now?",
    discussion: """
      Examples:
        countdownctl throttle take login:10.0.0.7 --burst 5 --rate 5/10m && try-it
        countdownctl throttle take mail --burst 100 --rate 1000/1d --cost 20 --peek
        countdownctl throttle refund mail 20
        countdownctl watch --throttle
      """,
    subcommands: [Take.self, Refund.self, Get.self, List.self])

  struct Take: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Asks whether it may be done now, and if so counts it.",
      discussion: "Exit status 1 when it may not.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "What is limited, and for whom.") var key: String
    @Option(help: "So many at once.", transform: integer(1...1_000_000_000)) var burst: Int
    @Option(help: .init("So many in the long run: 5/10m.", valueName: "n/duration"))
    var rate: String
    @Option(help: "How much this uses, 1 unless given.", transform: integer(1...1_000_000_000))
    var cost: Int?
    @Flag(help: "Only ask; count nothing.") var peek = false

    func run(_ session: Session) async throws {
      let view = try await session.send(
        ["THROTTLE", "TAKE", key] + (peek ? ["PEEK"] : []),
        [("BURST", String(burst)), ("RATE", rate), ("COST", cost.map { String($0) })])
      try session.answer(view) { ViewText.line(try ThrottleView($0), style: Output.style) }
    }
  }

  struct Refund: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Gives back what was not needed.",
      discussion: "Exit status 1 when nothing of it is used.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "What is limited.") var key: String
    @Argument(help: "How much, 1 unless given.", transform: integer(1...1_000_000_000)) var count:
      Int = 1

    func run(_ session: Session) async throws {
      let view = try await session.send(
        ["THROTTLE", "REFUND", key, String(count)], generation.words)
      try session.show(view, absent: "nothing of '\(key)' is used") {
        ViewText.line(try ThrottleView($0), style: Output.style)
      }
    }
  }

  struct Get: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a rate limit.", discussion: "Exit status 1 when nothing of it is used.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "What is limited.") var key: String

    func run(_ session: Session) async throws {
      let view = try await session.send(["THROTTLE", "GET", key])
      try session.show(view, absent: "nothing of '\(key)' is used") {
        ViewText.table($0, style: Output.style)
      }
    }
  }

  struct List: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the rate limits in use.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var options: ListOptions

    func run(_ session: Session) async throws {
      try await session.list("THROTTLE", options, columns: Self.columns) { view in
        let view = try ThrottleView(view)
        return [
          view.key, view.state.rawValue, "\(view.remaining)/\(view.limit)",
          "\(view.rateCount)/\(view.ratePeriod.humanText)", view.resetAfter.humanText,
          String(view.generation),
        ]
      }
    }

    private static let columns = Columns([
      .init(title: "KEY"), .init(title: "STATE"), .init(title: "LEFT", alignRight: true),
      .init(title: "RATE", alignRight: true), .init(title: "ALL IN", alignRight: true),
      .init(title: "GENERATION", alignRight: true),
    ])
  }
}

extension Session {
  /// Prints an answer; a refusal ends with status 1.
  func answer(_ view: JSONValue, _ text: (JSONValue) throws -> String) throws {
    Output.line(json ? view.text : try text(view))
    if view["accepted"]?.bool == false { throw ExitCode.refused }
  }
}
