import ArgumentParser
import CountdownClient
import Countdowns

struct Clear: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "End all entities of a kind whose keys match.",
    discussion: """
      Prints how many; the daemon logs it. Only for root, the daemon's own user, and users in \
      access.admin. Sends under a policy stay on record.

      Examples:
        countdownctl clear --kind countdown --match 'bench:*'
        countdownctl clear --kind throttle --match 'login:10.0.0.7'
      """)

  @Option(
    help: .init("The kind.", valueName: "kind"),
    completion: .list(EntityKind.independent.map { "\($0.name)" }))
  var kind: String

  @Option(help: .init("The keys, with * and ?, or all with '*'.", valueName: "pattern"))
  var match: String
  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    let count = try await session.reply(["CLEAR", kind, match])
    global.show(count, ["ended: \(count.int ?? 0)"])
  }
}
