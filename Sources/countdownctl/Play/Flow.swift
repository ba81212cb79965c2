import Countdowns
import Wire

/// A file of timed commands, with the replies and events that they lead to.
///
///     # The button counts down from 3.
///     0s   > COUNTDOWN START button COUNT 3 EVERY 1s
///          < accepted=true
///          * countdown:button started
///          …
///     3s   * countdown:button ready
struct Flow {
  struct Line {
    enum Content {
      /// A comment, or a time at which nothing is expected.
      case nothing
      case command(words: [String])
      case reply(String)
      case event(words: [String])
      /// Any replies and events, or none.
      case anything
    }

    let number: Int
    /// The line as in the file.
    let text: String
    /// The time since the flow began.
    let time: Interval
    /// The name of the client; empty for a line without one.
    let client: String
    let content: Content
  }

  struct Problem: Error {
    let line: Int
    let text: String
  }

  /// The daemon's configuration; nil if the flow has none.
  private(set) var configuration: String?
  private(set) var lines: [Line] = []

  /// Returns whether a word is a variable that a reply sets, as in `generation=$first`.
  static func isVariable(_ word: String) -> Bool { word.hasPrefix("$") && word.count > 1 }

  init(_ text: String) throws(Problem) {
    var isConfiguration = false
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
    {
      let number = index + 1
      let isIndented = line.first == " " || line.first == "\t"
      let trimmed = Self.trimmed(line)
      if isConfiguration, isIndented || trimmed.isEmpty {
        configuration! += "\(line)\n"
        continue
      }
      isConfiguration = trimmed == "config:"
      guard isConfiguration else {
        lines.append(try Line(line, trimmed, number, after: lines))
        continue
      }
      guard configuration == nil, !lines.contains(where: \.isStep) else {
        throw Problem(line: number, text: "'config:' comes once, before the first command")
      }
      configuration = ""
    }
  }

  fileprivate static func trimmed(_ text: Substring) -> Substring {
    var text = text.drop(while: \.isWhitespace)
    while text.last?.isWhitespace == true { text.removeLast() }
    return text
  }

  fileprivate static func words(_ text: Substring, _ line: Int) throws(Problem) -> [String] {
    guard let words = try? InlineWords.split(String(text)) else {
      throw Problem(line: line, text: "unbalanced quotes")
    }
    return words.map { String(decoding: $0, as: UTF8.self) }
  }
}

extension Flow.Line {
  fileprivate var isStep: Bool { if case .nothing = content { false } else { true } }

  /// Parses a line that is not of the configuration.
  fileprivate init(
    _ line: Substring, _ trimmed: Substring, _ number: Int, after lines: [Flow.Line]
  ) throws(Flow.Problem) {
    var (rest, time) = (trimmed, lines.last?.time ?? .zero)
    let word = rest.prefix { !$0.isWhitespace }
    if word.first?.isNumber == true {
      guard let moment = DurationText.parse(written: String(word)) else {
        throw .init(
          line: number, text: "'\(word)' is not a time since the beginning, such as 1.5s")
      }
      guard moment >= time else {
        throw .init(line: number, text: "\(word) is before the line above")
      }
      time = moment
      rest = Flow.trimmed(rest.dropFirst(word.count))
    }
    let mark = rest.prefix { !$0.isWhitespace }
    let isNothing = mark.isEmpty || trimmed.first == "#"
    let hasMark = !isNothing && mark != "…" && mark != "..."
    let client = hasMark ? String(mark.dropLast()) : ""
    (self.number, text, self.time, self.client) = (number, String(line), time, client)
    guard hasMark else {
      content = isNothing ? .nothing : .anything
      return
    }
    let body = Flow.trimmed(rest.dropFirst(mark.count))
    let isName = client.allSatisfy { $0.isLetter || $0.isNumber || $0 == "-" }
    switch isName ? mark.last : nil {
    case ">":
      content = .command(words: try Flow.words(body, number))
      if case .command([]) = content { throw .init(line: number, text: "the command is missing") }
    case "<":
      guard let last = lines.last(where: \.isSent), case .command = last.content,
        last.client == client
      else { throw .init(line: number, text: "a reply follows a command of the same client") }
      content = .reply(String(body))
    case "*":
      let words = try Flow.words(body, number)
      guard words.count >= 2 else {
        throw .init(line: number, text: "an event has a channel and a name")
      }
      content = .event(words: words)
    default:
      throw .init(
        line: number, text: "'\(mark)' is not a time, > (command), < (reply), * (event), … or #")
    }
  }

  /// Whether it is a command or a reply.
  private var isSent: Bool {
    switch content {
    case .command, .reply: true
    case .nothing, .event, .anything: false
    }
  }
}
