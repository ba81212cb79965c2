import ArgumentParser
import CountdownClient

struct Once: AsyncParsableCommand, Entity {
  typealias View = OnceView

  static let configuration = CommandConfiguration(
    commandName: "once",
    abstract: "Run something at most once per idempotency key.",
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
  static let noun = "idempotency key"
  static let absence = "the daemon does not know it"
  static let listed = "idempotency keys that the daemon remembers"

  static var columns: [ListColumn<OnceView>] {
    [
      .init("KNOWN FOR", alignRight: true) { $0.timeLeft.humanText },
      .owner, .init("RESULT") { $0.result?.textOrBase64 ?? "" },
    ]
  }

  static func absent(_ key: String) -> String { "there is no idempotency key '\(key)'" }

  static func line(_ view: OnceView, style: Style) -> String {
    let state = style.state(view.state.rawValue, view.state.rawValue)
    let result = view.result.map { ": \($0.textOrBase64.printable)" } ?? ""
    if view.accepted == false {
      return style.yellow("refused") + "   \(view.key.printable) was used before: "
        + "\(state)\(result)"
    }
    return style.accepted(view.accepted) + "\(view.key.printable)  \(state)\(result)  known for "
      + view.timeLeft.humanText + style.generation(view.generation)
  }

  static func details(_ event: CountdownEvent) -> [String] {
    [event.state, event.once?.result?.textOrBase64, event.lateness].compactMap(\.self)
  }

  // MARK: Subcommands

  struct Begin: TokenCommand {
    static let abstract = "Begin the work of a key, unless it was begun before."
    static let discussion =
      "Exit status 1 if it was; then the answer shows the first one's result."

    @OptionGroup var target: Target<Once>
    @Option(duration: "How long the daemon remembers the key.") var ttl: Duration
    @OptionGroup var token: TokenOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init("ONCE", "BEGIN", target.key, options: ["TTL": ttl, "TOKEN": token.value])
    }
  }

  struct Done: EntityCommand {
    static let abstract = "Store the result of the work."
    static let discussion = "Exit status 1 if there is a result already."

    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Once>
    @Argument(help: "The result; repetitions get it.") var result: String
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init("ONCE", "DONE", target.key, result, options: ["GENERATION": generation.value])
    }
  }

  enum Cancel: Verb {
    typealias Shown = Once
    static let abstract = "Forget a key whose work failed, so that it can be tried again."
    static let discussion = "Exit status 1 if there is none."
    static let done: String? = "cancelled"
  }
}
