import ArgumentParser
import CountdownClient

struct HUD: AsyncParsableCommand, Entity {
  typealias View = HUDView

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
      Show.self, Progress.self, Status.self, Dismiss.self, VerbCommand<Pop>.self, Tap.self,
      VerbCommand<Pause>.self, VerbCommand<Resume>.self, GetCommand<HUD>.self,
      ListCommand<HUD>.self,
    ])

  /// Which HUD of a screen.
  struct Selector: SelectorOptions {
    @Option(
      oneOf: ["normal", "statusbar", "alert"],
      help: "normal, statusbar or alert (default: the front one).") var level: String?
  }

  static let kind = CountdownEvent.Kind.hud
  static let noun = "HUD"
  static var argument: ArgumentHelp { .init("The screen.", valueName: "screen") }
  static let keyTitle = "SCREEN"
  static let absence = "the screen has none"

  static var columns: [ListColumn<HUDView>] {
    [
      .init("LEVEL") { $0.level?.rawValue ?? "" }, .init("KIND") { $0.kind?.rawValue ?? "" },
      .init("LEFT", alignRight: true) { $0.remainingTime?.humanText ?? "" },
      .init("LEASES", alignRight: true) { String($0.holds) },
      .generation, .owner, .init("STATUS") { $0.status ?? "" },
    ]
  }

  static func absent(_ key: String) -> String { "nothing is shown on '\(key)'" }

  static func line(_ view: HUDView, style: Style) -> String {
    line(
      view,
      [
        view.kind?.rawValue, view.fraction.map { "\(Int($0 * 100)) %" }, view.status?.printable,
        view.isDismissing && view.state != .hidden ? "dismissing" : nil,
        view.isPaused ? "paused" : nil, view.remainingTime.map { "\($0.humanText) left" },
        view.end.map { "end: \($0)" },
      ], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String] {
    guard let view = event.hud else { return [] }
    return [
      view.state.rawValue, view.kind?.rawValue, view.fraction.map { "\(Int($0 * 100)) %" },
      view.status, view.end.map { "end: \($0)" },
    ].compactMap(\.self)
  }

  // MARK: Subcommands

  struct Show: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a HUD, in place of the one on the same level.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: HUD.argument) var screen: String
    @Option(
      oneOf: ["normal", "statusbar", "alert"], help: "normal (unless given), statusbar or alert.")
    var level: String?
    @Option(
      oneOf: ["loading", "progress", "info", "success", "error"],
      help: "loading (unless given), progress, info, success or error.") var kind: String?
    @Option(help: "The text.") var status: String?
    @Option(duration: "Shows it only if the work takes longer than this.") var grace:
      DurationArgument?
    @Option(duration: "Hides it no earlier than this.") var min: DurationArgument?
    @Option(duration: "Hides it after this.") var max: DurationArgument?
    @Option(duration: "How long it fades in.") var fadeIn: DurationArgument?
    @Option(duration: "How long it fades out.") var fadeOut: DurationArgument?
    @Option(
      oneOf: ["visible", "request", "stop"],
      help: "visible, request or stop: from when --min counts.") var minFrom: String?
    @Option(oneOf: ["skip", "show"], help: "skip or show: what a dismissal within --grace does.")
    var early: String?
    @Option(
      oneOf: ["none", "clear", "black", "gradient", "custom"],
      help: "none, clear, black, gradient or custom.") var mask: String?
    @Option(help: .init("The request that it is shown for; picks the mask.", valueName: "url"))
    var request: String?
    @OptionGroup var owner: OwnerOption
    @Flag(help: "It survives a restart of the daemon.") var durable = false

    func run(_ session: Session) async throws {
      let command = Command(
        "HUD", "SHOW", screen,
        options: [
          "DURABLE": durable, "LEVEL": level, "KIND": kind, "STATUS": status, "GRACE": grace,
          "MIN": min, "MAX": max, "FADEIN": fadeIn, "FADEOUT": fadeOut, "MINFROM": minFrom,
          "EARLY": early, "MASK": mask, "REQUEST": request, "OWNER": owner.value,
        ])
      try session.show(try await session.send(command), of: HUD.self, key: screen)
    }
  }

  struct Progress: EntityCommand {
    static let abstract = "Sets the part that is done."

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Target<HUD>
    @Argument(help: "A decimal from 0 to 1.") var fraction: Double
    @Option(help: "The text.") var status: String?
    @OptionGroup var generation: GenerationOption

    var command: Command {
      .init(
        "HUD", "PROGRESS", target.key, String(fraction),
        options: ["STATUS": status, "LEVEL": target.level, "GENERATION": generation.value])
    }
  }

  struct Status: EntityCommand {
    static let abstract = "Sets the text."

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Target<HUD>
    @Argument(help: "The text.") var text: String
    @OptionGroup var generation: GenerationOption

    var command: Command {
      .init(
        "HUD", "STATUS", target.key, text,
        options: ["LEVEL": target.level, "GENERATION": generation.value])
    }
  }

  struct Dismiss: EntityCommand {
    static let abstract = "Hides a HUD, not before its minimum time."
    static let discussion = "Exit status 1 when the screen has none."

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Target<HUD>
    @Option(duration: "Only after this.") var delay: DurationArgument?
    @OptionGroup var generation: GenerationOption

    var command: Command {
      .init(
        "HUD", "DISMISS", target.key,
        options: ["DELAY": delay, "LEVEL": target.level, "GENERATION": generation.value])
    }
  }

  enum Pop: Verb {
    typealias Shown = HUD
    static let abstract = "Releases one hold; the last one hides the HUD."
    static let discussion = "Exit status 1 when the screen has none."
  }

  struct Tap: EntityCommand {
    static let abstract = "Reports a tap on the screen."

    @OptionGroup var global: GlobalOptions
    @OptionGroup var target: Target<HUD>
    @Flag(help: "The tap was on the HUD itself.") var inside = false
    @OptionGroup var generation: GenerationOption

    var command: Command {
      .init(
        "HUD", "TAP", target.key,
        options: ["INSIDE": inside, "LEVEL": target.level, "GENERATION": generation.value])
    }
  }

  enum Pause: Verb {
    typealias Shown = HUD
    static let abstract = "Pauses a HUD with its remaining time."
  }

  enum Resume: Verb {
    typealias Shown = HUD
    static let abstract = "Continues a paused HUD."
  }
}
