import CountdownClient
import Synchronization

/// The screen of `watch`: the board, its visible part, and the filter.
struct WatchContent: ScreenContent {
  var board = Board()
  /// The channels on the screen, whose ticks are needed.
  let shown = ShownChannels()
  /// The filter while the user types it.
  private var filter: String?
  private var top = 0
  private var page = 1
  /// Whether snapshots may still be on their way.
  private var isNew = true

  /// The number of rows besides the lines of the board: two at the top, one at the bottom.
  private static let otherRows = 3

  // MARK: Keys

  mutating func press(_ key: Key) -> Bool {
    if filter != nil {
      edit(key)
      return true
    }
    switch key {
    case .character("q"), .character("Q"): return false
    case .character("/"): filter = board.filter
    case .escape: board.filter(by: "")
    case .up, .character("k"): scroll(to: top - 1)
    case .down, .character("j"): scroll(to: top + 1)
    case .pageUp, .character("b"): scroll(to: top - page)
    case .pageDown, .character(" "): scroll(to: top + page)
    case .home, .character("g"): scroll(to: 0)
    case .end, .character("G"): scroll(to: board.order.count)
    default: break
    }
    return true
  }

  private mutating func scroll(to line: Int) {
    top = max(0, min(line, board.order.count - page))
  }

  private mutating func edit(_ key: Key) {
    switch key {
    case .character(let character): filter?.append(character)
    case .backspace:
      guard filter?.popLast() != nil else {
        filter = nil
        return
      }
    case .control("u"): filter = ""
    case .escape:
      board.filter(by: "")
      filter = nil
      return
    case .enter:
      filter = nil
      return
    default: return
    }
    board.filter(by: filter ?? "")
    scroll(to: 0)
  }

  // MARK: Lines

  mutating func prepare(at now: Duration, size: Terminal.Size) {
    isNew = now < .milliseconds(300)
    board.expire(at: now)
    board.sort()
    page = max(1, size.rows - Self.otherRows)
    scroll(to: top)
    shown.set(visible.map(\.channel))
  }

  private var visible: [Board.Line] {
    board.order.dropFirst(top).prefix(page).compactMap { board.lines[$0.id] }
  }

  /// Returns 0.1 s while a time below two minutes is shown, else 1 s, for the clock.
  func pause(at now: Duration) -> Duration {
    let shortest = visible.compactMap { line in
      if case .running(let end) = line.phase, end > now { end - now } else { nil as Duration? }
    }.min()
    return shortest.map { $0 < .seconds(120) ? .milliseconds(100) : .seconds(1) } ?? .seconds(1)
  }

  func lines(at now: Duration, size: Terminal.Size, style: Style) -> [String] {
    let shown = visible
    let layout = WatchLayout(columns: size.columns, lines: shown)
    var result = [
      ScreenText.ends(
        totals, ScreenText.clock, columns: size.columns, left: style.bold, right: style.dim),
      style.reverse(layout.titles),
    ]
    result += shown.map { layout.text($0, at: now, style: style) }
    if shown.isEmpty, !isNew {
      let text =
        board.filter.isEmpty
        ? "Nothing to watch yet: start a countdown with 'countdownctl start KEY'."
        : "Nothing matches '\(board.filter.printable)'."
      result.append(style.dim(DisplayWidth.truncate(text, size.columns)))
    }
    result = Array(result.prefix(max(0, size.rows - 1)))
    result += Array(repeating: "", count: max(0, size.rows - 1 - result.count))
    result.append(footer(size.columns, style))
    return result
  }

  /// The number of entities, in all and of each kind.
  private var totals: String {
    let counts = board.counts.filter { $0.value > 0 }
    let all = counts.values.reduce(0, +)
    let kinds = CountdownEvent.Kind.allCases.compactMap { kind in
      counts[kind].map { "\(kind.rawValue) \(grouped($0))" }
    }
    return (["\(grouped(all)) \(all == 1 ? "entity" : "entities")"] + kinds)
      .joined(separator: "  ")
  }

