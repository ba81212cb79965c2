import ArgumentParser
import CountdownClient

struct Debounce: AsyncParsableCommand, Entity {
  typealias View = DebounceView

  static let configuration = CommandConfiguration(
    commandName: "debounce",
    abstract: "Turn many calls into one event, once no call has followed for a while.",
    discussion: """
      Examples:
        countdownctl debounce call draft-3 2s --payload 'the text' --max-wait 30s
        countdownctl debounce flush draft-3
        countdownctl watch --debounce
      """,
    subcommands: [
      Call.self, VerbCommand<Cancel>.self, VerbCommand<Flush>.self, GetCommand<Debounce>.self,
      ListCommand<Debounce>.self,
    ])

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

  static func line(_ view: DebounceView, style: Style) -> String {
    let calls =
      view.calls == 0 ? "nothing waits" : "\(view.calls) \(view.calls == 1 ? "call" : "calls")"
    let when = view.state == .waiting ? "fires in" : "quiet in"
    return line(view, ["\(calls), \(when) \(view.timeLeft.humanText)"], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String] {
    let calls = event.debounce.flatMap { $0.calls > 0 ? "× \($0.calls)" : nil }
    return [event.state, calls, event.debounce?.payload?.textOrBase64, event.lateness].compactMap(
      \.self)
  }

  // MARK: Subcommands

  struct Call: TokenCommand {
    static let abstract = "Report a call."

    @OptionGroup var target: Target<Debounce>
    @Argument(duration: "Fire once no call has followed for this long.") var quiet: Duration
    @Option(help: "A text for the event; that of the newest call is used.") var payload: String?
    @Flag(help: "Fire at once for the first call.") var leading = false
    @Option(duration: "Fire at the latest this long after the first call.") var maxWait: Duration?
    @OptionGroup var token: TokenOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "DEBOUNCE", "CALL", target.key, quiet,
        options: ["LEADING": leading, "PAYLOAD": payload, "MAXWAIT": maxWait, "TOKEN": token.value])
    }
  }

  enum Cancel: Verb {
    typealias Shown = Debounce
    static let abstract = "Drop the calls that wait."
    static let discussion = "Exit status 1 if there are none."
    static let done: String? = "cancelled"
  }

  enum Flush: Verb {
    typealias Shown = Debounce
    static let abstract = "Fire at once for the calls that wait."
    static let discussion = "Exit status 1 if there are none."
    static let done: String? = "fired"
    static func absent(_ key: String) -> String { "no call of debouncer '\(key)' waits" }
  }
}
