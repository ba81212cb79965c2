import CountdownClient
import Wire

/// Rows in columns that line up, two spaces apart.
struct Columns {
  struct Column {
    let title: String
    var alignRight = false
    /// Longer values are cut.
    var limit = 60
  }

  let columns: [Column]

  init(_ columns: [Column]) {
    self.columns = columns
  }

  /// The rows as lines; the cells are made printable here. `paint` colours a cell that is fitted
  /// already.
  func lines(
    _ rows: [[String]], withTitles: Bool, style: Style,
    paint: (_ row: Int, _ column: Int, _ cell: String) -> String = { _, _, cell in cell }
  ) -> [String] {
    let cells = rows.map { $0.map { $0.printable } }
    let widths = columns.indices.map { index in
      min(
        columns[index].limit,
        cells.reduce(DisplayWidth.of(columns[index].title)) {
          max($0, DisplayWidth.of($1[index]))
        })
    }
    func line(_ cells: [String], _ paint: (Int, String) -> String) -> String {
      var parts: [String] = []
      for (index, cell) in cells.enumerated() {
        // The last column needs no spaces after it.
        let isLast = index == columns.count - 1 && !columns[index].alignRight
        let fitted =
          isLast
          ? DisplayWidth.truncate(cell, widths[index])
          : DisplayWidth.fit(cell, widths[index], alignRight: columns[index].alignRight)
        parts.append(paint(index, fitted))
      }
      return parts.joined(separator: "  ")
    }
    let header = withTitles ? [line(columns.map(\.title)) { _, cell in style.dim(cell) }] : []
    return header
      + cells.enumerated().map { row, cells in line(cells) { paint(row, $0, $1) } }
  }
}

/// All fields of a view, names and values aligned.
enum FieldTable {
  static func text(_ reply: RESPValue, style: Style) -> String {
    guard case .map(let pairs) = reply else { return reply.json }
    let fields = pairs.map { (name: $0.jsonName, value: $0.value) }
    let width = fields.map(\.name.count).max() ?? 0
    return fields.map { name, value in
      style.dim(DisplayWidth.fit(name, width)) + "  " + text(value, of: name, style: style)
    }.joined(separator: "\n")
  }

  private static func text(_ value: RESPValue, of name: String, style: Style) -> String {
    switch value {
    case .null: return style.dim("—")
    case .integer(let number) where name.hasSuffix("_unix_ms"):
      return "\(number)  " + style.dim(WallClock.text(unixMilliseconds: number))
    case .integer(let number) where name.hasSuffix("_ms"):
      return "\(number)  " + style.dim(Duration.milliseconds(number).humanText)
    default:
      guard let text = value.textOrBase64 else { return value.json }
      return name == "state" ? style.state(text, text) : text.printable
    }
  }
}
