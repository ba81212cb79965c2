import ArgumentParser
import CountdownClient

struct Timer: AsyncParsableCommand, Gettable, Listable {
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
  static var argument: ArgumentHelp { "The timer." }
  static let getAbstract = "Shows a timer."
  static let getDiscussion = "Exit status 1 when there is none."
  static let listAbstract = "Lists the timers."

  static var columns: [ListColumn<TimerView>] {
    [
      .init("DUE IN", alignRight: true) { $0.remainingTime.humanText },
      .init("EVERY", alignRight: true) { $0.every?.humanText ?? "once" },
      .init("FIRED", alignRight: true) { String($0.fired) },
      .init("MISSED", alignRight: true) { String($0.missed) },
      .generation, .owner, .init("PAYLOAD") { $0.payload ?? "" },
    ]
  }

  static func absent(_ key: String) -> String { "there is no timer '\(key)'" }

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
    typealias Shown = Timer

    static let configuration = CommandConfiguration(
      abstract: "Arms a timer, in place of one of that name.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: Timer.argument) var key: String
    @Argument(
      help: "When it is due, from now: 30s, 2m.", transform: DurationArgument.init(parsing:))
    var delay: DurationArgument
    @Option(
      help: "The period, in phase with the first time.", transform: DurationArgument.init(parsing:))
    var every: DurationArgument?
    @Option(help: "Comes with each event fired.") var payload: String?
    @Option(
      help: "fire, skip or coalesce: what becomes of missed periods.",
      completion: .list(["fire", "skip", "coalesce"]))
    var late: String?
    @Option(help: "boot, or wall: follows the wall clock.", completion: .list(["boot", "wall"]))
    var clock: String?
    @OptionGroup var owner: OwnerOption

    var command: Command {
      .init(
        "TIMER", "SET", key, delay,
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
    typealias Shown = Timer

    static let configuration = CommandConfiguration(
      abstract: "Makes a timer due a given time from now.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: Timer.argument) var key: String
    @Argument(
      help: "When it is due, from now: 30s, 2m.", transform: DurationArgument.init(parsing:))
    var delay: DurationArgument

    var command: Command {
      .init("TIMER", "RETIME", key, delay, options: ["GENERATION": generation.value])
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
