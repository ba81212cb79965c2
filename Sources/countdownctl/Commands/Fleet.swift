import ArgumentParser
import CountdownClient
import Glibc

struct Fleet: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Show, check or begin what the daemon shares with other hosts.",
    subcommands: [Status.self, Check.self, Init.self, AcceptLoss.self, Import.self])

  struct Status: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Show the servers of the fleet, its partitions and clocks.",
      discussion: "Exit status 1 if the daemon is not part of a fleet.")

    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      let (info, facts) = try await Fleet.facts(session)
      global.show(Info.json(info), facts.lines(style: session.style))
    }
  }

  struct Check: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Check the fleet, and show what is wrong and what to do.",
      discussion: """
        Checks what the daemon knows of its servers: whether they answer, keep what they store and \
        have replicas, and whether clocks and policies agree. Exit status 1 if anything is wrong.

        Examples:
          countdownctl fleet check
          countdownctl policy check && countdownctl fleet check
        """)

    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      let (_, facts) = try await Fleet.facts(session)
      let settings = try? await session.reply(["CONFIG", "GET", "fleet.replicas"])
      let replicas = settings?["fleet.replicas"]?.string
      let problems = facts.problems(replicas: replicas, now: Int(time(nil)) * 1000)
      let name = facts["name"] ?? ""
      let servers = facts.servers.count == 1 ? "1 server" : "\(facts.servers.count) servers"
      global.show(
        .object(["fleet": name, "problems": problems]),
        problems.isEmpty
          ? ["fleet \(name): all is well, \(servers)".printable]
          : problems.map { session.style.red("problem") + "  " + $0.printable })
      if !problems.isEmpty { throw ExitCode.refused }
    }
  }

  struct Init: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Begin a new fleet, whose servers have no records.",
      discussion: """
        Once for each new fleet, on any host: until then, its servers could also have lost what was \
        sent, so commands are refused. Does nothing to a fleet that was begun before. Only for root, \
        the daemon's own user, and users in access.admin.

        Examples:
          countdownctl fleet init
        """)

    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws { try await Fleet.begin("INIT", session, global) }
  }

  struct AcceptLoss: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Continue although the servers have lost records.",
      discussion: """
        Begins partitions that nobody knows, and ends the time for which changes are refused after a \
        loss. What was sent before counts for nothing, so limits may be exceeded. The log has who did \
        it. Only for root, the daemon's own user, and users in access.admin.

        Examples:
          countdownctl fleet accept-loss
        """)

    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      try await Fleet.begin("ACCEPT-LOSS", session, global)
    }
  }

  private static func begin(
    _ word: String, _ session: Session, _ global: GlobalOptions
  ) async throws {
    _ = try await facts(session)
    let count = try await session.reply(["FLEET", word]).int ?? 0
    global.show(
      .object(["begun": count]),
      [count == 0 ? "nothing to do: the fleet was begun before" : "begun: \(count) partitions"])
  }

  /// Returns the reply to `INFO fleet`, raw and parsed. Throws exit status 1 without a fleet.
  static func facts(_ session: Session) async throws -> (String, FleetFacts) {
    let info = try await session.reply(["INFO", "fleet"]).string ?? ""
    guard let facts = FleetFacts(info: info) else {
      throw Failure(
        "this daemon shares nothing: add a fleet section to its configuration", code: "NOTFOUND")
    }
    return (info, facts)
  }
}
