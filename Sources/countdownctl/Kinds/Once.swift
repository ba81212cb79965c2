import ArgumentParser
import CountdownClient

struct Once: AsyncParsableCommand, Entity {
  typealias View = OnceView

  static let configuration = CommandConfiguration(
    commandName: "once",
    abstract: "Runs something at most once per key (idempotency key).",
    discussion: """
      Examples:
        countdownctl once begin order-7 --ttl 24h && pay && countdownctl once done order-7 paid
        countdownctl once get order-7
        countdownctl once cancel order-7
      """,
    subcommands: [
      Begin.self, Done.self, VerbCommand<Cancel>.self, GetCommand<Once>.self,
      ListCommand<Once>.self,
    ])

  static let kind = CountdownEvent.Kind.once
  static let noun = "request"
  static let absence = "the daemon does not know it"
  static let listed = "requests that the daemon remembers"

  static var columns: [ListColumn<OnceView>] {
    [
      .init("KNOWN FOR", alignRight: true) { $0.remainingTime.humanText },
      .generation, .owner, .init("RESULT") { $0.result ?? "" },
    ]
  }

  static func absent(_ key: String) -> String { "nothing is known of '\(key)'" }

  static func line(_ view: OnceView, style: Style) -> String {
    let state = style.state(view.state.rawValue, view.state.rawValue)
    let result = view.result.map { ": \($0.printable)" } ?? ""
    if view.accepted == false {
      return style.yellow("refused") + "   \(view.key.printable) was asked for before; "
        + "\(state)\(result)"
    }
    return style.accepted(view.accepted) + "\(view.key.printable)  \(state)\(result)  known for "
      + "\(view.remainingTime.humanText)  (generation \(view.generation))"
  }

  static func details(_ event: CountdownEvent) -> [String] {
    [event.state, event.once?.result, event.lateness].compactMap(\.self)
  }

  // MARK: Subcommands

  struct Begin: EntityCommand {
    static let abstract = "Asks whether this is the first request."
    static let discussion =
      "Exit status 1 when it is not; then it shows the result of the first one."

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Target<Once>
    @Option(duration: "How long the daemon remembers the request.") var ttl: DurationArgument

    var command: Command { .init("ONCE", "BEGIN", target.key, options: ["TTL": ttl]) }
  }

  struct Done: EntityCommand {
    static let abstract = "Stores the result of a request."
    static let discussion = "Exit status 1 when there was a result."

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Once>
    @Argument(help: "The answer to repetitions.") var result: String

    var command: Command {
      .init("ONCE", "DONE", target.key, result, options: ["GENERATION": generation.value])
    }
  }

  enum Cancel: Verb {
    typealias Shown = Once
    static let abstract = "Releases a request that failed, for another try."
    static let discussion = "Exit status 1 when there was none."
    static let done: String? = "cancelled"
  }
}
