import ArgumentParser
import CountdownClient

/// What several subcommands ask: only if it has not been started anew meanwhile.
struct GenerationOption: ParsableArguments {
  @Option(help: .init("Only this generation; an error if it has another by now.", valueName: "g"))
  var generation: Int?

  var words: [(String, String?)] { [("GENERATION", generation.map { String($0) })] }
}

struct Get: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Shows a countdown.", discussion: "Exit status 1 when there is none.")

  @OptionGroup var global: GlobalOptions
  @Argument(help: "The countdown.") var key: String

  func run(_ session: Session) async throws {
    let view = try await session.send(["COUNTDOWN", "GET", key])
    try session.show(view, absent: "there is no countdown '\(key)'") {
      ViewText.table($0, style: Output.style)
    }
  }
}

struct Cancel: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Ends a countdown; a policy remembers what was sent.",
    discussion: "Exit status 1 when there was none.")

  @OptionGroup var global: GlobalOptions
  @OptionGroup var generation: GenerationOption
  @Argument(help: "The countdown.") var key: String

  func run(_ session: Session) async throws {
    let done = try await session.send(["COUNTDOWN", "CANCEL", key], generation.words)
    let name = key.printable
    try session.show(
      done: done, yes: "\(name)  cancelled", no: "there is no countdown '\(name)'")
  }
}

struct Pause: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Pauses a countdown; the time left is kept.")

  @OptionGroup var global: GlobalOptions
  @OptionGroup var generation: GenerationOption
  @Argument(help: "The countdown.") var key: String

  func run(_ session: Session) async throws {
    try await session.change("PAUSE", key, generation: generation)
  }
}

struct Resume: SessionCommand {
  static let configuration = CommandConfiguration(abstract: "Lets a paused countdown go on.")

  @OptionGroup var global: GlobalOptions
  @OptionGroup var generation: GenerationOption
  @Argument(help: "The countdown.") var key: String

  func run(_ session: Session) async throws {
    try await session.change("RESUME", key, generation: generation)
  }
}

struct Retime: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Makes a countdown end a given time from now.",
    discussion: """
      A paused one is left that much to go. 0 makes it ready at once.

      Example:
        countdownctl retime +4512345678 30s
      """)

  @OptionGroup var global: GlobalOptions
  @OptionGroup var generation: GenerationOption
  @Argument(help: "The countdown.") var key: String
  @Argument(
    help: "How long it still counts, 30s or 2m.", transform: DurationArgument.init(parsing:))
  var duration: DurationArgument

  func run(_ session: Session) async throws {
    try await session.change("RETIME", key, duration.text, generation: generation)
  }
}

extension Session {
  fileprivate func change(
    _ command: String, _ arguments: String..., generation: GenerationOption
  ) async throws {
    let view = try await send(["COUNTDOWN", command] + arguments, generation.words)
    Output.line(
      json ? view.text : ViewText.line(try CountdownView(view), style: Output.style))
  }
}
