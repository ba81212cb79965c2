import ArgumentParser
import CountdownClient
import Wire

/// A subcommand that sends one command about an entity, and shows its reply.
protocol EntityCommand: SessionCommand {
  associatedtype Shown: Entity
  static var verb: String { get }
  static var aliases: [String] { get }
  static var abstract: String { get }
  static var discussion: String { get }
  /// The word for the state after a reply of 1; nil if the reply is a view.
  static var done: String? { get }
  /// Whether `--token` makes a retry safe.
  static var hasToken: Bool { get }
  var key: String { get }
  /// The command to send.
  var command: Command { get }
}

extension EntityCommand {
  static var aliases: [String] { [] }
  static var discussion: String { "" }
  static var done: String? { nil }
  static var hasToken: Bool { false }

  static var configuration: CommandConfiguration {
    .init(commandName: verb, abstract: abstract, discussion: discussion, aliases: aliases)
  }

  func run(_ session: Session) async throws {
    let reply = try await session.send(command)
    guard let done = Self.done else {
      return try session.show(
        reply, of: Shown.self, key: key, after: Self.verb, hasToken: Self.hasToken)
    }
    try session.show(
      done: reply, yes: "\(key.printable)  \(done)", no: Shown.absent(key, after: Self.verb))
  }
}

struct TokenOption: ParsableArguments {
  @Option(
    name: .customLong("token"),
    help: "Make a retry safe: the same token again changes nothing, and the exit status is 2.")
  var value: String?
}

/// The entity that a subcommand acts on.
struct Target<Shown: Entity>: ParsableArguments {
  @Argument(help: Shown.argument, completion: Shown.keys) var key: String
  @OptionGroup var selector: Shown.Selector

  var level: String? { selector.level }
}

/// The option that limits a subcommand to one generation.
struct GenerationOption: ParsableArguments {
  @Option(
    name: .customLong("generation"),
    help: .init("Only this generation; an error if it has been replaced.", valueName: "g"))
  var value: Int?
}

/// The options that select one of several entities of a key.
protocol SelectorOptions: ParsableArguments {
  var level: String? { get }
}

struct NoSelector: SelectorOptions {
  var level: String? { nil }
}

// MARK: Get

struct GetCommand<Shown: Entity>: SessionCommand {
  static var configuration: CommandConfiguration {
    .init(
      commandName: "get", abstract: "Show one \(Shown.noun).",
      discussion: "Exit status 1 if \(Shown.absence).")
  }

  @OptionGroup var target: Target<Shown>
  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    let reply = try await session.send(
      .init(Shown.family, "GET", target.key, options: ["LEVEL": target.level]))
    try session.show(reply, absent: Shown.absent(target.key)) {
      FieldTable.text($0, style: session.style)
    }
  }
}

// MARK: Why

struct WhyCommand<Shown: Entity>: SessionCommand {
  static var configuration: CommandConfiguration {
    .init(
      commandName: "why",
      abstract: "Explain why a \(Shown.noun) is as it is, and what would be refused.",
      discussion: "It changes nothing, so ask as often as you like.")
  }

  @OptionGroup var target: Target<Shown>
  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    let reply = try await session.send(
      .init(Shown.family, "WHY", target.key, options: ["LEVEL": target.level]))
    try session.show(reply, absent: Shown.absent(target.key)) { reply in
      let (style, why) = (session.style, reply["why"]?.string ?? "")
      let head = String(why.prefix { $0 != ":" })
      let colour = reply["reason"]?.string == nil ? style.state(head, head) : style.yellow(head)
      let limits = (reply["limits"]?.elements ?? []).compactMap(\.string)
      let code = reply["code_why"]?.string
      return
        (["\(target.key.printable)  \(colour)\(why.dropFirst(head.count))"]
        + limits.map { "  limit  \($0)" } + (code.map { ["  code   \($0)"] } ?? []))
        .joined(separator: "\n")
    }
  }
}

// MARK: List

/// The options that select the entities to list.
struct ListOptions: ParsableArguments {
  @Option(help: .init("Only names that match the pattern: *, ?, [a-z].", valueName: "glob"))
  var match: String?

  @Option(help: .init("At most so many.", valueName: "n"), transform: integer(1...Int.max))
  var limit: Int?
}

/// The option that limits a list to an owner.
protocol ListFilter: ParsableArguments {
  var owner: String? { get }
}

struct OwnerFilter: ListFilter {
  @Option(
    help: .init("Only those of this owner: none, connection:ID or scope:ID.", valueName: "owner"))
  var owner: String?
}

/// The filter of kinds that never have an owner.
struct NoFilter: ListFilter {
  var owner: String? { nil }
}

struct ListCommand<Shown: Entity>: SessionCommand {
  static var configuration: CommandConfiguration {
    .init(
      commandName: "list", abstract: "List \(Shown.listed).", discussion: Shown.listExamples)
  }

  @OptionGroup var options: ListOptions
  @OptionGroup var owner: Shown.Filter
  @OptionGroup var global: GlobalOptions

  /// Prints page by page, so that the first lines appear at once.
  func run(_ session: Session) async throws {
    var table = ListTable<Shown>(session.style)
    var left = options.limit ?? .max
    // A small page of a filtered list looks at few entities, and so often finds none.
    let isFiltered = options.match != nil || owner.owner != nil
    try await session.eachPage(
      Shown.family, "LIST", options: ["MATCH": options.match, "OWNER": owner.owner],
      limit: isFiltered ? 1_000 : min(left, 1_000)
    ) { page in
      let shown = Array(page.prefix(left))
      left -= shown.count
      Output.lines(session.json ? shown.map(\.json) : try table.lines(shown))
      return left > 0
    }
    // Into a pipe, an empty list prints nothing, as grep does.
    if table.isEmpty, !session.json, Output.isTerminal {
      let match = options.match.map { " match '\($0.printable)'" } ?? ""
      Output.line("no \(Shown.plural)\(match)")
    }
    // Users who may not ask for INFO get the list as well.
    let info = try? await session.reply(["INFO", "fleet"]).string
    if let text = FleetFacts(info: info ?? "")?.omission(from: Shown.kind.rawValue) {
      Output.error(text, code: "PARTIAL")
    }
  }
}

/// A table of entities, made page by page. Columns align within a page.
struct ListTable<Shown: Entity> {
  private(set) var isEmpty = true
  private let style: Style
  private let columns: [ListColumn<Shown.View>]

  init(_ style: Style) {
    self.style = style
    columns =
      [
        ListColumn(Shown.keyTitle) { $0.key },
        ListColumn("STATE") { $0.state.rawValue },
      ] + Shown.columns + (style.showsGenerations ? [.generation] : [])
  }

  /// Returns the lines of the next page; the first has titles.
  mutating func lines(_ page: [RESPValue]) throws -> [String] {
    guard !page.isEmpty else { return [] }
    let rows = try page.map { reply in
      let view = try Shown.View(reply)
      return columns.map { $0.value(view) }
    }
    defer { isEmpty = false }
    return Columns(columns.map(\.column)).lines(
      rows, withTitles: isEmpty, style: style, width: Output.width
    ) { row, column, cell in
      column == 1 ? style.state(cell, rows[row][1]) : cell
    }
  }
}
