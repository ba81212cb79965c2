import ArgumentParser
import CountdownClient

struct Refund: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Undo a send that failed: it no longer counts, and the cooldown ends.",
    discussion: """
      'start --generations' prints the generation of a send. A refund of a send is done once, and \
      refused once a newer code was sent.

      Example:
        countdownctl refund +4512345678 --generation 1795232670109792
      """)

  @Option(help: .init("The generation of the send.", valueName: "g")) var generation: Int
  @Argument(help: Countdown.argument, completion: Countdown.keys) var key: String
  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    let reply = try await session.send(
      .init("COUNTDOWN", "REFUND", key, options: ["GENERATION": generation]))
    try session.answer(reply) { view, style in
      let word = view.reason == .repeated ? "refunded before" : "refunded"
      return style.green(word) + "  " + Countdown.line(view, style: style)
    }
  }
}

struct Attempt: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Count an attempt to enter the code, before checking it.",
    discussion: "Exit status 1 if the code has expired, was tried too often, or was used.")

  @OptionGroup var generation: GenerationOption
  @Argument(help: Countdown.argument, completion: Countdown.keys) var key: String
  @OptionGroup var token: TokenOption
  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    let reply = try await session.send(
      .init(
        "COUNTDOWN", "ATTEMPT", key,
        options: ["GENERATION": generation.value, "TOKEN": token.value]))
    try session.answer(reply, Countdown.attempt)
    if try CountdownView(reply).reason == .repeated { throw ExitCode.repeated }
  }
}

struct Pass: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Mark the code as used. The send still counts towards the limits.",
    discussion: "Exit status 1 if the code has expired.")

  @OptionGroup var generation: GenerationOption
  @Argument(help: Countdown.argument, completion: Countdown.keys) var key: String
  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    let reply = try await session.send(
      .init("COUNTDOWN", "PASS", key, options: ["GENERATION": generation.value]))
    try session.answer(reply) { view, style in
      guard view.accepted == true else { return Countdown.attempt(view, style) }
      return style.green(view.reason == .repeated ? "passed before" : "passed") + "  "
        + Countdown.line(view, style: style)
    }
  }
}

extension Countdown {
  /// Returns the text of an answer to START or RESEND.
  static func answer(_ view: CountdownView, _ style: Style) -> String {
    let key = view.key.printable
    let again = "try again in \(view.retryAfter.humanText)"
    let ready = "ready in \(view.timeLeft.humanText)\(style.generation(view.generation))"
    if view.accepted != false {
      guard view.reason != .repeated else {
        return style.yellow("repeated") + "  \(key) was accepted before; \(ready)"
      }
      let over = view.channel.map { " over \($0.printable)" } ?? ""
      return style.green("accepted")
        + "  \(key)\(over): \(ready)"
    }
    let why =
      switch view.reason {
      case _ where view.state == .paused:
        "is paused with \(view.retryAfter.humanText) left: resume it first"
      case .window: "has reached a limit of its policy: \(again)"
      case .exhausted: "has no channel left: \(again)"
      case .limit: "has no room in \(view.limit?.printable ?? "a limit"): \(again)"
      case .blocked: "is blocked by \(view.limit?.printable ?? "a limit"): \(again)"
      case .locked: "is locked, as a code was tried too often: \(again)"
      default: "is in cooldown: \(again)"
      }
    return style.yellow("refused") + "   \(key) \(why)"
  }

  /// Returns the text of an answer to ATTEMPT.
  static func attempt(_ view: CountdownView, _ style: Style) -> String {
    let key = view.key.printable
    guard view.accepted == true else {
      let why =
        switch view.reason {
        case .locked: "was tried too often; send a new one"
        case .passed: "was used"
        default: "has expired; send a new one"
        }
      return style.yellow("refused") + "   the code of \(key) \(why)"
    }
    let left = view.attemptsLeft.map { "\($0) \($0 == 1 ? "attempt" : "attempts") left, " } ?? ""
    let good = view.expiresIn.map { "valid for \($0.humanText)" } ?? ""
    return style.green("accepted") + "  the code of \(key) may be checked; \(left)\(good)"
  }
}

extension Session {
  /// Prints the answer to a request. Throws exit status 1 for a refusal.
  func answer(_ reply: RESPValue, _ text: (CountdownView, Style) -> String) throws {
    let view = try CountdownView(reply)
    Output.line(json ? reply.json : text(view, style))
    if view.accepted == false { throw ExitCode.refused }
  }
}
