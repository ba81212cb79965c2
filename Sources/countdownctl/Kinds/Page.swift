import ArgumentParser
import CountdownClient

struct Page: AsyncParsableCommand, Entity {
  typealias View = PageView

  static let configuration = CommandConfiguration(
    abstract: "Load pages with a HUD, an error page with a retry, and silent refreshes.",
    discussion: """
      Examples:
        countdownctl page appear orders --timeout 10s --screen main --grace 200ms
        countdownctl page loaded orders --items 12
        countdownctl page failed orders --message offline
        countdownctl page retry orders
        countdownctl page refresh orders
      """,
    subcommands: commands)

  static let kind = CountdownEvent.Kind.page
  static let noun = "page"
  static var argument: ArgumentHelp { .init("The page.", valueName: "page") }
  static let absence = "it has not appeared"

  static var columns: [ListColumn<PageView>] {
    [
      .init("ITEMS", alignRight: true) { $0.items.map { String($0) } ?? "" },
      .init("VISIBLE") { $0.isVisible ? "yes" : "no" },
      .init("FAILS IN", alignRight: true) { $0.timeLeft?.humanText ?? "" },
      .owner, .init("MESSAGE") { $0.message ?? "" },
    ]
  }

  static func line(_ view: PageView, style: Style) -> String {
    line(
      view, refusal: view.reason?.rawValue,
      [
        view.items.map { "\($0) items" }, view.message?.printable,
        view.isVisible ? nil : "not on the screen",
        view.timeLeft.map { "fails in \($0.humanText)" },
      ], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String?] {
    [
      event.state, event.fields["items"]?.int.map { "\($0) items" },
      event.fields["message"]?.string,
    ]
  }
}
