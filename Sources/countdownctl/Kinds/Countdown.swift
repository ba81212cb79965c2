import ArgumentParser
import CountdownClient

enum Countdown: Entity {
  typealias View = CountdownView

  static let kind = CountdownEvent.Kind.countdown
  static let noun = "countdown"
  static let listExamples = """
    Other kinds have lists of their own, such as countdownctl timer list.

    Examples:
      countdownctl list --match '+45*'
      countdownctl list --json | jq -r 'select(.state=="counting") | .key'
    """

  static var columns: [ListColumn<CountdownView>] {
    [
      .init("LEFT", alignRight: true) {
        $0.timeLeft == .zero ? "" : $0.timeLeft.humanText
      },
      .init("STEPS", alignRight: true) { "\($0.stepsLeft)/\($0.count)" },
      .init("SENDS", alignRight: true) { String($0.sends) },
      .owner, .init("TITLE") { $0.title ?? "" },
    ]
  }

  static func line(_ view: CountdownView, style: Style) -> String {
    let left = view.timeLeft == .zero ? nil : "\(view.timeLeft.humanText) left"
    return line(view, [left], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String?] {
    guard let view = event.countdown else { return [event.state] }
    var details: [String?] = []
    switch event.name {
    case .started: details.append("\(view.count) × \(view.every.humanText)")
    case .tick: details.append("\(view.stepsLeft) left")
    case .refused: details.append("try again in \(view.timeLeft.humanText)")
    case .ready, .cancelled: break
    default:
      details.append(view.state.rawValue)
      if view.timeLeft > .zero { details.append("\(view.timeLeft.humanText) left") }
    }
    return details + [view.title, event.name == .ready ? event.lateness : nil]
  }
}

struct Start: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Start a countdown, unless it is running.",
    discussion: """
      While the countdown is running or paused, nothing changes, and the exit status is 1. So \
      'start' answers the question "may I send a code now?".

      Examples:
        countdownctl start +4512345678 90s
        countdownctl start +4512345678 2m --title '%m:%02s to go'
        countdownctl start +4512345678 90s --json | jq .retry_after_ms
        countdownctl start +4512345678 90s --token request-81
        countdownctl start +4512345678 --policy login
      """)

  @Argument(
    help: "The name of the countdown, such as a phone number.", completion: Countdown.keys)
  var key: String

  @Argument(duration: "How long it runs, such as 90s or 1h30m (default: as configured, 60s).")
  var duration: Duration?

  @Option(
    help: .init(
      "A policy of the configuration; it sets the duration, the limits and how long codes are valid.",
      valueName: "name"), completion: Completion.policies)
  var policy: String?

  @Option(help: .init("The key of a limit that the policy names.", valueName: "key"))
  var limit: [String] = []

  @Option(
    duration: "The length of a step; titles show the steps left (default: 1s).")
  var every: Duration?

  @Flag(help: "Take the first step at once.") var fire = false

  @Option(
    help: .init(
      "The text while it runs; %d is the steps left, %m:%02s minutes and seconds.",
      valueName: "format"))
  var title: String?

  @Option(help: .init("The text when ready.", valueName: "text")) var readyTitle: String?

  @Option(help: .init("A text to store with it.", valueName: "text")) var meta: String?

  @OptionGroup var token: TokenOption

  @OptionGroup var owner: OwnerOption
  @OptionGroup var global: GlobalOptions

  func validate() throws {
    if policy != nil, duration != nil || every != nil {
      throw ValidationError("--policy sets the duration; leave the duration and --every out")
    }
    if policy == nil, duration == nil, (try? countdownctl.duration(key)) != nil {
      throw ValidationError("the name of the countdown is missing: write start NAME \(key)")
    }
    _ = try steps
  }

  /// The duration in steps; nil without a duration. Without `--every`, the step is 1 s, or the
  /// whole duration if that is not in whole seconds.
  private var steps: (count: Int, every: Duration)? {
    get throws {
      guard let total = duration.map({ Int($0.millisecondsRoundedUp) }) else { return nil }
      let step = every.map { Int($0.millisecondsRoundedUp) } ?? (total % 1_000 == 0 ? 1_000 : total)
      guard total > 0, step > 0 else { throw ValidationError("a countdown takes at least 1ms") }
      guard total % step == 0, total / step <= Int32.max else {
        throw ValidationError("the duration is 1 to \(Int32.max) whole steps of --every")
      }
      return (total / step, .milliseconds(step))
    }
  }

  func run(_ session: Session) async throws {
    let steps = try steps
    let reply = try await session.send(
      .init(
        "COUNTDOWN", "START", key,
        options: [
          "FIRE": fire, "POLICY": policy, "LIMIT": Repeated(limit), "COUNT": steps?.count,
          "EVERY": steps?.every ?? every,
          "TITLE": title, "READYTITLE": readyTitle, "META": meta, "TOKEN": token.value,
          "OWNER": owner.value,
        ]))
    try session.show(reply, of: Countdown.self, key: key, after: "start", hasToken: true)
  }
}
