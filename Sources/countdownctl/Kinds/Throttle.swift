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
    subcommands: commands)

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
}
