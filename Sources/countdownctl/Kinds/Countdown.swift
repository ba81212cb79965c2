import ArgumentParser
import CountdownClient

enum Countdown: Entity {
  typealias View = CountdownView

  static let kind = CountdownEvent.Kind.countdown
  static let noun = "countdown"
  static let listExamples = """
    Other kinds have lists of their own: countdownctl hud list, timer list, throttle list, once \
    list, gate list, debounce list, scope list, nav list, page list.

    Examples:
      countdownctl list --match '+45*'
      countdownctl list --json | jq -r 'select(.state=="counting") | .key'
    """

  static var columns: [ListColumn<CountdownView>] {
    [
      .init("LEFT", alignRight: true) {
        $0.remainingTime == .zero ? "" : $0.remainingTime.humanText
      },
      .init("STEPS", alignRight: true) { "\($0.remaining)/\($0.count)" },
      .init("SENDS", alignRight: true) { String($0.sends) },
      .generation, .owner, .init("TITLE") { $0.title ?? "" },
    ]
  }

  static func line(_ view: CountdownView, style: Style) -> String {
    let left = view.remainingTime == .zero ? nil : "\(view.remainingTime.humanText) left"
    return line(view, [left], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String] {
    guard let view = event.countdown else { return event.state.map { [$0] } ?? [] }
    var details: [String?] = []
    switch event.name {
    case .started: details.append("\(view.count) × \(view.every.humanText)")
    case .tick: details.append("\(view.remaining) left")
    case .refused: details.append("try again in \(view.remainingTime.humanText)")
    case .ready, .cancelled: break
    default:
      details.append(view.state.rawValue)
      if view.remainingTime > .zero { details.append("\(view.remainingTime.humanText) left") }
    }
    return (details + [view.title, event.name == .ready ? event.lateness : nil])
      .compactMap(\.self)
  }

  // MARK: Subcommands

  enum Cancel: Verb {
    typealias Shown = Countdown
    static let abstract = "Cancels a countdown; its policy still remembers the sends."
    static let discussion = "Exit status 1 when there was none."
    static let done: String? = "cancelled"
  }

  enum Pause: Verb {
    typealias Shown = Countdown
    static let abstract = "Pauses a countdown with its remaining time."
  }

  enum Resume: Verb {
    typealias Shown = Countdown
    static let abstract = "Continues a paused countdown."
  }

  struct Retime: EntityCommand {
    static let abstract = "Makes a countdown end a given time from now."
    static let discussion = """
      A paused one keeps that much time. 0 makes it ready at once.

      Example:
        countdownctl retime +4512345678 30s
      """

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Countdown>
    @Argument(duration: "The time left: 30s, 2m.") var duration: DurationArgument

    var command: Command {
      .init("COUNTDOWN", "RETIME", target.key, duration, options: ["GENERATION": generation.value])
    }
  }
}

struct Start: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Asks \"may I send a code now?\", and starts the countdown if so.",
    discussion: """
      While the key is in cooldown or paused, nothing changes and the exit status is 1.

      Examples:
        countdownctl start +4512345678
        countdownctl start +4512345678 --count 30 --title '%ds to go'
        countdownctl start +4512345678 --json | jq .retry_after_ms
        countdownctl start login --count 1 --every 5m --token r81
        countdownctl start +4512345678 --policy login
      """)

  @OptionGroup var global: GlobalOptions

  @Argument(help: "The countdown: a phone number or a user.") var key: String

  @Option(
    help: .init(
      "How often a code may be sent, and the cooldown; see 'countdownctl policy'.",
      valueName: "name"))
  var policy: String?

  @Option(
    help: "How many steps (default: as configured, 60).", transform: integer(1...Int(Int32.max)))
  var count: Int?

  @Option(
    duration: .init("The length of a step (default: as configured, 1s).", valueName: "duration"))
  var every: DurationArgument?

  @Flag(help: "Take the first step at once.") var fire = false

  @Option(
    help: .init(
      "The text while it runs; %d stands for the steps left, %m:%02s for minutes and seconds.",
      valueName: "format"))
  var title: String?

  @Option(help: .init("The text when ready.", valueName: "text")) var readyTitle: String?

  @Option(help: .init("Stored with it and shown in views.", valueName: "text")) var meta: String?

  @Option(help: "Makes a retry safe: a repetition sends nothing, and the exit status is 2.")
  var token: String?

  @OptionGroup var owner: OwnerOption

  func validate() throws {
    if policy != nil, count != nil || every != nil {
      throw ValidationError("--policy sets the cooldown; leave --count and --every out")
    }
  }

  func run(_ session: Session) async throws {
    let reply = try await session.send(
      .init(
        "COUNTDOWN", "START", key,
        options: [
          "FIRE": fire, "POLICY": policy, "COUNT": count, "EVERY": every, "TITLE": title,
          "READYTITLE": readyTitle, "META": meta, "TOKEN": token, "OWNER": owner.value,
        ]))
    try session.answerToSend(reply)
  }
}

struct Resend: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Starts a countdown again with its last options.",
    discussion: "While the key is in cooldown or paused, nothing changes and the exit status is 1.")

  @OptionGroup var global: GlobalOptions

  @Argument(help: Countdown.argument) var key: String

  @Option(help: "Makes a retry safe: a repetition sends nothing, and the exit status is 2.")
  var token: String?

  func run(_ session: Session) async throws {
    try session.answerToSend(
      try await session.send(.init("COUNTDOWN", "RESEND", key, options: ["TOKEN": token])))
  }
}

extension Session {
  /// Prints the answer to START and RESEND; a repetition is status 2, as no code is to be sent.
  fileprivate func answerToSend(_ reply: RESPValue) throws {
    try answer(reply, Countdown.answer)
    if try CountdownView(reply).reason == .duplicate { throw ExitCode.repeated }
  }
}
