import ArgumentParser
import CountdownClient

/// What to list.
struct ListOptions: ParsableArguments {
  @Option(help: .init("Only keys that match: *, ?, [a-z].", valueName: "glob")) var match: String?

  @Option(help: .init("Stop after so many.", valueName: "n"), transform: integer(1...Int.max))
  var limit: Int?
}

/// Whose are listed, of what can belong to somebody.
struct OwnerFilter: ParsableArguments {
  @Option(help: .init("Only of this owner: none, connection:ID or scope:ID.", valueName: "owner"))
  var owner: String?
}

struct List: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Lists the countdowns.",
    discussion: """
      Whatever else there is has a list of its own: countdownctl hud list, timer list, throttle \
      list, once list, gate list, debounce list, scope list, nav list, page list.

      Examples:
        countdownctl list --match '+45*'
        countdownctl list --json | jq -r 'select(.state=="counting") | .key'
      """)

  @OptionGroup var global: GlobalOptions
  @OptionGroup var options: ListOptions
  @OptionGroup var owner: OwnerFilter

  func run(_ session: Session) async throws {
    try await session.list("COUNTDOWN", options, of: owner, columns: Self.columns) { view in
      let view = try CountdownView(view)
      return [
        view.key, view.state.rawValue,
        view.remainingTime == .zero ? "" : view.remainingTime.humanText,
        "\(view.remaining)/\(view.count)", String(view.sends), String(view.generation),
        view.owner ?? "", view.title ?? "",
      ]
    }
  }

  private static let columns = Columns([
    .init(title: "KEY"), .init(title: "STATE"), .init(title: "LEFT", alignRight: true),
    .init(title: "STEPS", alignRight: true), .init(title: "SENDS", alignRight: true),
    .init(title: "GENERATION", alignRight: true), .init(title: "OWNER"), .init(title: "TITLE"),
  ])
}

extension Session {
  /// Lists a family page by page, so that the first lines come at once however many there are.
  /// Columns line up within a page; `row` gives the state as its second cell.
  func list(
    _ family: String, _ options: ListOptions, of owner: OwnerFilter? = nil, columns: Columns,
    row: (JSONValue) throws -> [String]
  ) async throws {
    let style = Output.style
    var cursor = "0"
    var left = options.limit ?? .max
    var isFirst = true
    repeat {
      let page = try await send(
        [family, "LIST"],
        [
          ("MATCH", options.match), ("OWNER", owner?.owner),
          ("CURSOR", cursor == "0" ? nil : cursor), ("LIMIT", "1000"),
        ])
      guard case .array(let parts) = page, parts.count == 2, case .array(let all) = parts[1] else {
        throw CountdownClientError.protocolViolation("a page of another shape")
      }
      cursor = parts[0].string ?? parts[0].int.map { String($0) } ?? "0"
      let views = all.prefix(left)
      left -= views.count
      if json {
        Output.lines(views.map(\.text))
      } else if !views.isEmpty {
        let rows = try views.map(row)
        Output.lines(
          columns.lines(rows, withTitles: isFirst, style: style) { row, column, cell in
            column == 1 ? style.state(cell, rows[row][1]) : cell
          })
        isFirst = false
      }
    } while cursor != "0" && left > 0
  }
}
