import ArgumentParser
import CountdownClient

struct Throttle: AsyncParsableCommand, Entity {
  typealias View = ThrottleView
  typealias Filter = NoFilter

  static let configuration = CommandConfiguration(
    commandName: "throttle",
    abstract: "Ask rate limits: may this happen now?",
    discussion: """
      Examples:
        countdownctl throttle take login:10.0.0.7 --burst 5 --rate 5/10m && try-it
        countdownctl throttle take mail --burst 100 --rate 1000/1d --cost 20 --peek
        countdownctl throttle refund mail 20
        countdownctl watch --throttle
      """,
    subcommands: [Take.self, Refund.self, GetCommand<Throttle>.self, ListCommand<Throttle>.self])

  static let kind = CountdownEvent.Kind.throttle
  static let noun = "rate limit"
  static var argument: ArgumentHelp { "The name of the rate limit: what is limited, and for whom." }
  static let absence = "it is unused"
  static let listed = "rate limits in use"

  static var columns: [ListColumn<ThrottleView>] {
    [
      .init("LEFT", alignRight: true) { "\($0.remaining)/\($0.limit)" },
      .init("RATE", alignRight: true) { "\($0.rateCount)/\($0.ratePeriod.humanText)" },
      .init("ALL IN", alignRight: true) { $0.resetAfter.humanText },
    ]
  }

  static func absent(_ key: String) -> String { "rate limit '\(key)' is unused" }

  static func line(_ view: ThrottleView, style: Style) -> String {
    let left = left(view)
    if view.accepted == false {
      return style.yellow("refused") + "   \(view.key.printable): try again in "
        + "\(view.retryAfter.humanText), \(left)"
    }
    let all = view.resetAfter == .zero ? "" : ", all again in \(view.resetAfter.humanText)"
    return style.accepted(view.accepted) + "\(view.key.printable)  \(left)\(all)"
  }

  static func details(_ event: CountdownEvent) -> [String] {
    let again = event.throttle.map { "try again in \($0.retryAfter.humanText)" }
    return [
      event.state, event.throttle.map(left), event.name == .refused ? again : nil, event.lateness,
    ].compactMap(\.self)
  }

  static func left(_ view: ThrottleView) -> String { "\(view.remaining) of \(view.limit) left" }

  // MARK: Subcommands

  struct Take: TokenCommand {
    static let abstract = "Ask whether this may happen now, and count it if so."
    static let discussion = "Exit status 1 if it may not."

    @OptionGroup var target: Target<Throttle>
    @Option(help: "The most at once.", transform: integer(1...1_000_000_000)) var burst: Int
    @Option(
      help: .init("The most in the long run, such as 5/10m.", valueName: "n/duration"),
      transform: countdownctl.rate)
    var rate: String
    @Option(help: "How much this uses (default: 1).", transform: integer(1...1_000_000_000))
    var cost: Int?
    @Flag(help: "Only ask; count nothing.") var peek = false
    @OptionGroup var token: TokenOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "THROTTLE", "TAKE", target.key,
        options: ["PEEK": peek, "BURST": burst, "RATE": rate, "COST": cost, "TOKEN": token.value])
    }
  }

  struct Refund: TokenCommand {
    static let abstract = "Give back what was not used."
    static let discussion = "Exit status 1 if the rate limit is unused."

    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Throttle>
    @Argument(help: "How much.", transform: integer(1...1_000_000_000)) var count: Int = 1
    @OptionGroup var token: TokenOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "THROTTLE", "REFUND", target.key, count,
        options: ["GENERATION": generation.value, "TOKEN": token.value])
    }
  }
}