  private func footer(_ columns: Int, _ style: Style) -> String {
    let count = board.order.count
    let last = min(top + page, count)
    let place = count > page ? "\(grouped(top + 1))–\(grouped(last)) of \(grouped(count))" : ""
    if !board.isConnected {
      let text = "Connection lost, trying again …"
      return ScreenText.ends(text, place, columns: columns, left: style.red, right: style.dim)
    }
    if let filter {
      let text = "/\(filter.printable)█"
      return ScreenText.ends(text, place, columns: columns, left: style.bold, right: style.dim)
    }
    let keys =
      board.filter.isEmpty
      ? "q quit  / filter  ↑ ↓ PgUp PgDn scroll"
      : "/\(board.filter.printable)  Esc shows all"
    return ScreenText.ends(keys, place, columns: columns, left: style.dim, right: style.dim)
  }
}

/// The channels on the screen, which other threads may read.
final class ShownChannels: Sendable {
  private let channels = Mutex(Set<String>())

  func set(_ shown: [String]) { channels.withLock { $0 = Set(shown) } }
  func contains(_ channel: String) -> Bool { channels.withLock { $0.contains(channel) } }
}

/// The widths of the kind, the key, the state, the time left, the bar and the title. A column with
/// the width 0 is left out.
struct WatchLayout: Equatable {
  private static let time = 11

  private let columns: Int
  private var kind = 9
  private var key: Int
  private var state = 0
  private var bar = 0
  private var title = 0

  init(columns: Int, lines: [Board.Line]) {
    self.columns = columns
    func widest(_ texts: [String]) -> Int { texts.reduce(0) { max($0, DisplayWidth.of($1)) } }
    // Rounds up to a multiple of 8, so that columns keep their places while lines come and go.
    func rounded(_ width: Int) -> Int { (width + 7) / 8 * 8 }
    if columns >= 60 { state = max(widest(lines.map(\.state.printable)), 9) }
    if columns < 32 { kind = 0 }
    // Each column has two spaces after it.
    let others = [kind, state, Self.time].reduce(0) { $1 > 0 ? $0 + $1 + 2 : $0 }
    let maximum = state == 0 ? columns - others : columns / 4
    key = max(0, min(max(rounded(widest(lines.map(\.key.printable))), 16), maximum))
    let rest = columns - others - key - 2
    guard state > 0, rest >= 10 else {
      key = max(0, columns - others)
      return
    }
    title = min(rounded(widest(lines.map { ($0.title ?? "").printable })), max(rest - 10, 0))
    bar = rest - (title > 0 ? title + 2 : 0)
  }

  var titles: String {
    row(kind: "KIND", key: "KEY", state: "STATE", time: "LEFT", bar: "", title: "TITLE")
  }

  func text(_ line: Board.Line, at now: Duration, style: Style) -> String {
    let left = line.left(at: now)
    let time =
      switch line.phase {
      case .over: state > 0 ? "" : line.state
      case .running: left?.runningText ?? ""
      case .still:
        left.map { (state > 0 ? "" : "‖ ") + $0.runningText } ?? (state > 0 ? "" : line.state)
      }
    return row(
      kind: line.kind.rawValue, key: line.key.printable, state: line.state.printable,
      time: time.printable, bar: bar(line, left), title: (line.title ?? "").printable,
      paint: { style.state($0, line.state) })
  }

  private func row(
    kind kindText: String, key keyText: String, state stateText: String, time: String,
    bar barText: String, title titleText: String, paint: (String) -> String = { $0 }
  ) -> String {
    var cells: [String] = []
    if kind > 0 { cells.append(DisplayWidth.fit(kindText, kind)) }
    if key > 0 { cells.append(DisplayWidth.fit(keyText, key)) }
    if state > 0 { cells.append(paint(DisplayWidth.fit(stateText, state))) }
    cells.append(paint(DisplayWidth.fit(time, min(Self.time, columns), alignRight: true)))
    if bar > 0 { cells.append(barText.isEmpty ? spaces(bar) : paint(barText)) }
    if title > 0 { cells.append(DisplayWidth.fit(titleText, title)) }
    return cells.joined(separator: "  ")
  }

  private func spaces(_ count: Int) -> String { String(repeating: " ", count: count) }

  private func bar(_ line: Board.Line, _ left: Duration?) -> String {
    let fraction: Double? =
      if line.isOver {
        line.state == "ready" ? 1 : nil
      } else if let fraction = line.fraction {
        fraction
      } else if let left, let total = line.total, total > .zero {
        1 - left.inSeconds / total.inSeconds
      } else {
        nil
      }
    return fraction.map { Bar.text($0, columns: bar) } ?? ""
  }
}
