import ArgumentParser
import CountdownClient

struct Page: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "page",
    abstract: "Manages what pages have to show: first loads, error pages, silent refreshes.",
    discussion: """
      Examples:
        countdownctl page appear orders --timeout 10s --screen main --grace 200ms
        countdownctl page loaded orders --items 12
        countdownctl page failed orders --message offline
        countdownctl page retry orders
      """,
    subcommands: [
      Appear.self, Disappear.self, Loaded.self, Failed.self, Retry.self, Close.self, Get.self,
      List.self,
    ])

  struct Appear: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "A page is on the screen: it loads, or refreshes.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The page.") var page: String
    @Option(
      help: "always or never: whether a return refreshes.",
      completion: .list(["always", "never"]))
    var refresh: String?
    @Option(
      help: "A load that takes longer has failed; 0: never.",
      transform: DurationArgument.init(parsing:)) var timeout: DurationArgument?
    @Option(help: "Where the HUD is shown; the page's name unless given.") var screen: String?
    @Option(
      help: "How long it may load without the HUD.", transform: DurationArgument.init(parsing:))
    var grace: DurationArgument?
    @Option(help: "How long the HUD stays at least.", transform: DurationArgument.init(parsing:))
    var min: DurationArgument?
    @OptionGroup var owner: OwnerOption

    func run(_ session: Session) async throws {
      try await session.page(
        ["APPEAR", page],
        [
          ("REFRESH", refresh), ("TIMEOUT", timeout?.text), ("SCREEN", screen),
          ("GRACE", grace?.text), ("MIN", min?.text),
        ] + owner.words)
    }
  }

  struct Disappear: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "A page is not on the screen any more.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The page.") var page: String

    func run(_ session: Session) async throws { try await session.page(["DISAPPEAR", page], []) }
  }

  struct Loaded: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "What the page asked for has come.",
      discussion: "Exit status 1 when nothing was loading.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The page.") var page: String
    @Option(help: "How many; 0 is the no-data view.", transform: integer(0...Int.max)) var items:
      Int?

    func run(_ session: Session) async throws {
      try await session.page(
        ["LOADED", page], [("ITEMS", items.map { String($0) })] + generation.words)
    }
  }

  struct Failed: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "What the page asked for does not come.",
      discussion: "Exit status 1 when nothing was loading.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The page.") var page: String
    @Option(help: "Why.") var message: String?

    func run(_ session: Session) async throws {
      try await session.page(["FAILED", page], [("MESSAGE", message)] + generation.words)
    }
  }

  struct Retry: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Loads again what has failed.", discussion: "Exit status 1 when it has not.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The page.") var page: String

    func run(_ session: Session) async throws {
      try await session.page(["RETRY", page], generation.words)
    }
  }

  struct Close: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Forgets a page.", discussion: "Exit status 1 when there was none.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The page.") var page: String

    func run(_ session: Session) async throws {
      let done = try await session.send(["PAGE", "CLOSE", page], generation.words)
      let name = page.printable
      try session.show(done: done, yes: "\(name)  closed", no: "there is no page '\(name)'")
    }
  }

  struct Get: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a page.", discussion: "Exit status 1 when it never appeared.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The page.") var page: String

    func run(_ session: Session) async throws {
      let view = try await session.send(["PAGE", "GET", page])
      try session.show(view, absent: "there is no page '\(page)'") {
        ViewText.table($0, style: Output.style)
      }
    }
  }

  struct List: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the pages.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var options: ListOptions
    @OptionGroup var owner: OwnerFilter

    func run(_ session: Session) async throws {
      try await session.list("PAGE", options, of: owner, columns: Self.columns) { view in
        let view = try PageView(view)
        return [
          view.key, view.state.rawValue, view.items.map { String($0) } ?? "",
          view.isVisible ? "yes" : "no", view.remainingTime?.humanText ?? "",
          String(view.generation), view.owner ?? "", view.message ?? "",
        ]
      }
    }

    private static let columns = Columns([
      .init(title: "KEY"), .init(title: "STATE"), .init(title: "ITEMS", alignRight: true),
      .init(title: "VISIBLE"), .init(title: "FAILS IN", alignRight: true),
      .init(title: "GENERATION", alignRight: true), .init(title: "OWNER"),
      .init(title: "MESSAGE"),
    ])
  }
}

extension Session {
  fileprivate func page(_ words: [String], _ options: [(String, String?)]) async throws {
    let reply = try await send(["PAGE"] + words, options)
    let view = try PageView(reply)
    Output.line(json ? reply.text : ViewText.line(view, style: Output.style))
    if view.accepted == false { throw ExitCode.refused }
  }
}
