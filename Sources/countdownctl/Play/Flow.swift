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
    var time = Interval.zero
    var isConfiguration = false
    var lastCommand: String?
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
    {
      let number = index + 1
      let isIndented = line.first == " " || line.first == "\t"
      var rest = Self.trimmed(line)
      if isConfiguration, isIndented || rest.isEmpty {
        configuration! += "\(line)\n"
        continue
      }
      isConfiguration = false
      if rest == "config:" {
        guard configuration == nil, !lines.contains(where: \.isStep) else {
          throw Problem(line: number, text: "'config:' comes once, before the first command")
        }
        configuration = ""
        isConfiguration = true
        continue
      }
      func append(_ content: Line.Content, client: Substring = "") {
        lines.append(
          Line(
            number: number, text: String(line), time: time, client: String(client),
            content: content))
      }
      if rest.isEmpty || rest.first == "#" {
        append(.nothing)
        continue
      }
      let word = rest.prefix { !$0.isWhitespace }
      if word.first?.isNumber == true {
        guard let moment = DurationText.parse(written: String(word)) else {
          throw Problem(
            line: number, text: "'\(word)' is not a time since the beginning, such as 1.5s")
        }
        guard moment >= time else {
          throw Problem(line: number, text: "\(word) is before the line above")
        }
        time = moment
        rest = Self.trimmed(rest.dropFirst(word.count))
      }
      guard let mark = rest.split(whereSeparator: \.isWhitespace).first else {
        append(.nothing)
        continue
      }
      if mark == "…" || mark == "..." {
        append(.anything)
        continue
      }
      let (client, body) = (mark.dropLast(), Self.trimmed(rest.dropFirst(mark.count)))
      guard client.allSatisfy({ $0.isLetter || $0.isNumber || $0 == "-" }) else {
        throw Problem(line: number, text: Self.marks(mark))
      }
      switch mark.last {
      case ">":
        let words = try Self.words(body, number)
        guard !words.isEmpty else { throw Problem(line: number, text: "the command is missing") }
        append(.command(words: words), client: client)
        lastCommand = String(client)
      case "<":
        guard lastCommand == String(client) else {
          throw Problem(line: number, text: "a reply follows a command of the same client")
        }
        append(.reply(String(body)), client: client)
        lastCommand = nil
      case "*":
        let words = try Self.words(body, number)
        guard words.count >= 2 else {
          throw Problem(line: number, text: "an event has a channel and a name")
        }
        append(.event(words: words), client: client)
      default: throw Problem(line: number, text: Self.marks(mark))
      }
    }
  }

  private static func marks(_ mark: Substring) -> String {
    "'\(mark)' is not a time, > (command), < (reply), * (event), … or #"
  }

  private static func trimmed(_ text: Substring) -> Substring {
    var text = text.drop(while: \.isWhitespace)
    while text.last?.isWhitespace == true { text.removeLast() }
    return text
  }

  private static func words(_ text: Substring, _ line: Int) throws(Problem) -> [String] {
    guard let words = try? InlineWords.split(String(text)) else {
      throw Problem(line: line, text: "unbalanced quotes")
    }
    return words.map { String(decoding: $0, as: UTF8.self) }
  }
}

extension Flow.Line {
  fileprivate var isStep: Bool { if case .nothing = content { false } else { true } }
}
