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
    subcommands: [
      Push.self, Present.self, Set.self, Pop.self, VerbCommand<Root>.self,
      VerbCommand<Dismiss>.self,
      Swipe.self, Progress.self, VerbCommand<Finish>.self, VerbCommand<Cancel>.self,
      GetCommand<Navigation>.self, ListCommand<Navigation>.self,
    ])

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

  static func details(_ event: CountdownEvent) -> [String] {
    let fields = event.fields
    let bar = fields["bar_changed"]?.bool == true ? fields["bar"]?.string : nil
    return [
      fields["page"]?.string, fields["first"]?.bool == true ? "first" : nil,
      fields["last"]?.bool == true ? "last" : nil,
      fields["style"]?.string == "presented" ? "presented" : nil, bar.map { "bar \($0)" },
      fields["fraction"]?.number.map { "\(Int($0 * 100)) %" },
    ].compactMap(\.self)
  }

  // MARK: Subcommands

  struct Push: EntityCommand {
    static let abstract = "Push a page. The first one creates the stack."

    @OptionGroup var target: Target<Navigation>
    @Argument(help: "The page; it becomes a scope.") var page: String
    @Option(
      help: .init(
        "How far from the edge a swipe may begin (default: anywhere).", valueName: "points"))
    var edge: Double?
    @Flag(help: "Refuse to swipe it away.") var noPop = false
    @OptionGroup var placing: PlacingOptions
    @OptionGroup var owner: OwnerOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "NAV", "PUSH", target.key, page,
        options: [
          "EDGE": edge.map { "\($0)" }, "POP": noPop ? "off" : nil, "BAR": placing.bar,
          "DURATION": placing.duration.duration, "PARENT": placing.parent, "OWNER": owner.value,
          "PAGE": placing.page, "REFRESH": placing.load.refresh, "TIMEOUT": placing.load.timeout,
          "SCREEN": placing.load.screen, "GRACE": placing.load.grace, "MIN": placing.load.min,
        ])
    }
  }

  struct PlacingOptions: ParsableArguments {
    @Option(
      oneOf: ["shown", "hidden", "any"],
      help: "The navigation bar: shown, hidden, or any (default): as it is.") var bar: String?
    @OptionGroup var duration: DurationOption
    @Option(help: "The scope above (default: that of the page below).") var parent: String?
    @Flag(help: "Load it: it appears and disappears with the stack (see 'page').") var page = false
    @OptionGroup var load: LoadOptions
  }

  struct DurationOption: ParsableArguments {
    @Option(
      help: .init(
        "How long the transition takes; or 'finish': until it is finished or cancelled.",
        valueName: "duration"))
    var duration: String?
  }

  struct Present: EntityCommand {
    static let abstract = "Present a page, which cannot be swiped away."

    @OptionGroup var target: Target<Navigation>
    @Argument(help: "The page; it becomes a scope.") var page: String
    @OptionGroup var placing: PlacingOptions
    @OptionGroup var owner: OwnerOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "NAV", "PRESENT", target.key, page,
        options: [
          "BAR": placing.bar, "DURATION": placing.duration.duration, "PARENT": placing.parent,
          "OWNER": owner.value, "PAGE": placing.page, "REFRESH": placing.load.refresh,
          "TIMEOUT": placing.load.timeout, "SCREEN": placing.load.screen,
          "GRACE": placing.load.grace, "MIN": placing.load.min,
        ])
    }
  }

  struct Set: EntityCommand {
    static let abstract = "Change the options of a page."
    static let discussion = "Exit status 1 if the stack has no such page."

    @OptionGroup var target: Target<Navigation>
    @Argument(help: "The page.") var page: String
    @Option(help: .init("How far from the edge a swipe may begin.", valueName: "points"))
    var edge: Double?
    @Option(oneOf: ["on", "off"], help: "Whether it may be swiped away: on or off.") var pop:
      String?
    @Option(
      oneOf: ["shown", "hidden", "any"],
      help: "The navigation bar: shown, hidden, or any: as it is.") var bar: String?
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "NAV", "SET", target.key, page,
        options: ["EDGE": edge.map { "\($0)" }, "POP": pop, "BAR": bar])
    }
  }

  struct Pop: EntityCommand {
    static let abstract = "Pop the top page."
    static let discussion = "Exit status 1 if it is refused."

    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Navigation>
    @OptionGroup var duration: DurationOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "NAV", "POP", target.key,
        options: ["DURATION": duration.duration, "GENERATION": generation.value])
    }
  }

  enum Root: Verb {
    typealias Shown = Navigation
    static let abstract = "Pop all pages except the first."
    static let discussion = "Exit status 1 if it is refused."
  }

  enum Dismiss: Verb {
    typealias Shown = Navigation
    static let abstract = "Remove a stack with all its pages."
    static let discussion = "Exit status 1 if there is none."
    static let done: String? = "dismissed"
  }

  struct Swipe: EntityCommand {
    static let abstract = "Begin a swipe back."
    static let discussion = "Exit status 1 if the page cannot be swiped away."

    @OptionGroup var target: Target<Navigation>
    @Option(help: .init("Where it begins, in points from the edge.", valueName: "points")) var x:
      Double
    @Option(help: .init("How far it went; to the right is back.", valueName: "points")) var dx:
      Double
    @Option(duration: "Cancel it if no progress is reported for this long.") var timeout: Duration?
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init("NAV", "SWIPE", target.key, options: ["X": "\(x)", "DX": "\(dx)", "TIMEOUT": timeout])
    }
  }

  struct Progress: EntityCommand {
    static let abstract = "Report the progress of a swipe."

    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Navigation>
    @Argument(help: "The progress, from 0 to 1.") var fraction: Double
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init("NAV", "PROGRESS", target.key, "\(fraction)", options: ["GENERATION": generation.value])
    }
  }

  enum Finish: Verb {
    typealias Shown = Navigation
    static let abstract = "Finish a transition: after a swipe or pop, the top page is popped."
    static let discussion = "Exit status 1 if there is no transition."
  }

  enum Cancel: Verb {
    typealias Shown = Navigation
    static let abstract = "Cancel a transition: the stack is as it was before."
    static let discussion = "Exit status 1 if there is no transition."
  }
}
