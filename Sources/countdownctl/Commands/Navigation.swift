import ArgumentParser
import CountdownClient

struct Navigation: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "nav",
    abstract: "Manages navigation stacks with a swipe back that can be cancelled.",
    discussion: """
      Each page is a scope: what it owns is cancelled when it is gone.

      Examples:
        countdownctl nav push main home
        countdownctl nav push main register --edge 20 --bar hidden
        countdownctl nav swipe main --x 5 --dx 12 && countdownctl nav finish main
        countdownctl nav dismiss main
      """,
    subcommands: [
      Push.self, Pop.self, Root.self, Dismiss.self, Swipe.self, Progress.self, Finish.self,
      Cancel.self, Get.self, List.self,
    ])

  struct Push: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Pushes a page; the first one makes the stack.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The stack.") var stack: String
    @Argument(help: "The page, which becomes a scope.") var page: String
    @Option(
      help: .init(
        "How far from the edge a swipe may begin; anywhere unless given.",
        valueName: "points"))
    var edge: Double?
    @Flag(help: "It cannot be swiped away.") var noPop = false
    @Option(help: "shown or hidden.", completion: .list(["shown", "hidden"])) var bar: String?
    @Option(help: "The scope above; as that of the page below unless given.") var parent: String?
    @OptionGroup var owner: OwnerOption

    func run(_ session: Session) async throws {
      try await session.navigation(
        ["PUSH", stack, page],
        [
          ("EDGE", edge.map { "\($0)" }), ("POP", noPop ? "off" : nil), ("BAR", bar),
          ("PARENT", parent),
        ] + owner.words)
    }
  }

  struct Pop: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Pops the page on top.", discussion: "Exit status 1 when it is refused.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The stack.") var stack: String

    func run(_ session: Session) async throws {
      try await session.navigation(["POP", stack], generation.words)
    }
  }

  struct Root: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Pops all pages but the first.", discussion: "Exit status 1 when it is refused.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The stack.") var stack: String

    func run(_ session: Session) async throws {
      try await session.navigation(["ROOT", stack], generation.words)
    }
  }

  struct Dismiss: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Takes a whole stack down.", discussion: "Exit status 1 when there was none.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The stack.") var stack: String

    func run(_ session: Session) async throws {
      let done = try await session.send(["NAV", "DISMISS", stack], generation.words)
      let name = stack.printable
      try session.show(done: done, yes: "\(name)  dismissed", no: "there is no stack '\(name)'")
    }
  }

  struct Swipe: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Begins a swipe back, if it may.", discussion: "Exit status 1 when it may not.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The stack.") var stack: String
    @Option(help: .init("Where, in points from the edge.", valueName: "points")) var x: Double
    @Option(help: .init("How far; to the right is back.", valueName: "points")) var dx: Double
    @Option(
      help: "Cancelled unless something is heard of it for so long.",
      transform: DurationArgument.init(parsing:))
    var timeout: DurationArgument?

    func run(_ session: Session) async throws {
      try await session.navigation(
        ["SWIPE", stack, "X", "\(x)", "DX", "\(dx)"], [("TIMEOUT", timeout?.text)])
    }
  }

  struct Progress: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Tells how far a swipe is.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The stack.") var stack: String
    @Argument(help: "From 0 to 1.") var fraction: Double

    func run(_ session: Session) async throws {
      try await session.navigation(["PROGRESS", stack, "\(fraction)"], generation.words)
    }
  }

  struct Finish: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "The swipe went through: the page on top is gone.",
      discussion: "Exit status 1 when there is no swipe.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The stack.") var stack: String

    func run(_ session: Session) async throws {
      try await session.navigation(["FINISH", stack], generation.words)
    }
  }

  struct Cancel: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "The swipe is taken back: the page on top stays.",
      discussion: "Exit status 1 when there is no swipe.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The stack.") var stack: String

    func run(_ session: Session) async throws {
      try await session.navigation(["CANCEL", stack], generation.words)
    }
  }

  struct Get: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a stack.", discussion: "Exit status 1 when there is none.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The stack.") var stack: String

    func run(_ session: Session) async throws {
      let view = try await session.send(["NAV", "GET", stack])
      try session.show(view, absent: "there is no stack '\(stack)'") {
        ViewText.table($0, style: Output.style)
      }
    }
  }

  struct List: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the stacks.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var options: ListOptions

    func run(_ session: Session) async throws {
      try await session.list("NAV", options, columns: Self.columns) { view in
        let view = try NavigationView(view)
        return [
          view.key, view.state.rawValue, view.page ?? "", String(view.pages.count),
          view.bar ?? "", String(view.generation),
        ]
      }
    }

    private static let columns = Columns([
      .init(title: "KEY"), .init(title: "STATE"), .init(title: "PAGE"),
      .init(title: "PAGES", alignRight: true), .init(title: "BAR"),
      .init(title: "GENERATION", alignRight: true),
    ])
  }
}

extension Session {
  fileprivate func navigation(
    _ words: [String], _ options: [(String, String?)]
  ) async throws {
    let reply = try await send(["NAV"] + words, options)
    let view = try NavigationView(reply)
    Output.line(json ? reply.text : ViewText.line(view, style: Output.style))
    if view.accepted == false { throw ExitCode.refused }
  }
}
