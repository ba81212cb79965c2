import ArgumentParser
import CountdownClient

struct HUD: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "hud",
    abstract: "Shows and hides progress HUDs that neither flicker nor hang.",
    discussion: """
      Examples:
        countdownctl hud show main --status Loading --grace 200ms --min 500ms
        countdownctl hud progress main 0.4
        countdownctl hud dismiss main
      """,
    subcommands: [
      Show.self, Progress.self, Status.self, Dismiss.self, Pop.self, Tap.self, Pause.self,
      Resume.self, Get.self, List.self,
    ])

  /// Which HUD is meant.
  struct Screen: ParsableArguments {
    @Argument(help: "The screen.") var screen: String
    @Option(
      help: "normal, statusbar or alert; the front one unless given.",
      completion: .list(["normal", "statusbar", "alert"]))
    var level: String?

    var words: [(String, String?)] { [("LEVEL", level)] }
  }

  struct Show: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a HUD; supersedes the one on the same level.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The screen.") var screen: String
    @Option(
      help: "normal (unless given), statusbar or alert.",
      completion: .list(["normal", "statusbar", "alert"]))
    var level: String?
    @Option(
      help: "loading (unless given), progress, info, success or error.",
      completion: .list(["loading", "progress", "info", "success", "error"]))
    var kind: String?
    @Option(help: "The text.") var status: String?
    @Option(
      help: "Shown only if still wanted after this.", transform: DurationArgument.init(parsing:))
    var grace: DurationArgument?
    @Option(help: "Not hidden before this.", transform: DurationArgument.init(parsing:)) var min:
      DurationArgument?
    @Option(help: "Hidden by itself after this.", transform: DurationArgument.init(parsing:))
    var max: DurationArgument?
    @Option(help: "How long it fades in.", transform: DurationArgument.init(parsing:)) var fadeIn:
      DurationArgument?
    @Option(help: "How long it fades out.", transform: DurationArgument.init(parsing:)) var fadeOut:
      DurationArgument?
    @Option(
      help: "visible, request or stop: from when --min counts.",
      completion: .list(["visible", "request", "stop"]))
    var minFrom: String?
    @Option(
      help: "skip or show: what a dismissal within --grace does.",
      completion: .list(["skip", "show"]))
    var early: String?
    @Option(
      help: "none, clear, black, gradient or custom.",
      completion: .list(["none", "clear", "black", "gradient", "custom"]))
    var mask: String?
    @Option(help: .init("The request it is for; picks the mask.", valueName: "url"))
    var request: String?
    @OptionGroup var owner: OwnerOption
    @Flag(help: "It outlives the daemon.") var durable = false

    func run(_ session: Session) async throws {
      try await session.hud(
        "SHOW", screen, durable ? ["DURABLE"] : [],
        [
          ("LEVEL", level), ("KIND", kind), ("STATUS", status), ("GRACE", grace?.text),
          ("MIN", min?.text),
          ("MAX", max?.text), ("FADEIN", fadeIn?.text), ("FADEOUT", fadeOut?.text),
          ("MINFROM", minFrom), ("EARLY", early), ("MASK", mask), ("REQUEST", request),
        ] + owner.words)
    }
  }

  struct Progress: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Sets how much is done.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Screen
    @Argument(help: "A decimal from 0 to 1.") var fraction: Double
    @Option(help: "The text.") var status: String?
    @OptionGroup var generation: GenerationOption

    func run(_ session: Session) async throws {
      try await session.hud(
        "PROGRESS", target, [String(fraction)], [("STATUS", status)] + generation.words)
    }
  }

  struct Status: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Sets the text.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Screen
    @Argument(help: "The text.") var text: String
    @OptionGroup var generation: GenerationOption

    func run(_ session: Session) async throws {
      try await session.hud("STATUS", target, [text], generation.words)
    }
  }

  struct Dismiss: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Hides a HUD, not before its minimum time.",
      discussion: "Exit status 1 when nothing was shown.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Screen
    @Option(help: "Only after this.", transform: DurationArgument.init(parsing:)) var delay:
      DurationArgument?
    @OptionGroup var generation: GenerationOption

    func run(_ session: Session) async throws {
      try await session.hud("DISMISS", target, [], [("DELAY", delay?.text)] + generation.words)
    }
  }

  struct Pop: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Gives one lease back; the last one hides the HUD.",
      discussion: "Exit status 1 when nothing was shown.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Screen
    @OptionGroup var generation: GenerationOption

    func run(_ session: Session) async throws {
      try await session.hud("POP", target, [], generation.words)
    }
  }

  struct Tap: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Tells of a tap on the screen.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Screen
    @Flag(help: "The tap was on the HUD itself.") var inside = false
    @OptionGroup var generation: GenerationOption

    func run(_ session: Session) async throws {
      try await session.hud("TAP", target, inside ? ["INSIDE"] : [], generation.words)
    }
  }

  struct Pause: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Stops the time of a HUD.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Screen
    @OptionGroup var generation: GenerationOption

    func run(_ session: Session) async throws {
      try await session.hud("PAUSE", target, [], generation.words)
    }
  }

  struct Resume: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Lets its time go on.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Screen
    @OptionGroup var generation: GenerationOption

    func run(_ session: Session) async throws {
      try await session.hud("RESUME", target, [], generation.words)
    }
  }

  struct Get: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows how a HUD stands.", discussion: "Exit status 1 when nothing is shown.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Screen

    func run(_ session: Session) async throws {
      let view = try await session.send(["HUD", "GET", target.screen], target.words)
      try session.show(view, absent: "nothing is shown on '\(target.screen)'") {
        ViewText.table($0, style: Output.style)
      }
    }
  }

  struct List: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the HUDs.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var options: ListOptions
    @OptionGroup var owner: OwnerFilter

    func run(_ session: Session) async throws {
      try await session.list("HUD", options, of: owner, columns: Self.columns) { view in
        let view = try HUDView(view)
        return [
          view.key, view.state.rawValue, view.level ?? "", view.kind ?? "",
          view.remainingTime?.humanText ?? "", String(view.leases), String(view.generation),
          view.owner ?? "", view.status ?? "",
        ]
      }
    }

    private static let columns = Columns([
      .init(title: "SCREEN"), .init(title: "STATE"), .init(title: "LEVEL"), .init(title: "KIND"),
      .init(title: "LEFT", alignRight: true), .init(title: "LEASES", alignRight: true),
      .init(title: "GENERATION", alignRight: true), .init(title: "OWNER"), .init(title: "STATUS"),
    ])
  }
}

extension Session {
  fileprivate func hud(
    _ command: String, _ target: HUD.Screen, _ arguments: [String],
    _ options: [(String, String?)]
  ) async throws {
    try await hud(command, target.screen, arguments, options + target.words)
  }

  fileprivate func hud(
    _ command: String, _ screen: String, _ arguments: [String], _ options: [(String, String?)]
  ) async throws {
    let view = try await send(["HUD", command, screen] + arguments, options)
    try show(view, absent: "nothing is shown on '\(screen)'") {
      ViewText.line(try HUDView($0), style: Output.style)
    }
  }
}
