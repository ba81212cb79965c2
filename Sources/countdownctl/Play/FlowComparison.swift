import Countdowns

/// The lines of a flow and the messages while it was played, aligned with the fewest differences.
struct FlowComparison {
  enum Step {
    /// A line that a message matches, or that needs none.
    case line(Flow.Line)
    case missing(Flow.Line)
    case unexpected(FlowMessage)
    /// A message that needs no line, or that `…` allows.
    case passed(FlowMessage)
  }

  private(set) var steps: [Step] = []

  var differences: Int {
    steps.count { step in
      switch step {
      case .missing, .unexpected: true
      case .line, .passed: false
      }
    }
  }

  /// O(lines × messages).
  init(_ lines: [Flow.Line], _ messages: [FlowMessage], _ variables: [String: String]) {
    // costs[i][j]: the fewest differences between the lines from i and the messages from j on.
    var costs = [[Int]](
      repeating: [Int](repeating: 0, count: messages.count + 1), count: lines.count + 1)
    for i in stride(from: lines.count, through: 0, by: -1) {
      for j in stride(from: messages.count, through: 0, by: -1)
      where i < lines.count || j < messages.count {
        var best = Int.max
        if i < lines.count { best = costs[i + 1][j] + Self.cost(without: lines[i]) }
        if j < messages.count {
          best = min(best, costs[i][j + 1] + Self.cost(messages[j], in: lines, before: i))
        }
        if i < lines.count, j < messages.count, messages[j].matches(lines[i], variables) {
          best = min(best, costs[i + 1][j + 1])
        }
        costs[i][j] = best
      }
    }
    var (i, j) = (0, 0)
    while i < lines.count || j < messages.count {
      let cost = costs[i][j]
      if i < lines.count, j < messages.count, cost == costs[i + 1][j + 1],
        messages[j].matches(lines[i], variables)
      {
        steps.append(.line(lines[i]))
        (i, j) = (i + 1, j + 1)
      } else if j < messages.count, Self.cost(messages[j], in: lines, before: i) == 0,
        cost == costs[i][j + 1]
      {
        steps.append(.passed(messages[j]))
        j += 1
      } else if i < lines.count, cost == costs[i + 1][j] + Self.cost(without: lines[i]) {
        steps.append(Self.cost(without: lines[i]) == 0 ? .line(lines[i]) : .missing(lines[i]))
        i += 1
      } else {
        steps.append(.unexpected(messages[j]))
        j += 1
      }
    }
  }

  /// Commands are both lines and messages, so everything else is aligned with them.
  private static let costOfCommand = 1_000_000

  /// Returns the cost of a line without a message.
  private static func cost(without line: Flow.Line) -> Int {
    switch line.content {
    case .nothing, .anything: 0
    case .reply, .event: 1
    case .command: costOfCommand
    }
  }

  /// Returns the cost of a message without a line, before the line at `index`: 0 if it needs none,
  /// or if the line before is `…`.
  private static func cost(_ message: FlowMessage, in lines: [Flow.Line], before index: Int) -> Int
  {
    if case .command = message.content { return costOfCommand }
    if message.needsNoLine { return 0 }
    var last = index - 1
    while last >= 0 {
      switch lines[last].content {
      case .nothing: last -= 1
      case .anything: return 0
      default: return 1
      }
    }
    return 1
  }
}
