import ArgumentParser
import CountdownClient

struct Start: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Asks \"may I send a code now?\", and starts the countdown if so.",
    discussion: """
      While the key counts or is paused nothing changes and the exit status is 1.

      Examples:
        countdownctl start +4512345678
        countdownctl start +4512345678 --count 30 --title '%ds to go'
        countdownctl start +4512345678 --json | jq .retry_after_ms
        countdownctl start login --count 1 --every 5m --token r81
        countdownctl start +4512345678 --policy login
      """)

  @OptionGroup var global: GlobalOptions

  @Argument(help: "What counts: a phone number or a user") var key: String

  @Option(
    help: .init(
      "How often a code may be sent and how long it counts; see 'countdownctl policy'.",
      valueName: "name"))
  var policy: String?

  @Option(
    help: "How many steps, as configured (60) unless given.",
    transform: integer(1...Int(Int32.max)))
  var count: Int?

  @Option(
    help: .init("How long a step is (default: as configured, 1s).", valueName: "duration"),
    transform: DurationArgument.init(parsing:))
  var every: DurationArgument?

  @Flag(help: "Count the first step at once.") var fire = false

  @Option(
    help: .init(
      "The text while counting; %d stands for the steps left, %m:%02s for minutes and seconds.",
      valueName: "format"))
  var title: String?

  @Option(help: .init("The text when ready.", valueName: "text")) var readyTitle: String?

  @Option(help: .init("Kept with it and shown in views.", valueName: "text")) var meta: String?

  @Option(help: "Makes a retry safe: a repetition sends nothing, and the exit status is 2.")
  var token: String?

  @OptionGroup var owner: OwnerOption

  func validate() throws {
    if policy != nil, count != nil || every != nil {
      throw ValidationError("--policy says how long it counts; leave --count and --every out")
    }
  }

  func run(_ session: Session) async throws {
    let view = try await session.send(
      ["COUNTDOWN", "START", key] + (fire ? ["FIRE"] : []),
      [
        ("POLICY", policy), ("COUNT", count.map { String($0) }), ("EVERY", every?.text),
        ("TITLE", title),
        ("READYTITLE", readyTitle), ("META", meta), ("TOKEN", token),
      ] + owner.words)
    try session.answerToSend(view)
  }
}

struct Resend: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Starts a countdown again, with what it was started with last.",
    discussion: "While the key counts or is paused nothing changes and the exit status is 1.")

  @OptionGroup var global: GlobalOptions

  @Argument(help: "The countdown.") var key: String

  @Option(help: "Makes a retry safe: a repetition sends nothing, and the exit status is 2.")
  var token: String?

  func run(_ session: Session) async throws {
    try session.answerToSend(
      try await session.send(["COUNTDOWN", "RESEND", key], [("TOKEN", token)]))
  }
}

extension Session {
  /// Prints the answer to START and RESEND. A repetition is status 2, as no code is to be sent.
  fileprivate func answerToSend(_ reply: JSONValue) throws {
    try answer(reply, ViewText.answer)
    if try CountdownView(reply).reason == .duplicate { throw ExitCode.repeated }
  }

  /// Prints the answer to what can be refused; a refusal is status 1.
  func answer(_ reply: JSONValue, _ text: (CountdownView, Style) -> String) throws {
    let view = try CountdownView(reply)
    Output.line(json ? reply.text : text(view, Output.style))
    if view.accepted == false { throw ExitCode.refused }
  }
}
