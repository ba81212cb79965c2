import ArgumentParser
import CountdownClient

struct Reload: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Reload the daemon's configuration, and show what has changed.",
    discussion: """
      If the configuration has an error, the old one stays, and the exit status is 4. Only for \
      root, the daemon's own user, and users in access.admin.

      Examples:
        countdownctl policy check && countdownctl reload
        countdownctl reload --json | jq .changed
      """)

  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    let outcome = try await session.reply(["CONFIG", "RELOAD"])
    Output.line(session.json ? outcome.json : Self.text(outcome))
  }

  static func text(_ outcome: RESPValue) -> String {
    var lines: [String] = []
    for setting in outcome["changed"]?.elements ?? [] {
      guard let parts = setting.elements, parts.count == 3, let name = parts[0].string else {
        continue
      }
      let (old, new) = (parts[1].string ?? "(none)", parts[2].string ?? "(none)")
      lines.append("\(name): \(old) -> \(new)")
    }
    for name in outcome["needs_restart"]?.elements ?? [] {
      lines.append("\(name.string ?? ""): has changed; restart the daemon to apply it")
    }
    return lines.isEmpty
      ? "nothing has changed" : lines.map(\.printable).joined(separator: "\n")
  }
}
