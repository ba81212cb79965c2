import ArgumentParser
import CountdownClient

struct Scope: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "scope",
    abstract: "Manages scopes: owners in a tree, and the events that travel in it.",
    discussion: """
      What a scope owns is cancelled when it closes, and so is all below it. An event goes down \
      from the top to the scope it is for, and up again, until somebody takes it.

      Examples:
        countdownctl scope open app --ttl 30s
        countdownctl scope open register --parent app
        countdownctl scope handle register tap
        countdownctl scope emit register tap --payload 'send code'
        countdownctl scope tree app
        countdownctl scope close app
      """,
    subcommands: [
      Open.self, Close.self, Touch.self, Get.self, Tree.self, Handle.self, Emit.self, List.self,
    ])

  struct Open: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Opens a scope, or renews the lease of one that is there.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The scope.") var scope: String
    @Option(help: "The scope that it closes with, and that events go on to.") var parent: String?
    @OptionGroup var owner: OwnerOption
    @Option(
      help: "It closes unless it is touched within this time.",
      transform: DurationArgument.init(parsing:)) var ttl: DurationArgument?

    func run(_ session: Session) async throws {
      try session.scope(
        try await session.send(
          ["SCOPE", "OPEN", scope],
          [("PARENT", parent), ("TTL", ttl?.text)] + owner.words))
    }
  }

  struct Close: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Closes a scope and all below it.", discussion: "Exit status 1 when there was none."
    )

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The scope.") var scope: String

    func run(_ session: Session) async throws {
      let done = try await session.send(["SCOPE", "CLOSE", scope], generation.words)
      let name = scope.printable
      try session.show(done: done, yes: "\(name)  closed", no: "there is no scope '\(name)'")
    }
  }

  struct Touch: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Renews the lease of a scope.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var generation: GenerationOption
    @Argument(help: "The scope.") var scope: String
    @Option(help: "For this long, from now on.", transform: DurationArgument.init(parsing:))
    var ttl: DurationArgument?

    func run(_ session: Session) async throws {
      try session.scope(
        try await session.send(
          ["SCOPE", "TOUCH", scope], [("TTL", ttl?.text)] + generation.words))
    }
  }

  struct Get: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a scope.", discussion: "Exit status 1 when there is none.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The scope.") var scope: String

    func run(_ session: Session) async throws {
      let view = try await session.send(["SCOPE", "GET", scope])
      try session.show(view, absent: "there is no scope '\(scope)'") {
        ViewText.table($0, style: Output.style)
      }
    }
  }

  struct Tree: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a scope and all below it.",
      discussion: "With --json, a line for each, parents first.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The scope.") var scope: String

    func run(_ session: Session) async throws {
      var cursor = "0"
      var top: Int?
      repeat {
        let page = try await session.send(
          ["SCOPE", "TREE", scope],
          [("CURSOR", cursor == "0" ? nil : cursor), ("LIMIT", "1000")])
        guard case .array(let parts) = page, parts.count == 2, case .array(let views) = parts[1],
          let next = parts[0].string
        else { throw CountdownClientError.protocolViolation("a page of another shape") }
        cursor = next
        Output.lines(
          try views.map { fields in
            guard !session.json else { return fields.text }
            let view = try ScopeView(fields)
            top = top ?? view.depth
            // A deep tree must not run off the screen.
            let indent = String(repeating: "  ", count: min(view.depth - (top ?? 1), 40))
            return indent + ViewText.line(view, style: Output.style)
          })
      } while cursor != "0"
    }
  }

  struct Handle: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Takes the events at a scope, each as a line, until Ctrl-C.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The scope.") var scope: String
    @Argument(help: "The event's name; all unless given.") var event = "*"
    @Flag(help: "Takes it on its way down to the scopes below.") var capture = false

    func run(_ session: Session) async throws {
      for try await event in session.client.handle(event, at: scope, captures: capture) {
        if session.json {
          Output.line(event.fields.text)
        } else {
          let now = WallClock.nowUnixMilliseconds
          Output.line(
            EventLine.text(
              event, time: WallClock.text(unixMilliseconds: now, format: "%H:%M:%S")))
        }
      }
    }
  }

  struct Emit: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Sends an event to a scope, and says which one took it.",
      discussion: "Exit status 1 when nobody did.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The scope that it is for.") var scope: String
    @Argument(help: "The event's name.") var event: String
    @Option(help: "What goes with it.") var payload: String?

    func run(_ session: Session) async throws {
      let taker = try await session.send(
        ["SCOPE", "EMIT", scope, event] + (payload.map { [$0] } ?? []))
      try session.show(taker, absent: "nobody took it") {
        "taken by \(($0.string ?? "").printable)"
      }
    }
  }

  struct List: SessionCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the scopes.")

    @OptionGroup var global: GlobalOptions
    @OptionGroup var options: ListOptions
    @OptionGroup var owner: OwnerFilter

    func run(_ session: Session) async throws {
      try await session.list("SCOPE", options, of: owner, columns: Self.columns) { view in
        let view = try ScopeView(view)
        return [
          view.key, view.state.rawValue, view.parent ?? "", String(view.depth),
          String(view.children), String(view.owned), String(view.handlers),
          view.remainingTime?.humanText ?? "", String(view.generation), view.owner ?? "",
        ]
      }
    }

    private static let columns = Columns([
      .init(title: "KEY"), .init(title: "STATE"), .init(title: "PARENT"),
      .init(title: "DEPTH", alignRight: true), .init(title: "BELOW", alignRight: true),
      .init(title: "OWNS", alignRight: true), .init(title: "HANDLERS", alignRight: true),
      .init(title: "LEASE", alignRight: true), .init(title: "GENERATION", alignRight: true),
      .init(title: "OWNER"),
    ])
  }
}

/// What something new is to end with.
struct OwnerOption: ParsableArguments {
  @Option(
    help: .init("What it ends with: scope:ID; nothing unless given.", valueName: "owner"))
  var owner: String?

  func validate() throws {
    guard owner?.lowercased() == "connection" else { return }
    throw ValidationError(
      "--owner is scope:ID; what belongs to this command's connection would end with it at once "
        + "(none: nothing given)")
  }

  var words: [(String, String?)] { [("OWNER", owner)] }
}

extension Session {
  fileprivate func scope(_ view: JSONValue) throws {
    Output.line(json ? view.text : ViewText.line(try ScopeView(view), style: Output.style))
  }
}
