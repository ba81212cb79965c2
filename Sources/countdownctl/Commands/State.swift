import ArgumentParser
import CountdownClient
import CountdownStore
import Countdowns
import Glibc
import Wire

struct State: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "List or check stored state, acknowledge damage to it, or accept its loss.",
    discussion: """
      Only acknowledge needs a daemon. For list and check, which change nothing, PATH is a state \
      directory that no daemon uses, whose newest state is read; a state-N.db there, with its log; or \
      a backup.

      Examples:
        countdownctl state list /var/backups/countdownd.db
        countdownctl state list --kind timer --json /var/lib/countdownd
        countdownctl state check /var/backups/countdownd.db
      """,
    subcommands: [List.self, Check.self, Acknowledge.self, AcceptLoss.self])

  /// The options of list and check.
  struct Source: ParsableArguments {
    @Argument(
      help: "A state directory, a backup, or an older state there.", completion: .file())
    var path: String

    /// Reads the state. Ends with exit status 1 if that is impossible.
    func inspect(isThorough: Bool) throws -> StateInspection {
      do throws(StoreError) {
        return try StateInspection(path, isThorough: isThorough)
      } catch {
        throw Failure(error, inUse: "; stop it, or look into a backup", whenCorrupt: .damaged)
      }
    }
  }

  // MARK: List

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Print the stored entities, as they were when the state was last written.",
      discussion: """
        Reports damage on standard error, and exits with status 65; what can be read is printed.
        """)

    @Option(
      help: .init("Only this kind.", valueName: "kind"),
      completion: .list(EntityKind.durable.map { "\($0.name)" }), transform: Self.kind)
    var kind: EntityKind?
    @OptionGroup var source: Source
    @OptionGroup var global: GlobalOptions

    private static func kind(_ text: String) throws -> EntityKind {
      guard let kind = EntityKind.durable.first(where: { "\($0.name)" == text.lowercased() }) else {
        let known = EntityKind.durable.map { "\($0.name)" }.joined(separator: ", ")
        throw ValidationError("no stored kind '\(text.printable)'; known: \(known)")
      }
      return kind
    }

    func run() async throws {
      let state = try source.inspect(isThorough: false)
      let kinds = kind.map { [$0] } ?? EntityKind.durable
      var isFirst = true
      for kind in kinds where state.engine.count(kind) > 0 {
        if kinds.count > 1, !global.json {
          Output.line((isFirst ? "" : "\n") + "\(kind.name)s")
        }
        isFirst = false
        if let entity = EventLine.entities[.init(rawValue: "\(kind.name)")] {
          try list(entity, kind, of: state)
        }
      }
      for problem in state.problems { Output.error(problem, code: "DAMAGE") }
      if !state.problems.isEmpty { throw ExitCode.damaged }
    }

    private func list<Shown: Entity>(
      _: Shown.Type, _ kind: EntityKind, of state: StateInspection
    ) throws {
      var style = Output.style
      style.showsGenerations = global.generations
      var table = ListTable<Shown>(style)
      var query = ListQuery()
      query.limit = 1_000
      repeat {
        let page = state.engine.replies(listing: kind, query, at: state.now)
        query.cursor = page.cursor
        var decoder = ReplyDecoder()
        decoder.feed(page.replies)
        var views: [RESPValue] = []
        while let view = try decoder.next() { views.append(view) }
        Output.lines(global.json ? views.map { $0.with(kind: kind).json } : try table.lines(views))
      } while query.cursor != 0
    }
  }

  // MARK: Check

  struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Check every page and every record.",
      discussion: """
        Exit status 65 if anything is damaged, 1 if the state cannot be read at all. A start with a \
        damaged state sets it aside, and continues with what can be read.
        """)

    @OptionGroup var source: Source
    @OptionGroup var global: GlobalOptions

    func run() async throws {
      let state = try source.inspect(isThorough: true)
      let counts = EntityKind.durable.map { ("\($0.name)s", state.engine.count($0)) }
      global.show(
        .object([
          "path": state.path, "product": state.product,
          "entities": RESPValue.map(counts.map { .init(.text($0.0), .integer($0.1)) }),
          "problems": state.problems,
        ]),
        ["state: \(state.path.printable)"]
          + (state.product.isEmpty
            ? ["empty: a daemon starts fresh with it"]
            : ["last written by \(state.product.printable)"] + counts.map { "\($0.0): \($0.1)" })
          + (state.problems.isEmpty
            ? ["no problems"] : state.problems.map { "problem: \($0.printable)" }))
      if !state.problems.isEmpty { throw ExitCode.damaged }
    }
  }

  // MARK: Acknowledge

  struct Acknowledge: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Acknowledge damage that the daemon has found.",
      discussion: """
        Until then `info persistence`, `health`, the metrics and the status of the service report \
        it, and with on-damage: refuse the daemon decides nothing. Only for root, the daemon's own \
        user, and users in access.admin. Exit status 1 if there is nothing to acknowledge.
        """)

    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      let findings = try await session.reply(["STATE", "ACKNOWLEDGE"])
      try session.show(
        findings.int == 0 ? .null : findings, absent: "there is no damage to acknowledge"
      ) { "acknowledged: \($0.int ?? 0)" }
    }
  }

  // MARK: Accept a loss

  struct AcceptLoss: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Give up the newest state, whose file is missing.",
      discussion: """
        The daemon does not start without its newest state while an older one is there: whatever was \
        started since that one would be forgotten, and codes sent twice. After this command it \
        continues with the older one, and reports the loss until it is acknowledged. The log of the \
        missing state is set aside.

        No daemon may use the directory. Exit status 1 if no state is missing.

        Example:
          countdownctl state accept-loss /var/lib/countdownd
        """)

    @Argument(help: "The state directory.", completion: .directory) var directory: String
    @OptionGroup var global: GlobalOptions

    func run() async throws {
      let loss: StateRestore.AcceptedLoss?
      do throws(StoreError) {
        loss = try StateRestore.acceptLoss(
          in: directory, atUnixMicroseconds: Int64(time(nil)) * 1_000_000)
      } catch {
        throw Failure(error, inUse: "; stop it first")
      }
      guard let loss else { throw Failure("no state is missing in \(directory)") }
      global.show(
        .object(["missing": loss.missing, "state": loss.state]),
        [
          "given up: \(loss.missing.printable), with what has changed since the state before",
          "state: \(loss.state.printable)",
        ])
    }
  }
}

extension RESPValue {
  /// Returns a view that begins with its kind.
  fileprivate func with(kind: EntityKind) -> RESPValue {
    guard case .map(let members) = self else { return self }
    return .map([.init(.text("kind"), .text("\(kind.name)"))] + members)
  }
}

extension ExitCode {
  /// A state is damaged.
  static let damaged = ExitCode(65)
}
