import ArgumentParser
import CountdownClient

struct Scope: AsyncParsableCommand, Entity {
  typealias View = ScopeView

  static let configuration = CommandConfiguration(
    abstract: "Manage scopes: what a scope owns ends with it.",
    discussion: """
      When a scope closes, the daemon cancels what it owns and closes the scopes below it. An \
      event travels from the top down to its scope and back up, until a client handles it.

      Examples:
        countdownctl scope open app --ttl 30s
        countdownctl scope open register --parent app
        countdownctl scope handle register tap
        countdownctl scope emit register tap --payload 'send code'
        countdownctl scope tree app
        countdownctl scope close app
      """,
    subcommands: commands + [Tree.self, Handle.self, Emit.self])

  static let kind = CountdownEvent.Kind.scope
  static let noun = "scope"
  static var argument: ArgumentHelp { .init("The scope.", valueName: "scope") }

  static var columns: [ListColumn<ScopeView>] {
    [
      .init("PARENT") { $0.parent ?? "" },
      .init("DEPTH", alignRight: true) { String($0.depth) },
      .init("BELOW", alignRight: true) { String($0.children) },
      .init("OWNS", alignRight: true) { String($0.owned) },
      .init("HANDLERS", alignRight: true) { String($0.handlers) },
      .init("LEASE", alignRight: true) { $0.timeLeft?.humanText ?? "" },
      .owner,
    ]
  }

  static func line(_ view: ScopeView, style: Style) -> String {
    line(
      view,
      [
        view.parent.map { "below \($0.printable)" },
        view.children > 0 ? "\(view.children) below it" : nil,
        view.owned > 0 ? "owns \(view.owned)" : nil, lease(view),
      ], style: style)
  }

  static func details(_ event: CountdownEvent) -> [String?] {
    if let emission = event.emission {
      return [emission.name, emission.target, emission.phase, emission.payload?.textOrBase64]
    }
    guard let view = event.scope else { return [] }
    return [view.state.rawValue, view.parent.map { "below \($0)" }, lease(view)]
  }

  private static func lease(_ view: ScopeView) -> String? {
    view.timeLeft.map { "lease of \($0.humanText) left" }
  }

  // MARK: Subcommands

  struct Tree: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Show a scope and all scopes below it.",
      discussion: "With --json, a line for each, parents first.")

    @Argument(help: Scope.argument, completion: Scope.keys) var key: String
    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      var top: Int?
      try await session.eachPage("SCOPE", "TREE", key) { page in
        Output.lines(
          try page.map { reply in
            guard !session.json else { return reply.json }
            let view = try ScopeView(reply)
            top = top ?? view.depth
            // A deep tree must not run off the screen.
            let indent = String(repeating: "  ", count: min(view.depth - (top ?? 1), 40))
            return indent + Scope.line(view, style: session.style)
          })
        return true
      }
    }
  }

  struct Handle: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Handle the events at a scope, a line for each, until Ctrl-C.")

    @Argument(help: Scope.argument, completion: Scope.keys) var key: String
    @Argument(help: "The event's name; * for all.") var event = "*"
    @Flag(help: "Handle events on their way down to the scopes below.") var capture = false
    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      for try await event in session.client.handle(event, at: key, captures: capture) {
        Output.line(
          session.json ? event.json.escapedForJSON : EventLine.text(event, style: session.style))
      }
    }
  }

  struct Emit: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Send an event to a scope, and show which scope handled it.",
      discussion: "Exit status 1 if none did.")

    @Argument(help: Scope.argument, completion: Scope.keys) var key: String
    @Argument(help: "The event's name.") var event: String
    @Option(help: "A text for the event.") var payload: String?
    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      let reply = try await session.reply(
        ["SCOPE", "EMIT", key, event] + (payload.map { [$0] } ?? []))
      try session.show(reply, absent: "no client handles it") {
        "handled at \(($0.textOrBase64 ?? "").printable)"
      }
    }
  }
}

/// The owner of a new entity.
struct OwnerOption: ParsableArguments {
  @Option(
    name: .customLong("owner"),
    help: .init("The scope whose end cancels it, scope:ID (default: none).", valueName: "owner"))
  var value: String?

  func validate() throws {
    guard value?.lowercased() == "connection" else { return }
    throw ValidationError(
      "--owner is scope:ID or none; the connection of this command ends at once")
  }
}
