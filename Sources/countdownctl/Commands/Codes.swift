import ArgumentParser
import CountdownClient

struct Refund: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Gives a send back, because it failed.",
    discussion: """
      Its cooldown is over and its place in the policy's windows is free again. Harmless when it was
      given back before; an error once something newer was sent.

      Example:
        countdownctl refund +4512345678 --generation 1795232670109792
      """)

  @OptionGroup var global: GlobalOptions
  @Option(help: .init("The generation that START answered.", valueName: "g")) var generation: Int
  @Argument(help: "The countdown.") var key: String

  func run(_ session: Session) async throws {
    let reply = try await session.send(
      ["COUNTDOWN", "REFUND", key, "GENERATION", String(generation)])
    try session.answer(reply) { view, style in
      let word = view.reason == .duplicate ? "refunded before" : "refunded"
      return style.green(word) + "  " + ViewText.line(view, style: style)
    }
  }
}

struct Attempt: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Asks \"may this code be tried?\", and counts the attempt.",
    discussion: "Exit status 1 when it may not: expired, locked or passed.")

  @OptionGroup var global: GlobalOptions
  @OptionGroup var generation: GenerationOption
  @Argument(help: "The countdown.") var key: String

  func run(_ session: Session) async throws {
    try session.answer(
      try await session.send(["COUNTDOWN", "ATTEMPT", key], generation.words), ViewText.attempt)
  }
}

struct Pass: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Marks the code as used. The send still counts towards the limits.",
    discussion: "Exit status 1 when the code has expired.")

  @OptionGroup var global: GlobalOptions
  @OptionGroup var generation: GenerationOption
  @Argument(help: "The countdown.") var key: String

  func run(_ session: Session) async throws {
    let reply = try await session.send(["COUNTDOWN", "PASS", key], generation.words)
    try session.answer(reply) { view, style in
      guard view.accepted == true else { return ViewText.attempt(view, style) }
      return style.green(view.reason == .duplicate ? "passed before" : "passed") + "  "
        + ViewText.line(view, style: style)
    }
  }
}
