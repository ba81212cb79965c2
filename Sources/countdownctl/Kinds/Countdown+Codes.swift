import ArgumentParser
import CountdownClient

struct Refund: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Gives back a send that failed.",
    discussion: """
      It ends the cooldown and frees the place in the policy's windows. Idempotent; an error once \
      a newer code was sent.

      Example:
        countdownctl refund +4512345678 --generation 1795232670109792
      """)

  @OptionGroup var global: GlobalOptions
  @Option(help: .init("The generation in the answer to START.", valueName: "g")) var generation: Int
  @Argument(help: Countdown.argument) var key: String

  func run(_ session: Session) async throws {
    let reply = try await session.send(
      .init("COUNTDOWN", "REFUND", key, options: ["GENERATION": generation]))
    try session.answer(reply) { view, style in
      let word = view.reason == .duplicate ? "refunded before" : "refunded"
      return style.green(word) + "  " + Countdown.line(view, style: style)
    }
  }
}

struct Attempt: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Asks \"may this code be tried?\", and counts the attempt.",
    discussion: "Exit status 1 when it may not: expired, locked or passed.")

  @OptionGroup var global: GlobalOptions
  @OptionGroup var generation: GenerationOption
  @Argument(help: Countdown.argument) var key: String

  func run(_ session: Session) async throws {
    let reply = try await session.send(
      .init("COUNTDOWN", "ATTEMPT", key, options: ["GENERATION": generation.value]))
    try session.answer(reply, Countdown.attempt)
  }
}

struct Pass: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Marks the code as used. The send still counts towards the limits.",
    discussion: "Exit status 1 when the code has expired.")

  @OptionGroup var global: GlobalOptions
  @OptionGroup var generation: GenerationOption
  @Argument(help: Countdown.argument) var key: String

  func run(_ session: Session) async throws {
    let reply = try await session.send(
      .init("COUNTDOWN", "PASS", key, options: ["GENERATION": generation.value]))
    try session.answer(reply) { view, style in
      guard view.accepted == true else { return Countdown.attempt(view, style) }
      return style.green(view.reason == .duplicate ? "passed before" : "passed") + "  "
        + Countdown.line(view, style: style)
    }
  }
}

extension Countdown {
  /// The answer to START and RESEND.
  static func answer(_ view: CountdownView, _ style: Style) -> String {
    let key = view.key.printable
    let again = "try again in \(view.retryAfter.humanText)"
    let ready = "ready in \(view.remainingTime.humanText) (generation \(view.generation))"
    if view.accepted != false {
      guard view.reason != .duplicate else {
        return style.yellow("repeated") + "  \(key) was accepted before: send nothing; \(ready)"
      }
      let over = view.channel.map { " over \($0.printable)" } ?? ""
      return style.green("accepted")
        + "  \(key)\(over) counts \(view.count) × \(view.every.humanText); \(ready)"
    }
    let why =
      switch view.reason {
      case _ where view.state == .paused:
        "is paused: not before \(view.retryAfter.humanText) after it goes on"
      case .window: "has had as many as it may for now: \(again)"
      case .exhausted: "has no channel left: \(again)"
      default: "still counts: \(again)"
      }
    return style.yellow("refused") + "   \(key) \(why)"
  }

  /// The answer to ATTEMPT.
  static func attempt(_ view: CountdownView, _ style: Style) -> String {
    let key = view.key.printable
    guard view.accepted == true else {
      let why =
        switch view.reason {
        case .locked: "was tried too often; send a new one"
        case .passed: "was right before"
        default: "has expired; send a new one"
        }
      return style.yellow("refused") + "   the code of \(key) \(why)"
    }
    let left = view.attemptsLeft.map { "\($0) \($0 == 1 ? "attempt" : "attempts") left, " } ?? ""
    let good = view.expiresIn.map { "good for \($0.humanText)" } ?? ""
    return style.green("accepted") + "  the code of \(key) may be checked; \(left)\(good)"
  }
}

extension Session {
  /// Prints the answer to a request; a refusal is status 1.
  func answer(_ reply: RESPValue, _ text: (CountdownView, Style) -> String) throws {
    let view = try CountdownView(reply)
    Output.line(json ? reply.json : text(view, Output.style))
    if view.accepted == false { throw ExitCode.refused }
  }
}
