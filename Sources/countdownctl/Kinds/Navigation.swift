import ArgumentParser
import CountdownClient

struct Navigation: AsyncParsableCommand, Entity {
  typealias View = StackView
  typealias Filter = NoFilter

  static let configuration = CommandConfiguration(
    commandName: "nav",
    abstract: "Manage navigation stacks with a swipe back that can be cancelled.",
    discussion: """
      Each page is a scope: when it leaves the stack, the daemon cancels what it owns.

      Examples:
        countdownctl nav push main home
        countdownctl nav push main register --edge 20 --bar hidden --duration 350ms
        countdownctl nav push main orders --page --timeout 10s
        countdownctl nav swipe main --x 5 --dx 12 && countdownctl nav finish main
        countdownctl nav dismiss main
      """,
    subcommands: commands)

  static let kind = CountdownEvent.Kind.nav
  static let noun = "navigation stack"
  static var argument: ArgumentHelp { .init("The stack.", valueName: "stack") }

  static var columns: [ListColumn<StackView>] {
    [
      .init("PAGE") { $0.page ?? "" },
      .init("PAGES", alignRight: true) { String($0.pages.count) },
      .init("BAR") { $0.bar?.rawValue ?? "" },
    ]
  }

  static func line(_ view: StackView, style: Style) -> String {
    let pages = view.pages.map(\.printable).joined(separator: " › ")
    return line(
      view, refusal: view.reason?.rawValue,
      [
        pages.isEmpty ? nil : pages, view.transition?.rawValue,
        view.fraction.map { "\(Int($0 * 100)) %" },
      ], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String?] {
    let fields = event.fields
    let bar = fields["bar_changed"]?.bool == true ? fields["bar"]?.string : nil
    return [
      fields["page"]?.string, fields["first"]?.bool == true ? "first" : nil,
      fields["last"]?.bool == true ? "last" : nil,
      fields["style"]?.string == "presented" ? "presented" : nil, bar.map { "bar \($0)" },
      fields["fraction"]?.number.map { "\(Int($0 * 100)) %" },
    ]
  }
}
