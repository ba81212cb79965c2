import CountdownClient

extension TopFigures {
  /// Returns the figures as lines, within the columns and rows.
  func lines(columns: Int, rows: Int, style: Style) -> [String] {
    var result = [
      ScreenText.ends(
        "countdownd \(version), up \(uptime.humanText)", ScreenText.clock, columns: columns,
        left: style.bold, right: style.dim)
    ]
    result += summary(columns)
    let tables = [userTable, commandTable, slowTable]
    // Each table has a blank line and its titles. The tables share the other rows; longer tables
    // get the rows that shorter ones do not need.
    var free = max(rows - result.count - 2 * tables.count, 0)
    var shares = [Int](repeating: 0, count: tables.count)
    let shortestFirst = tables.indices.sorted { tables[$0].count < tables[$1].count }
    for (done, index) in shortestFirst.enumerated() {
      shares[index] = min(tables[index].count, free / (tables.count - done))
      free -= shares[index]
    }
    for (table, share) in zip(tables, shares) {
      result += [""] + table.lines(columns: columns, rows: share, style: style)
    }
    return result
  }

  /// Returns lines of names and values, as many to a line as fit.
  private func summary(_ columns: Int) -> [String] {
    let (width, gap) = (18, 2)
    // Rows of the same length look best: 4 of 3, 3 of 4, 2 of 6.
    let fitting = max(1, (columns + gap) / (width + gap))
    let perRow = [12, 6, 4, 3, 2].first { $0 <= fitting } ?? 1
    return stride(from: 0, to: facts.count, by: perRow).map { start in
      let cells = facts[start..<min(start + perRow, facts.count)].map { fact in
        fact.title
          + DisplayWidth.fit(fact.text, width - DisplayWidth.of(fact.title), alignRight: true)
      }
      return DisplayWidth.truncate(
        cells.joined(separator: String(repeating: " ", count: gap)), columns)
    }
  }

  private var userTable: TopTable {
    TopTable(
      [
        .init("USER"), .init("COMMANDS", 11), .init("BUSY", 7), .init("ENTITIES", 10),
        .init("CONNECTIONS", 11), .init("UNREAD", 11),
      ],
      users.map { user in
        [
          user.name.printable, Self.rate(user.commandsPerSecond), Self.percent(user.busy),
          grouped(user.entities), grouped(user.connections), grouped(user.unreadBytes),
        ]
      })
  }

  private var commandTable: TopTable {
    TopTable(
      [
        .init("COMMAND"), .init("CALLS", 11), .init("BUSY", 7), .init("PER CALL", 10),
        .init("FAILED", 11), .init("CALLS IN ALL", 13),
      ],
      commands.map { command in
        [
          command.name.printable, Self.rate(command.callsPerSecond), Self.percent(command.busy),
          Self.time(command.microsecondsPerCall), Self.rate(command.failedPerSecond),
          grouped(command.calls),
        ]
      })
  }

  private var slowTable: TopTable {
    let none = slow == nil ? "Only an admin may read the slow log." : "No slow commands."
    return TopTable(
      [.init("SLOWEST"), .init("TOOK", 11), .init("AT", 8), .init("CLIENT", 13)],
      (slow ?? []).map { slow in
        [
          slow.words.joined(separator: " ").printable, Self.time(Double(slow.microseconds)),
          WallClock.timeOfDay(unixMilliseconds: slow.unixSeconds * 1_000), slow.client.printable,
        ]
      }, none: none)
  }

  static func rate(_ value: Double?) -> String {
    guard let value else { return "–" }
    if value >= 1_000_000 { return fixed(value / 1_000_000, 1) + " M/s" }
    return (value > 0 && value < 10 ? fixed(value, 1) : grouped(Int(value.rounded()))) + "/s"
  }

  static func percent(_ fraction: Double?) -> String {
    fraction.map { fixed($0 * 100, 1) + " %" } ?? "–"
  }

  /// Returns a time, given in microseconds, in a suitable unit.
  static func time(_ microseconds: Double) -> String {
    if microseconds < 10 { return fixed(microseconds, 1) + " µs" }
    if microseconds < 1_000 { return fixed(microseconds, 0) + " µs" }
    if microseconds < 1_000_000 { return fixed(microseconds / 1_000, 1) + " ms" }
    return Duration.microseconds(Int64(microseconds)).humanText
  }
}

/// A table whose first column is as wide as its texts and the other columns allow. On a narrow
/// terminal, the last columns are left out.
struct TopTable {
  struct Column {
    let title: String
    let width: Int

    init(_ title: String, _ width: Int = 0) { (self.title, self.width) = (title, width) }
  }

  private static let leastFirst = 16

  private let columns: [Column]
  private let rows: [[String]]
  private let none: String

  init(_ columns: [Column], _ rows: [[String]], none: String = "") {
    (self.columns, self.rows, self.none) = (columns, rows, none)
  }

  /// The number of rows; 1 for the note in place of rows.
  var count: Int { max(rows.count, 1) }

  /// Returns the titles and at most `most` rows.
  func lines(columns width: Int, rows maximum: Int, style: Style) -> [String] {
    var shown = columns[...]
    func others() -> Int { shown.dropFirst().reduce(0) { $0 + $1.width + 2 } }
    while shown.count > 1, width - others() < Self.leastFirst { shown.removeLast() }
    let widest = rows.reduce(0) { max($0, DisplayWidth.of($1[0])) }
    let first = min(width - others(), max(widest, Self.leastFirst * 2))
    func line(_ cells: [String]) -> String {
      let rest = zip(shown, cells).dropFirst().map { column, cell in
        DisplayWidth.fit(cell, column.width, alignRight: true)
      }
      return ([DisplayWidth.fit(cells[0], first)] + rest).joined(separator: "  ")
    }
    let body = rows.isEmpty ? [style.dim(DisplayWidth.truncate(none, width))] : rows.map(line)
    return [style.reverse(DisplayWidth.fit(line(columns.map(\.title)), width))]
      + body.prefix(maximum)
  }
}
