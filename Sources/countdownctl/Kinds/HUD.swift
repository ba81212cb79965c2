import ArgumentParser
import CountdownClient

struct HUD: AsyncParsableCommand, Gettable, Listable {
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
      help: "normal, statusbar or alert (default: the front one).",
      completion: .list(["normal", "statusbar", "alert"]))
    var level: String?
  }

  static let kind = CountdownEvent.Kind.hud
  static var argument: ArgumentHelp { .init("The screen.", valueName: "screen") }
  static let keyTitle = "SCREEN"
  static let getAbstract = "Shows the status of a HUD."
  static let getDiscussion = "Exit status 1 when the screen has none."
  static let listAbstract = "Lists the HUDs."

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

  struct Show: EntityCommand {
    typealias Shown = HUD

    static let configuration = CommandConfiguration(
      abstract: "Shows a HUD, in place of the one on the same level.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: HUD.argument) var key: String
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
      help: "Shows it only if the work takes longer than this.",
      transform: DurationArgument.init(parsing:))
    var grace: DurationArgument?
    @Option(help: "Hides it no earlier than this.", transform: DurationArgument.init(parsing:))
    var min: DurationArgument?
    @Option(help: "Hides it after this.", transform: DurationArgument.init(parsing:))
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
    @Option(help: .init("The request that it is shown for; picks the mask.", valueName: "url"))
    var request: String?
    @OptionGroup var owner: OwnerOption
    @Flag(help: "It survives a restart of the daemon.") var durable = false

    var command: Command {
      .init(
        "HUD", "SHOW", key,
        options: [
          "DURABLE": durable, "LEVEL": level, "KIND": kind, "STATUS": status, "GRACE": grace,
          "MIN": min, "MAX": max, "FADEIN": fadeIn, "FADEOUT": fadeOut, "MINFROM": minFrom,
          "EARLY": early, "MASK": mask, "REQUEST": request, "OWNER": owner.value,
        ])
    }
  }

  struct Progress: EntityCommand {
    typealias Shown = HUD

    static let configuration = CommandConfiguration(abstract: "Sets the part that is done.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: HUD.argument) var key: String
    @OptionGroup var selector: Selector
    @Argument(help: "A decimal from 0 to 1.") var fraction: Double
    @Option(help: "The text.") var status: String?
    @OptionGroup var generation: GenerationOption

    var command: Command {
      .init(
        "HUD", "PROGRESS", key, String(fraction),
        options: ["STATUS": status, "LEVEL": selector.level, "GENERATION": generation.value])
    }
  }

  struct Status: EntityCommand {
    typealias Shown = HUD

    static let configuration = CommandConfiguration(abstract: "Sets the text.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: HUD.argument) var key: String
    @OptionGroup var selector: Selector
    @Argument(help: "The text.") var text: String
    @OptionGroup var generation: GenerationOption

    var command: Command {
      .init(
        "HUD", "STATUS", key, text,
        options: ["LEVEL": selector.level, "GENERATION": generation.value])
    }
  }

  struct Dismiss: EntityCommand {
    typealias Shown = HUD

    static let configuration = CommandConfiguration(
      abstract: "Hides a HUD, not before its minimum time.",
      discussion: "Exit status 1 when the screen has none.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: HUD.argument) var key: String
    @OptionGroup var selector: Selector
    @Option(help: "Only after this.", transform: DurationArgument.init(parsing:)) var delay:
      DurationArgument?
    @OptionGroup var generation: GenerationOption

    var command: Command {
      .init(
        "HUD", "DISMISS", key,
        options: ["DELAY": delay, "LEVEL": selector.level, "GENERATION": generation.value])
    }
  }

  enum Pop: Verb {
    typealias Shown = HUD
    static let abstract = "Releases one hold; the last one hides the HUD."
    static let discussion = "Exit status 1 when the screen has none."
  }

  struct Tap: EntityCommand {
    typealias Shown = HUD

    static let configuration = CommandConfiguration(abstract: "Reports a tap on the screen.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: HUD.argument) var key: String
    @OptionGroup var selector: Selector
    @Flag(help: "The tap was on the HUD itself.") var inside = false
    @OptionGroup var generation: GenerationOption

    var command: Command {
      .init(
        "HUD", "TAP", key,
        options: ["INSIDE": inside, "LEVEL": selector.level, "GENERATION": generation.value])
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
