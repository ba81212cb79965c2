import ArgumentParser
import CountdownClient

struct HUD: AsyncParsableCommand, Entity {
  typealias View = HUDView

  static let configuration = CommandConfiguration(
    commandName: "hud",
    abstract: "Show progress HUDs that do not flicker: with a delay and a minimum time.",
    discussion: """
      Examples:
        countdownctl hud show main --status Loading --grace 200ms --min 500ms
        countdownctl hud progress main 0.4
        countdownctl hud dismiss main
        countdownctl hud why main
      """,
    subcommands: [
      Show.self, Progress.self, Status.self, Dismiss.self, Pop.self, Tap.self,
      VerbCommand<Pause>.self, VerbCommand<Resume>.self, GetCommand<HUD>.self,
      ListCommand<HUD>.self, Why.self, Mask.self,
    ])

  /// The option that selects a HUD of a screen.
  struct Selector: SelectorOptions {
    @Option(
      oneOf: ["normal", "statusbar", "alert"],
      help: "normal, statusbar or alert (default: the topmost one).") var level: String?
  }

  static let kind = CountdownEvent.Kind.hud
  static let noun = "HUD"
  static var argument: ArgumentHelp { .init("The screen.", valueName: "screen") }
  static let keyTitle = "SCREEN"
  static let absence = "the screen shows none"

  static var columns: [ListColumn<HUDView>] {
    [
      .init("LEVEL") { $0.level?.rawValue ?? "" }, .init("KIND") { $0.kind?.rawValue ?? "" },
      .init("LEFT", alignRight: true) { $0.timeLeft?.humanText ?? "" },
      .init("HOLDS", alignRight: true) { String($0.holds.count) },
      .owner, .init("STATUS") { $0.status ?? "" },
    ]
  }

  static func absent(_ key: String) -> String { "there is no HUD on '\(key)'" }

