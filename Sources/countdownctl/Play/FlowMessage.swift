import CountdownClient
import Wire

/// A command, reply or event of a flow that was played.
struct FlowMessage {
  enum Content {
    /// A command, with the number of its line.
    case command(line: Int)
    case reply(RESPValue)
    case event(channel: String, fields: RESPValue)
  }

  /// The time since the flow began.
  let milliseconds: Int64
  let client: String
  let content: Content

  /// Returns whether the message is what a line expects. A reply or event may have more fields than
  /// the line names.
  func matches(_ line: Flow.Line, _ variables: [String: String]) -> Bool {
    guard client == line.client else { return false }
    switch (content, line.content) {
    case (.command(let number), .command): return number == line.number
    case (.reply(let reply), .reply(let text)):
      if let fields = Self.fields(of: text), case .map = reply {
        return Self.has(reply, fields, variables)
      }
      return Self.isLike(Self.text(reply), text)
    case (.event(let channel, let fields), .event(let words)):
      return milliseconds == line.time.millisecondsRoundedUp && channel == words[0]
        && fields["event"]?.string == words[1]
        && Self.has(fields, words.dropFirst(2).map(Self.field), variables)
    default: return false
    }
  }

  /// Whether the message needs no line: a reply that is not an error.
  var needsNoLine: Bool {
    guard case .reply(let reply) = content else { return false }
    if case .error = reply { return false }
    return true
  }

  // MARK: Fields

  typealias Field = (name: String, value: String)

  private static func field(_ word: String) -> Field {
    let name = word.prefix { $0 != "=" }
    return (String(name), String(word.dropFirst(name.count + 1)))
  }

  /// Returns the fields that a reply must have; nil if the text is not a list of fields.
  static func fields(of text: String) -> [Field]? {
    guard let words = try? InlineWords.split(text), !words.isEmpty else { return nil }
    let fields = words.map { field(String(decoding: $0, as: UTF8.self)) }
    let isList = zip(words, fields).allSatisfy { word, field in
      word.contains(UInt8(ascii: "="))
        && field.name.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "_" }
    }
    return isList ? fields : nil
  }

  private static func has(
    _ map: RESPValue, _ fields: [Field], _ variables: [String: String]
  ) -> Bool {
    fields.allSatisfy { name, value in
      guard let found = map[name] else { return false }
      return isLike(text(found), variables[value] ?? value)
    }
  }

  /// Returns whether a text is as expected; `…` stands for any text.
  private static func isLike(_ text: String, _ expected: String) -> Bool {
    let parts = expected.split(separator: "…", omittingEmptySubsequences: false)
    guard parts.count > 1 else { return text == expected }
    guard text.hasPrefix(parts[0]) else { return false }
    var rest = text.dropFirst(parts[0].count)
    for part in parts[1..<(parts.count - 1)] where !part.isEmpty {
      guard let found = rest.firstRange(of: part) else { return false }
      rest = rest[found.upperBound...]
    }
    return rest.hasSuffix(parts.last!)
  }

  // MARK: Text

  /// Returns a value as flows write it, with commas between the elements of a list.
  static func text(_ value: RESPValue) -> String {
    switch value {
    case .error(let text): "error \(text)"
    case .array(let values) where values.allSatisfy({ $0.string != nil }):
      values.map { $0.string! }.joined(separator: ",")
    default: value.string ?? value.json
    }
  }

  /// The fields that are left out: they are in every event, or different each time.
  private static let unshown: Set = [
    "event", "key", "generation", "seq", "position", "due_unix_ms", "late_us", "now_unix_ms",
    "deadline_unix_ms",
  ]

  /// A short form of an event: its channel, name and state.
  var summary: String {
    guard case .event(let channel, let fields) = content else { return text }
    let state = fields["state"]?.string.map { " state=\($0)" } ?? ""
    return "\(client)* \(Self.quoted(channel)) \(fields["event"]?.string ?? "")\(state)"
  }

  /// The message as a line of a flow.
  var text: String {
    switch content {
    case .command: ""
    case .reply(let reply):
      if case .map(let pairs) = reply {
        "\(client)< " + Self.text(pairs)
      } else {
        "\(client)< " + Self.text(reply)
      }
    case .event(let channel, let fields):
      "\(client)* \(Self.quoted(channel)) \(fields["event"]?.string ?? "") "
        + Self.text(fields.pairs ?? [])
    }
  }

  private static func text(_ pairs: [RESPValue.Pair]) -> String {
    pairs.compactMap { pair in
      let name = pair.key.string ?? ""
      guard !unshown.contains(name), !pair.value.isNull else { return nil }
      return "\(name)=\(quoted(text(pair.value)))"
    }.joined(separator: " ")
  }

  private static func quoted(_ text: String) -> String {
    let isPlain =
      !text.isEmpty && text.allSatisfy { !$0.isWhitespace && !"\"'\\".contains($0) }
    guard !isPlain else { return text }
    return "\""
      + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
      .replacing("\n", with: "\\n") + "\""
  }
}
