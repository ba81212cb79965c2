import CountdownClient
import Wire

/// Rows in aligned columns, two spaces apart.
struct Columns {
  struct Column {
    let title: String
    var alignRight = false
    /// The maximum width; longer values are cut.
    var limit = 60
  }

  let columns: [Column]

  init(_ columns: [Column]) {
    self.columns = columns
  }

  /// Returns the rows as lines no wider than `width`; columns that do not fit are left out from the
  /// right. Escapes unprintable characters. `paint` colours a cell that is fitted already.
  func lines(
    _ rows: [[String]], withTitles: Bool, style: Style, width: Int = .max,
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
    var used = 0
    let count = widths.prefix {
      used += used == 0 ? $0 : $0 + 2
      return used <= width
    }.count
    let last = max(count, 1) - 1
    func line(_ cells: [String], _ paint: (Int, String) -> String) -> String {
      var parts: [String] = []
      for (index, cell) in cells[...last].enumerated() {
        // The last column needs no spaces after it.
        let isLast = index == last && !columns[index].alignRight
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

/// The fields of a view in human-readable form; JSON has them as the daemon sends them.
enum FieldTable {
  static func text(_ reply: RESPValue, style: Style) -> String {
    guard case .map(let pairs) = reply else { return reply.json }
    let fields = pairs.compactMap { pair -> (name: String, value: String)? in
      let name = pair.jsonName
      let isHidden =
        name == "now_unix_ms" || name.hasSuffix("generation") && !style.showsGenerations
      guard !isHidden, !pair.value.isNull else { return nil }
      return (label(name), text(pair.value, of: name, style: style))
    }
    let width = fields.map(\.name.count).max() ?? 0
    return fields.map { style.dim(DisplayWidth.fit($0.name, width)) + "  " + $0.value }
      .joined(separator: "\n")
  }

  /// Returns the label of a field: "retry after" for `retry_after_ms`.
  private static func label(_ name: String) -> String {
    switch name {
    case "remaining": return "left"
    case "remaining_ms": return "time left"
    case "leases": return "hold count"
    default: break
    }
    let unit = ["_unix_ms", "_ms"].first { name.hasSuffix($0) } ?? ""
    return String(name.dropLast(unit.count)).replacing("_", with: " ")
  }

  private static func text(_ value: RESPValue, of name: String, style: Style) -> String {
    switch value {
    case .integer(let number) where name.hasSuffix("_unix_ms"):
      return WallClock.text(unixMilliseconds: number)
    case .integer(let number) where name.hasSuffix("_ms"):
      return Duration.milliseconds(number).humanText
    case .boolean(let isSet): return isSet ? "yes" : "no"
    case .array(let records) where !records.isEmpty && records.allSatisfy(isMap):
      // Each record has its own line.
      return records.map { "\n  " + line($0, style: style) }.joined()
    default:
      guard let text = value.textOrBase64 else { return value.json }
      return name == "state" ? style.state(text, text) : text.printable
    }
  }

  private static func isMap(_ value: RESPValue) -> Bool {
    if case .map = value { true } else { false }
  }

  /// Returns the fields of a record on one line, each with its name.
  private static func line(_ record: RESPValue, style: Style) -> String {
    guard case .map(let pairs) = record else { return record.json }
    return pairs.filter {
      !$0.value.isNull && ($0.jsonName != "generation" || style.showsGenerations)
    }
    .map { style.dim(label($0.jsonName)) + " " + text($0.value, of: $0.jsonName, style: style) }
    .joined(separator: "  ")
  }
}