  static func line(_ view: HUDView, style: Style) -> String {
    line(
      view,
      [
        view.kind?.rawValue, view.fraction.map { "\(Int($0 * 100)) %" }, view.status?.printable,
        view.holds.count > 1 ? "\(view.holds.count) holds" : nil,
        view.mask.flatMap { $0 == .none ? nil : "mask \($0.rawValue)" },
        view.isDismissing && view.state != .hidden ? "dismissing" : nil,
        view.isPaused ? "paused" : nil, view.timeLeft.map { "\($0.humanText) left" },
        view.end.map { "end: \($0.rawValue)" },
      ], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String] {
    guard let view = event.hud else { return [] }
    return [
      view.state.rawValue, view.kind?.rawValue, view.fraction.map { "\(Int($0 * 100)) %" },
      view.status, view.holds.count > 1 ? "\(view.holds.count) holds" : nil,
      view.end.map { "end: \($0.rawValue)" },
    ].compactMap(\.self)
  }

  // MARK: Subcommands

  struct Show: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Show a HUD. It takes one more hold, or replaces a message.")

    @Argument(help: HUD.argument, completion: HUD.keys) var screen: String
    @Option(
      oneOf: ["normal", "statusbar", "alert"], help: "normal (default), statusbar or alert.")
    var level: String?
    @Option(
      oneOf: ["loading", "progress", "info", "success", "error"],
      help: "loading (default), progress, info, success or error.") var kind: String?
    @Option(help: "The text.") var status: String?
    @Option(duration: "Show it only if the work takes longer than this.") var grace: Duration?
    @Option(duration: "Once shown, show it for at least this long.") var min: Duration?
    @Option(duration: "Hide it after this.") var max: Duration?
    @Option(duration: "How long the fade-in takes.") var fadeIn: Duration?
    @Option(duration: "How long the fade-out takes.") var fadeOut: Duration?
    @Option(
      oneOf: ["visible", "appear", "request", "stop"],
      help: "When --min begins: visible, appear, request or stop.") var minFrom: String?
    @Option(oneOf: ["skip", "show"], help: "A dismissal within --grace: skip or show.")
    var early: String?
    @Option(
      oneOf: ["none", "clear", "black", "gradient", "custom"],
      help: "The background: none, clear, black, gradient or custom.") var mask: String?
    @Option(help: .init("The request that it is shown for; it decides the mask.", valueName: "url"))
    var request: String?
    @OptionGroup var owner: OwnerOption
    @Flag(help: "Keep it over restarts of the daemon.") var durable = false
    @OptionGroup var global: GlobalOptions

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
    static let abstract = "Set the progress."

    @OptionGroup var target: Target<HUD>
    @Argument(help: "The progress, from 0 to 1.") var fraction: Double
    @Option(help: "The text.") var status: String?
    @OptionGroup var generation: GenerationOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "HUD", "PROGRESS", target.key, String(fraction),
        options: ["STATUS": status, "LEVEL": target.level, "GENERATION": generation.value])
    }
  }

  struct Status: EntityCommand {
    static let abstract = "Set the text."

    @OptionGroup var target: Target<HUD>
    @Argument(help: "The text.") var text: String
    @OptionGroup var generation: GenerationOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "HUD", "STATUS", target.key, text,
        options: ["LEVEL": target.level, "GENERATION": generation.value])
    }
  }

  struct Dismiss: EntityCommand {
    static let abstract = "Hide a HUD, once its minimum time is over."
    static let discussion = "Exit status 1 if the screen shows none."

    @OptionGroup var target: Target<HUD>
    @Option(duration: "Hide it after this.") var delay: Duration?
    @OptionGroup var generation: GenerationOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "HUD", "DISMISS", target.key,
        options: ["DELAY": delay, "LEVEL": target.level, "GENERATION": generation.value])
    }
  }

  struct Pop: EntityCommand {
    static let abstract = "Release one hold. Releasing the last one hides the HUD."
    static let discussion = "Exit status 1 if the screen shows none."

    @OptionGroup var target: Target<HUD>
    @Option(help: .init("The hold of this request.", valueName: "url")) var request: String?
    @Option(
      name: .customLong("generation"),
      help: .init("The hold that this show took.", valueName: "g"))
    var hold: Int?
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "HUD", "POP", target.key,
        options: ["REQUEST": request, "LEVEL": target.level, "GENERATION": hold])
    }
  }

  struct Tap: EntityCommand {
    static let abstract = "Report a tap on the screen."

    @OptionGroup var target: Target<HUD>
    @Flag(help: "The tap was on the HUD itself.") var inside = false
    @OptionGroup var generation: GenerationOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "HUD", "TAP", target.key,
        options: ["INSIDE": inside, "LEVEL": target.level, "GENERATION": generation.value])
    }
  }

  enum Pause: Verb {
    typealias Shown = HUD
    static let abstract = "Pause a HUD; it keeps its time left."
  }

  enum Resume: Verb {
    typealias Shown = HUD
    static let abstract = "Continue a paused HUD."
  }

  struct Why: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Explain why a HUD is as it is, what it waits for, and who holds it.")

    @OptionGroup var target: Target<HUD>
    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      let reply = try await session.send(
        .init("HUD", "WHY", target.key, options: ["LEVEL": target.level]))
      if session.json { return Output.line(reply.json) }
      let view = HUDWhy(reply)
      let state = view.state.rawValue
      Output.line(
        "\(view.key.printable)  \(session.style.state(state, state))"
          + "\(view.why.dropFirst(state.count))")
    }
  }

  struct Mask: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Try out which mask a request gets, and by which rule.",
      discussion: """
        It shows nothing. The rules are hud.blocking in the configuration.

        Example:
          countdownctl hud mask https://example.org/api/order/SubmitOrder
        """)

    @Argument(help: .init("The request.", valueName: "url")) var request: String
    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      let reply = try await session.send(.init("HUD", "MASK", request))
      if session.json { return Output.line(reply.json) }
      let rule = HUDMask(reply)
      let why = rule.rule.map { "blocked by \($0.printable)" } ?? "no rule blocks it"
      Output.line("\(rule.request.printable)  mask \(rule.mask?.rawValue ?? "none")  \(why)")
    }
  }
}
