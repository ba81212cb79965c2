import ArgumentParser
import CountdownClient

struct Timer: AsyncParsableCommand, Entity {
  typealias View = TimerView

  static let configuration = CommandConfiguration(
    commandName: "timer",
    abstract: "Set timers that fire once or periodically.",
    discussion: """
      Examples:
        countdownctl timer set tea 4m --payload 'tea is ready'
        countdownctl timer set backup 1h --every 24h --clock wall
        countdownctl watch --timer
      """,
    subcommands: [
      Set.self, GetCommand<Timer>.self, VerbCommand<Pause>.self, VerbCommand<Resume>.self,
      Retime.self, VerbCommand<Delete>.self, ListCommand<Timer>.self,
    ])

  static let kind = CountdownEvent.Kind.timer
  static let noun = "timer"

  static var columns: [ListColumn<TimerView>] {
    [
      .init("DUE IN", alignRight: true) { $0.timeLeft.humanText },
      .init("EVERY", alignRight: true) { $0.every?.humanText ?? "once" },
      .init("FIRED", alignRight: true) { String($0.fired) },
      .init("MISSED", alignRight: true) { String($0.missed) },
      .owner, .init("PAYLOAD") { $0.payload?.textOrBase64 ?? "" },
    ]
  }

  static func line(_ view: TimerView, style: Style) -> String {
    let every = view.every.map { ", then every \($0.humanText)" } ?? ""
    return line(view, ["due in \(view.timeLeft.humanText)\(every)"], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String] {
    if event.name == .fired {
      let missed = event.fields["missed"]?.int ?? 0
      return [
        event.fields["fired"]?.int.map { "× \($0)" }, missed > 0 ? "\(missed) missed" : nil,
        event.fields["payload"]?.textOrBase64, event.lateness,
      ].compactMap(\.self)
    }
    guard let view = event.timer else { return [] }
    return [
      view.state.rawValue,
      view.state == .idle ? nil : "due in \(view.timeLeft.humanText)",
      view.every.map { "every \($0.humanText)" },
    ].compactMap(\.self)
  }

  // MARK: Subcommands

  struct Set: EntityCommand {
    static let abstract = "Set a timer. It replaces one of the same name."

    @OptionGroup var target: Target<Timer>
    @Argument(duration: "When it fires, from now, such as 30s or 1h30m.") var delay: Duration
    @Option(duration: "Fire again and again, this far apart.") var every: Duration?
    @Option(help: "A text for the event.") var payload: String?
    @Option(
      oneOf: ["fire", "skip", "coalesce"],
      help: "What to do with missed periods: fire, skip or coalesce.") var late: String?
    @Option(
      oneOf: ["boot", "wall"], help: "boot (default), or wall: follow changes of the wall clock.")
    var clock: String?
    @OptionGroup var owner: OwnerOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "TIMER", "SET", target.key, delay,
        options: [
          "EVERY": every, "PAYLOAD": payload, "LATE": late, "CLOCK": clock, "OWNER": owner.value,
        ])
    }
  }

  enum Pause: Verb {
    typealias Shown = Timer
    static let abstract = "Pause a timer; it keeps its time left."
  }

  enum Resume: Verb {
    typealias Shown = Timer
    static let abstract = "Continue a paused timer."
  }

  struct Retime: EntityCommand {
    static let abstract = "Set when a timer fires next."

    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Timer>
    @Argument(duration: "When it fires, from now, such as 30s or 1h30m.") var delay: Duration
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init("TIMER", "RETIME", target.key, delay, options: ["GENERATION": generation.value])
    }
  }

  enum Delete: Verb {
    typealias Shown = Timer
    static let word = "DEL"
    static let aliases = ["del"]
    static let abstract = "Delete a timer."
    static let discussion = "Exit status 1 if there is none."
    static let done: String? = "deleted"
  }
}
