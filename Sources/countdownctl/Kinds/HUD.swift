import ArgumentParser
import CountdownClient

struct HUD: AsyncParsableCommand, Entity {
  typealias View = HUDView

  static let configuration = CommandConfiguration(
    abstract: "Show progress HUDs that do not flicker: with a delay and a minimum time.",
    discussion: """
      Examples:
        countdownctl hud show main --status Loading --grace 200ms --min 500ms
        countdownctl hud progress main 0.4
        countdownctl hud dismiss main
        countdownctl hud why main
      """,
    subcommands: commands + [Mask.self])

  /// The option that selects a HUD of a screen.
  struct Selector: SelectorOptions {
    @Option(
      help: "normal, statusbar or alert (default: the topmost one).",
      completion: .list(HUDView.Level.allCases.map(\.rawValue))) var level: String?
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

  static func details(_ event: CountdownEvent) -> [String?] {
    guard let view = event.hud else { return [] }
    return [
      view.state.rawValue, view.kind?.rawValue, view.fraction.map { "\(Int($0 * 100)) %" },
      view.status, view.holds.count > 1 ? "\(view.holds.count) holds" : nil,
      view.end.map { "end: \($0.rawValue)" },
    ]
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
