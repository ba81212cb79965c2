import ArgumentParser
import CountdownClient

struct Reload: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Makes the daemon read its configuration anew, and shows what has changed.",
    discussion: """
      If anything is wrong with it the old one stays, and the exit status is 4. Needs to be root, \
      the daemon's own user, or named in access.admin.

      Examples:
        countdownctl policy check && countdownctl reload
        countdownctl reload --json | jq .changed
      """)

  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    let outcome = try await session.send(["CONFIG", "RELOAD"])
    guard !session.json else { return Output.line(outcome.text) }
    Output.line(Self.text(outcome))
  }

  static func text(_ outcome: JSONValue) -> String {
    var lines: [String] = []
    for setting in items(outcome["changed"]) {
      let parts = items(setting)
      guard parts.count == 3, let name = parts[0].string else { continue }
      let (old, new) = (parts[1].string ?? "(none)", parts[2].string ?? "(none)")
      lines.append("\(name): \(old) -> \(new)")
    }
    for name in items(outcome["needs_restart"]) {
      lines.append("\(name.string ?? ""): has changed; it counts after a restart")
    }
    return lines.isEmpty
      ? "nothing has changed" : lines.map(\.printable).joined(separator: "\n")
  }

  private static func items(_ value: JSONValue?) -> [JSONValue] {
    if case .array(let items)? = value { items } else { [] }
  }
}
