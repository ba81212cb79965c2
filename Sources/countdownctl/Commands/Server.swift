import ArgumentParser
import CountdownClient

struct Info: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Shows what the daemon knows of itself.",
    discussion: """
      Sections: \(names.joined(separator: " ")).

      Examples:
        countdownctl info
        countdownctl info lateness
        countdownctl info stats --json | jq .stats
      """)

  @OptionGroup var global: GlobalOptions
  @Argument(
    help: .init("Only these.", valueName: "section"),
    completion: .list(Self.names))
  var sections: [String] = []

  static let names = [
    "server", "clients", "memory", "cpu", "stats", "timers", "lateness", "persistence", "systemd",
    "commandstats",
  ]

  // The daemon passes over what it does not know, as Redis does.
  func validate() throws {
    for section in sections where !(Self.names + ["all"]).contains(section.lowercased()) {
      throw ValidationError(
        "no section '\(section.printable)'; sections: \(Self.names.joined(separator: " "))")
    }
  }

  func run(_ session: Session) async throws {
    let text = try await session.reply(["INFO"] + sections).string ?? ""
    if session.json {
      Output.line(Self.json(text).text)
      return
    }
    let style = Output.style
    for line in text.split(whereSeparator: \.isNewline) {
      if line.hasPrefix("#") {
        Output.line(style.bold(String(line).printable))
      } else {
        Output.line(String(line).printable)
      }
    }
  }

  /// `# Section` and `name:value` lines as an object of objects, numbers as numbers.
  static func json(_ text: String) -> JSONValue {
    var sections: [(name: String, members: [JSONValue.Member])] = []
    for line in text.split(whereSeparator: \.isNewline) {
      if line.hasPrefix("#") {
        sections.append((line.dropFirst().drop { $0 == " " }.lowercased(), []))
        continue
      }
      let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2 else { continue }
      if sections.isEmpty { sections.append(("server", [])) }
      let value = String(parts[1])
      let number = try? JSONValue(parsing: value.utf8)
      // 0.10 is a version, not a number.
      let isNumber = number?.double != nil && !parts[0].hasSuffix("version")
      sections[sections.count - 1].members.append(
        .init(String(parts[0]), isNumber ? number ?? .null : .string(value)))
    }
    return .object(sections.map { .init($0.name, .object($0.members)) })
  }
}

struct Monitor: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Shows every command that the daemon gets, as it comes.",
    discussion: "Without META, PAYLOAD and TOKEN values. Ends with Ctrl-C.")

  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    try await session.stream([Array("MONITOR".utf8)]) { value in
      let text = value.string ?? RedisText.formatted(value)
      Output.line(session.json ? JSONValue.string(text).text : text.printable)
    }
  }
}
