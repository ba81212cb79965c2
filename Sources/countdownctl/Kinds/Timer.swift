import ArgumentParser
import CountdownClient

struct Timer: AsyncParsableCommand, Entity {
  typealias View = TimerView

  static let configuration = CommandConfiguration(
    commandName: "timer",
    abstract: "Sets plain timers: something is due later, once or periodically.",
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
      .init("DUE IN", alignRight: true) { $0.remainingTime.humanText },
      .init("EVERY", alignRight: true) { $0.every?.humanText ?? "once" },
      .init("FIRED", alignRight: true) { String($0.fired) },
      .init("MISSED", alignRight: true) { String($0.missed) },
      .generation, .owner, .init("PAYLOAD") { $0.payload ?? "" },
    ]
  }

  static func line(_ view: TimerView, style: Style) -> String {
    let every = view.every.map { ", then every \($0.humanText)" } ?? ""
    return line(view, ["due in \(view.remainingTime.humanText)\(every)"], style: style)
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
      view.state == .idle ? nil : "due in \(view.remainingTime.humanText)",
      view.every.map { "every \($0.humanText)" },
    ].compactMap(\.self)
  }

  // MARK: Subcommands

  struct Set: EntityCommand {
    static let abstract = "Arms a timer, in place of one of that name."

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Target<Timer>
    @Argument(duration: "When it is due, from now: 30s, 2m.") var delay: DurationArgument
    @Option(duration: "The period, in phase with the first time.") var every: DurationArgument?
    @Option(help: "Comes with each event fired.") var payload: String?
    @Option(
      oneOf: ["fire", "skip", "coalesce"],
      help: "fire, skip or coalesce: what becomes of missed periods.") var late: String?
    @Option(oneOf: ["boot", "wall"], help: "boot, or wall: follows the wall clock.") var clock:
      String?
    @OptionGroup var owner: OwnerOption

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
    static let abstract = "Pauses a timer with its remaining time."
  }

  enum Resume: Verb {
    typealias Shown = Timer
    static let abstract = "Continues a paused timer."
  }

  struct Retime: EntityCommand {
    static let abstract = "Makes a timer due a given time from now."

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Timer>
    @Argument(duration: "When it is due, from now: 30s, 2m.") var delay: DurationArgument

    var command: Command {
      .init("TIMER", "RETIME", target.key, delay, options: ["GENERATION": generation.value])
    }
  }

  enum Delete: Verb {
    typealias Shown = Timer
    static let word = "DEL"
    static let aliases = ["del"]
    static let abstract = "Disarms a timer."
    static let discussion = "Exit status 1 when there was none."
    static let done: String? = "deleted"
  }
}
