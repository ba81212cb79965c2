import Countdowns
import SeededRandom

/// Generates requests from the syntax lines of the command table.
package struct RequestGrammar {
  private static let table = CommandTable.all
  package static let groups = Array(Set(table.rows.map(\.group))).sorted {
    $0.name < $1.name
  }

  private let commands: [CommandSpec]

  /// Returns the names of the commands of a group, without those that list them.
  package static func names(_ group: CommandSpec.Group) -> [String] {
    table.rows.filter { $0.group == group && $0.subcommand != "HELP" }.map(\.fullName)
  }

  /// - Parameter groups: the groups whose commands are generated; all if empty.
  init(_ groups: Set<CommandSpec.Group> = []) {
    commands = Self.table.rows.filter {
      groups.isEmpty || groups.contains($0.group)
    }
  }

  func command(_ random: inout SeededGenerator) -> [[UInt8]] {
    let spec = random.one(of: commands)
    var words = spec.fullName.split(separator: " ").map { Array($0.utf8) }
    var rest = Substring(spec.syntax)
    while let first = rest.first {
      if first == " " {
        rest.removeFirst()
      } else if first == "[" {
        let group = rest.dropFirst().prefix { $0 != "]" }
        rest = rest.dropFirst(group.count + 2)
        let times = random.isOne(in: 40) ? 2 : random.number(below: 2)
        for _ in 0..<times { words += self.words(group, &random) }
      } else {
        let word = rest.prefix { $0 != " " }
        rest = rest.dropFirst(word.count)
        words += self.words(word, &random)
      }
    }
    // Sometimes a word is added or removed.
    if random.isOne(in: 20) {
      words.insert(value("", &random), at: random.number(below: words.count))
    }
    if random.isOne(in: 20) { words.remove(at: random.number(below: words.count)) }
    return words.isEmpty ? [[]] : words
  }

  private func words(_ syntax: Substring, _ random: inout SeededGenerator) -> [[UInt8]] {
    syntax.split(separator: " ").filter { $0 != "..." }.map { word in
      if word.allSatisfy({ $0.isUppercase || $0 == "-" }) { return Array(word.utf8) }
      let choices = word.split(separator: "|")
      if choices.count > 1, !random.isOne(in: 20) {
        return Array(random.one(of: choices).replacing("ID", with: "a").utf8)
      }
      return value(String(word), &random)
    }
  }

  private static let keys = [
    "a", "a", "a", "b", "b", "c", "d", "ip:1", "all:", "键", "a b", "\u{1B}[2J", "*",
  ]
  private static let names = [
    "p", "p", "q", "l", "1", "2", "3", "login", "sms", "tap", "none", "x",
  ]
  private static let times = [
    "0", "1", "1ms", "100ms", "1s", "1s", "1s", "2s", "5s", "10s", "30s", "1m", "5m", "1h", "1d",
    "3650d", "3651d", "-1", "1w",
  ]
  private static let numbers = [
    "0", "1", "1", "1", "2", "2", "3", "3", "4", "5", "10", "100", "65536", "4294967295",
    "2147483648", "-1", "0.5",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e3", "", "nan",
  ]
  private static let patterns = [
    "*", "a*", "?", "[a-c]", "[^a]", "[", "\\", "countdown:*", "hud:a", "timer:*", "scope:a",
    "nav:*",
  ]

  private func value(_ name: String, _ random: inout SeededGenerator) -> [UInt8] {
    if random.isOne(in: 50) { return random.bytes(random.one(of: [0, 1, 7, 100, 3_000])) }
    switch random.isOne(in: 12) ? "" : name {
    case "key", "screen", "scope", "stack", "page", "session", "target":
      return Array(random.one(of: Self.keys).utf8)
    case "limit":
      return Array(random.one(of: ["ip:1", "ip:1", "ip:2", "all:", "range:a"]).utf8)
    case "name", "p", "t": return Array(random.one(of: Self.names).utf8)
    case "n/d": return Array(random.one(of: ["1/1s", "5/10m", "1/1d", "1000000/1s"]).utf8)
    case "d": return Array(random.one(of: Self.times).utf8)
    case "n", "m", "g", "c", "count", "seq", "offset", "bytes", "uid", "fraction", "pts", "id":
      return Array(random.one(of: Self.numbers).utf8)
    case "glob", "pattern", "channel": return Array(random.one(of: Self.patterns).utf8)
    default:
      let all = [Self.keys, Self.names, Self.times, Self.numbers, Self.patterns]
      return Array(random.one(of: random.one(of: all)).utf8)
    }
  }
}

/// Encodes a request as client libraries do.
func encode(_ words: [[UInt8]]) -> [UInt8] {
  Array("*\(words.count)\r\n".utf8)
    + words.flatMap { Array("$\($0.count)\r\n".utf8) + $0 + [0x0D, 0x0A] }
}

/// Encodes a request; sometimes as an inline command, as people type it.
func encode(_ words: [[UInt8]], _ random: inout SeededGenerator) -> [UInt8] {
  if random.isOne(in: 8) {
    let separator = random.one(of: [" ", "  ", "\t"])
    return inline(words, separator) + Array(random.one(of: ["\r\n", "\n"]).utf8)
  }
  return encode(words)
}

/// Returns an inline command without its line end.
func inline(_ words: [[UInt8]], _ separator: String = " ") -> [UInt8] {
  let quoted = words.map { word in
    word.allSatisfy { 0x21..<0x7F ~= $0 && $0 != 0x22 && $0 != 0x27 } && !word.isEmpty
      ? word : [0x22] + word.flatMap(escaped) + [0x22]
  }
  return Array(quoted.joined(separator: Array(separator.utf8)))
}

private func escaped(_ byte: UInt8) -> [UInt8] {
  let digits = String(byte, radix: 16)
  return Array(("\\x" + (byte < 16 ? "0" : "") + digits).utf8)
}
