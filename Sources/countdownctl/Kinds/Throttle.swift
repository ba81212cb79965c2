import ArgumentParser
import CountdownClient
import Wire

struct Throttle: AsyncParsableCommand, Entity {
  typealias View = ThrottleView
  typealias Filter = NoFilter

  static let configuration = CommandConfiguration(
    abstract: "Ask rate limits: may this happen now?",
    discussion: """
      Examples:
        countdownctl throttle take login:10.0.0.7 --burst 5 --rate 5/10m && try-it
        countdownctl throttle take mail --burst 100 --rate 1000/1d --cost 20 --peek
        countdownctl throttle take ip:10.0.0.7 user:42
        countdownctl throttle refund mail 20
        countdownctl throttle unblock prefix:+4512345
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

  static func details(_ event: CountdownEvent) -> [String?] {
    let again = event.throttle.map { "try again in \($0.retryAfter.humanText)" }
    return [
      event.state, event.throttle.map(left), event.name == .refused ? again : nil, event.lateness,
    ]
  }

  /// Returns the text of an answer of named limits; nil if the reply is another.
  static func several(_ reply: RESPValue, style: Style) throws -> String? {
    guard let views = try reply["views"]?.elements?.map({ try ThrottleView($0) }) else {
      return nil
    }
    let left = views.map { "\($0.key.printable) \(Throttle.left($0))" }.joined(separator: ", ")
    guard reply["accepted"]?.bool == false else { return style.accepted(true) + left }
    let wait = Duration.milliseconds(reply["retry_after_ms"]?.int ?? 0).humanText
    let limit = reply["refused_by"]?.string?.printable ?? "a limit"
    let why = reply["reason"]?.string == "blocked" ? "is blocked" : "has no room"
    return style.yellow("refused") + "   \(limit) \(why): try again in \(wait)"
  }

  static func left(_ view: ThrottleView) -> String { "\(view.remaining) of \(view.limit) left" }
}
