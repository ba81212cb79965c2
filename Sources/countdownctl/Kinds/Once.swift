import ArgumentParser
import CountdownClient

struct Once: AsyncParsableCommand, Entity {
  typealias View = OnceView

  static let configuration = CommandConfiguration(
    abstract: "Run something at most once per idempotency key.",
    discussion: """
      Examples:
        countdownctl once begin order-7 --ttl 24h && pay && countdownctl once done order-7 paid
        countdownctl once get order-7
        countdownctl once cancel order-7
      """,
    subcommands: commands)

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

  static func line(_ view: OnceView, style: Style) -> String {
    let state = style.state(view.state.rawValue, view.state.rawValue)
    let result = view.result.map { ": \($0.textOrBase64.printable)" } ?? ""
    if view.accepted == false {
      let use = view.reason == .mismatch ? "is another request's" : "was used before"
      return style.yellow("refused") + "   \(view.key.printable) \(use): \(state)\(result)"
    }
    return style.accepted(view.accepted) + "\(view.key.printable)  \(state)\(result)  known for "
      + view.timeLeft.humanText + style.generation(view.generation)
  }

  static func details(_ event: CountdownEvent) -> [String?] {
    [event.state, event.once?.result?.textOrBase64, event.lateness]
  }
}
