import ArgumentParser
import CountdownClient

struct Debounce: AsyncParsableCommand, Entity {
  typealias View = DebounceView

  static let configuration = CommandConfiguration(
    abstract: "Turn many calls into one event, once no call has followed for a while.",
    discussion: """
      Examples:
        countdownctl debounce call draft-3 2s --payload 'the text' --max-wait 30s
        countdownctl debounce flush draft-3
        countdownctl watch --debounce
      """,
    subcommands: commands)

  static let kind = CountdownEvent.Kind.debounce
  static let noun = "debouncer"
  static let absence = "it is idle"
  static let listed = "debouncers that are not idle"

  static var columns: [ListColumn<DebounceView>] {
    [
      .init("IN", alignRight: true) { $0.timeLeft.humanText },
      .init("CALLS", alignRight: true) { String($0.calls) },
      .owner, .init("PAYLOAD") { $0.payload?.textOrBase64 ?? "" },
    ]
  }

  static func absent(_ key: String) -> String { "debouncer '\(key)' is idle" }

  static func absent(_ key: String, after verb: String) -> String {
    verb == "flush" ? "no call of debouncer '\(key)' waits" : absent(key)
  }

  static func line(_ view: DebounceView, style: Style) -> String {
    let calls =
      view.calls == 0 ? "nothing waits" : "\(view.calls) \(view.calls == 1 ? "call" : "calls")"
    let when = view.state == .waiting ? "fires in" : "quiet in"
    return line(view, ["\(calls), \(when) \(view.timeLeft.humanText)"], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String?] {
    let calls = event.debounce.flatMap { $0.calls > 0 ? "× \($0.calls)" : nil }
    return [event.state, calls, event.debounce?.payload?.textOrBase64, event.lateness]
  }
}
