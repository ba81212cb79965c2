import CountdownClient
import Wire

extension LiveBoard {
  /// The board in at most so many columns and rows.
  func draw(at now: Duration, columns: Int, rows: Int, style: Style) -> [String] {
    guard isConnected else {
      return [style.red(DisplayWidth.truncate("connection lost, trying again …", columns))]
    }
    guard !order.isEmpty else {
      return [style.dim(DisplayWidth.truncate("nothing counts; Ctrl-C to leave", columns))]
    }
    let layout = Layout(columns: columns, keys: lines.values.map(\.key.printable))
    let isCut = order.count > rows
    let shown = order.prefix(isCut ? max(0, rows - 1) : rows)
    var result = shown.compactMap { id in
      lines[id].map { layout.text($0, at: now, style: style) }
    }
    if isCut, rows > 0 {
      let more = "… and \(order.count - shown.count) more"
      result.append(style.dim(DisplayWidth.truncate(more, columns)))
    }
    return result
  }

  /// Who gets how many columns: key, bar, title, time left.
  struct Layout: Equatable {
    static let timeColumns = 11
    static let keyLimit = 40

    let columns: Int
    let key: Int
    let bar: Int
    let title: Int

    init(columns: Int, keys: [String]) {
      self.columns = columns
      let widest = keys.reduce(0) { max($0, DisplayWidth.of($1)) }
      key = min(widest, Self.keyLimit, max(1, columns / 3))
      // Two spaces between each.
      let rest = columns - key - Self.timeColumns - 6
      bar = rest < 20 ? 0 : min(30, rest / 2)
      title = max(0, bar == 0 ? rest + 2 : rest - bar)
    }

    func text(_ line: Line, at now: Duration, style: Style) -> String {
      var cells: [String] = []
      cells.append(DisplayWidth.fit(line.key.printable, key))
      let left = line.left(at: now)
      if bar > 0 { cells.append(paint(Bar.text(fullness(line, left), columns: bar), line, style)) }
      if title > 0 { cells.append(DisplayWidth.fit(titleText(line, left).printable, title)) }
      cells.append(time(line, left, style))
      let width = key + (bar > 0 ? bar + 2 : 0) + (title > 0 ? title + 2 : 0) + Self.timeColumns + 2
      // Not even the time fits: then the time it is.
      return width <= columns ? cells.joined(separator: "  ") : time(line, left, style)
    }

    private func fullness(_ line: Line, _ left: Duration?) -> Double {
      if case .over("ready", _) = line.phase { return 1 }
      if let fraction = line.fraction { return fraction }
      guard let left, let total = line.total, total > .zero else { return 0 }
      return 1 - left.inSeconds / total.inSeconds
    }

    private func titleText(_ line: Line, _ left: Duration?) -> String {
      if let title = line.title { return title }
      guard line.kind == .countdown, let left else { return "" }
      return "\((left.millisecondsRoundedUp + 999) / 1000)s"
    }

    private func time(_ line: Line, _ left: Duration?, _ style: Style) -> String {
      let text: String
      switch line.phase {
      case .over(let word, _): text = word
      case .running: text = left?.runningText ?? ""
      case .still: text = left.map { "‖ " + $0.runningText } ?? line.state
      }
      let fitted = DisplayWidth.fit(text, min(Self.timeColumns, columns), alignRight: true)
      return paint(fitted, line, style)
    }

    private func paint(_ text: String, _ line: Line, _ style: Style) -> String {
      style.state(text, line.state)
    }
  }
}
