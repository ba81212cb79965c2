import ArgumentParser
import CountdownClient
import CountdownConfiguration
import Countdowns

struct Info: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Show figures of the daemon.",
    discussion: """
      Sections: \(names.joined(separator: " ")).

      Examples:
        countdownctl info
        countdownctl info lateness
        countdownctl info stats --json | jq .stats
      """)

  @Argument(
    help: .init("Only these sections.", valueName: "section"),
    completion: .list(Self.names))
  var sections: [String] = []
  @OptionGroup var global: GlobalOptions

  private static let names = InfoSection.allCases.map(\.rawValue)

  // The daemon ignores unknown sections, as Redis does.
  func validate() throws {
    for section in sections where !(Self.names + ["all"]).contains(section.lowercased()) {
      throw ValidationError(
        "there is no section '\(section.printable)'; sections: \(Self.names.joined(separator: " "))"
      )
    }
  }

  func run(_ session: Session) async throws {
    let text = try await session.reply(["INFO"] + sections).string ?? ""
    if session.json {
      Output.line(Self.json(text).json)
      return
    }
    let style = session.style
    for line in text.split(whereSeparator: \.isNewline) {
      if line.hasPrefix("#") {
        Output.line(style.bold(String(line).printable))
      } else {
        Output.line(String(line).printable)
      }
    }
  }

  /// Converts `# Section` and `name:value` lines to an object of objects, with numbers as numbers.
  static func json(_ text: String) -> RESPValue {
    var sections: [(name: String, members: [RESPValue.Pair])] = []
    for line in text.split(whereSeparator: \.isNewline) {
      if line.hasPrefix("#") {
        sections.append((line.dropFirst().drop { $0 == " " }.lowercased(), []))
        continue
      }
      let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2 else { continue }
      if sections.isEmpty { sections.append(("server", [])) }
      // 0.10 is a version, not a number.
      let number = parts[0].hasSuffix("version") ? nil : Self.number(parts[1])
      sections[sections.count - 1].members.append(
        .init(.text(String(parts[0])), number ?? .text(String(parts[1]))))
    }
    return .map(sections.map { .init(.text($0.name), .map($0.members)) })
  }

  /// Returns a decimal number; nil for other texts, such as `inf`.
  private static func number(_ text: Substring) -> RESPValue? {
    guard text.utf8.allSatisfy({ "0123456789.-".utf8.contains($0) }) else { return nil }
    return Int(text).map { .integer($0) } ?? Double(text).map { .double($0) }
  }
}

struct Monitor: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Show every command that the daemon receives.",
    discussion: "Secret values, such as tokens and payloads, are hidden. Ctrl-C ends it.")

  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    try await session.stream([Array("MONITOR".utf8)]) { value in
      let text = value.string ?? RedisText.formatted(value)
      Output.line(session.json ? RESPValue.text(text).json : text.printable)
    }
  }
}

struct LogLevel: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Show or set the daemon's log level.",
    discussion: """
      The new level applies until the next reload or restart, which apply log-level of the \
      configuration. Only for root, the daemon's own user, and users in access.admin.

      Example:
        countdownctl log-level debug && journalctl -fu countdownd
      """)

  @Argument(
    help: "Log messages of this level and more severe ones.", completion: .list(Self.levels))
  var level: String?
  @OptionGroup var global: GlobalOptions

  private static let levels = Configuration.LogLevel.allCases.map(\.rawValue)

  func validate() throws {
    guard let level, !Self.levels.contains(level) else { return }
    throw ValidationError("a log level is one of \(Self.levels.joined(separator: ", "))")
  }

  func run(_ session: Session) async throws {
    if let level { _ = try await session.reply(["CONFIG", "SET", "log-level", level]) }
    let settings = try await session.reply(["CONFIG", "GET", "log-level"])
    Output.line(session.json ? settings.json : settings["log-level"]?.string?.printable ?? "")
  }
}
