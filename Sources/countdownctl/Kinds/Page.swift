import ArgumentParser
import CountdownClient

struct Page: AsyncParsableCommand, Entity {
  typealias View = PageView

  static let configuration = CommandConfiguration(
    commandName: "page",
    abstract: "Load pages with a HUD, an error page with a retry, and silent refreshes.",
    discussion: """
      Examples:
        countdownctl page appear orders --timeout 10s --screen main --grace 200ms
        countdownctl page loaded orders --items 12
        countdownctl page failed orders --message offline
        countdownctl page retry orders
        countdownctl page refresh orders
      """,
    subcommands: [
      Appear.self, Disappear.self, Loaded.self, Failed.self, VerbCommand<Retry>.self,
      VerbCommand<Refresh>.self, VerbCommand<Close>.self, GetCommand<Page>.self,
      ListCommand<Page>.self,
    ])

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

  static func details(_ event: CountdownEvent) -> [String] {
    [
      event.state, event.fields["items"]?.int.map { "\($0) items" },
      event.fields["message"]?.string,
    ].compactMap(\.self)
  }

  // MARK: Subcommands

  struct Appear: EntityCommand {
    static let abstract = "Report that a page is on the screen: it loads or refreshes."

    @OptionGroup var target: Target<Page>
    @OptionGroup var load: LoadOptions
    @OptionGroup var owner: OwnerOption
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "PAGE", "APPEAR", target.key,
        options: [
          "REFRESH": load.refresh, "TIMEOUT": load.timeout, "SCREEN": load.screen,
          "GRACE": load.grace, "MIN": load.min, "OWNER": owner.value,
        ])
    }
  }

  struct Disappear: EntityCommand {
    static let abstract = "Report that a page has left the screen."

    @OptionGroup var target: Target<Page>
    @OptionGroup var global: GlobalOptions

    var command: Command { .init("PAGE", "DISAPPEAR", target.key, options: [:]) }
  }

  struct Loaded: EntityCommand {
    static let abstract = "Report that a load is complete."
    static let discussion = "Exit status 1 if nothing was loading."

    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Page>
    @Option(
      help: "The number of items; 0 shows the no-data view.", transform: integer(0...Int.max))
    var items: Int?
    @Option(help: "A text to show with it.") var message: String?
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "PAGE", "LOADED", target.key,
        options: ["ITEMS": items, "MESSAGE": message, "GENERATION": generation.value])
    }
  }

  struct Failed: EntityCommand {
    static let abstract = "Report that a load has failed."
    static let discussion = "Exit status 1 if nothing was loading."

    @OptionGroup var generation: GenerationOption
    @OptionGroup var target: Target<Page>
    @Option(help: "Why it failed.") var message: String?
    @OptionGroup var global: GlobalOptions

    var command: Command {
      .init(
        "PAGE", "FAILED", target.key, options: ["MESSAGE": message, "GENERATION": generation.value])
    }
  }

  enum Retry: Verb {
    typealias Shown = Page
    static let abstract = "Load a page again that has failed or is empty."
    static let discussion = "Exit status 1 if it is neither."
  }

  enum Refresh: Verb {
    typealias Shown = Page
    static let abstract = "Load a page again and keep what it shows until then."
    static let discussion = "Exit status 1 if it is loading."
  }

  enum Close: Verb {
    typealias Shown = Page
    static let abstract = "Remove a page."
    static let discussion = "Exit status 1 if there is none."
    static let done: String? = "closed"
  }
}

/// The options for loading a page.
struct LoadOptions: ParsableArguments {
  @Option(
    oneOf: ["always", "never", "every"],
    help: "Load when it appears again: always (default), never, or every time, even if it failed."
  ) var refresh: String?
  @Option(duration: "How long a load may take until it fails; 0: no limit.") var timeout: Duration?
  @Option(help: "The screen of the HUD (default: the page's name).") var screen: String?
  @Option(duration: "Show the HUD only if the load takes longer than this.") var grace: Duration?
  @Option(duration: "Once shown, show the HUD for at least this long.") var min: Duration?
}
