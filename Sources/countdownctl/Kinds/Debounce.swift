import ArgumentParser
import CountdownClient

struct Debounce: AsyncParsableCommand, Entity {
  typealias View = DebounceView

  static let configuration = CommandConfiguration(
    commandName: "debounce",
    abstract: "Makes one event of many calls, once they have been quiet.",
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
      .init("IN", alignRight: true) { $0.remainingTime.humanText },
      .init("CALLS", alignRight: true) { String($0.calls) },
      .generation, .owner, .init("PAYLOAD") { $0.payload ?? "" },
    ]
  }

  static func absent(_ key: String) -> String { "'\(key)' is quiet" }

  static func line(_ view: DebounceView, style: Style) -> String {
    let calls =
      view.calls == 0 ? "nothing waits" : "\(view.calls) \(view.calls == 1 ? "call" : "calls")"
    let when = view.state == .waiting ? "fires in" : "quiet in"
    return line(view, ["\(calls), \(when) \(view.remainingTime.humanText)"], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String] {
    let calls = event.debounce.flatMap { $0.calls > 0 ? "× \($0.calls)" : nil }
    return [event.state, calls, event.debounce?.payload, event.lateness].compactMap(\.self)
  }

  // MARK: Subcommands

  struct Call: EntityCommand {
    static let abstract = "Reports one of many calls."

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Target<Debounce>
    @Argument(duration: "How long no call must follow.") var quiet: DurationArgument
    @Option(help: "Comes with the event fired; the one of the newest call.") var payload: String?
    @Flag(help: "The first call fires at once.") var leading = false
    @Option(duration: "The most from the first call to the event.") var maxWait: DurationArgument?

    var command: Command {
      .init(
        "DEBOUNCE", "CALL", target.key, quiet,
        options: ["LEADING": leading, "PAYLOAD": payload, "MAXWAIT": maxWait])
    }
  }

  enum Cancel: Verb {
    typealias Shown = Debounce
    static let abstract = "Drops the calls that wait."
    static let discussion = "Exit status 1 when there are none."
    static let done: String? = "cancelled"
  }

  enum Flush: Verb {
    typealias Shown = Debounce
    static let abstract = "Fires the calls that wait, at once."
    static let discussion = "Exit status 1 when there are none."
    static let done: String? = "fired"
    static func absent(_ key: String) -> String { "nothing of '\(key)' waits" }
  }
}
