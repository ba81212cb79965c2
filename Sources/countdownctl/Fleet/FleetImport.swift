import ArgumentParser
import CountdownClient
import CountdownStore
import Countdowns
import Glibc

extension Fleet {
  struct Import: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Move what was stored before the daemon joined into the fleet.",
      discussion: """
        A daemon that joins a fleet hides its own entities of the kinds that the fleet shares. This \
        moves them to the servers, with their times, and removes them from the daemon's state. A \
        key that the fleet has already stays as it is on both sides, and is printed. Repeat it after \
        an error: nothing is moved twice. Only for root, the daemon's own user, and users in \
        access.admin.

        Examples:
          countdownctl fleet status
          countdownctl fleet import
        """)

    @OptionGroup var global: GlobalOptions

    /// How many records are on their way at once.
    private static let window = 256

    /// What has become of the records.
    private struct Result {
      var moved = 0
      var skipped: [String] = []
      var error: CountdownClientError?
    }

    func run(_ session: Session) async throws {
      let (_, facts) = try await Fleet.facts(session)
      var result = Result()
      if facts.number("hidden") > 0 {
        let names = (facts["kinds"] ?? "").split(separator: ",")
        let kinds = EntityKind.allCases.filter { kind in names.contains { $0 == "\(kind.name)" } }
        result = try await move(Set(kinds), session)
      }
      global.show(
        .object(["moved": result.moved, "skipped": result.skipped]),
        result.skipped.map { "skipped  \($0.printable): the fleet has this key" }
          + ["moved: \(result.moved), skipped: \(result.skipped.count)"])
      if let error = result.error { throw error }
    }

    private func move(_ kinds: Set<EntityKind>, _ session: Session) async throws -> Result {
      let connection = try await Connection.open(path: session.path, name: "countdownctl") { _ in }
      defer { connection.close() }
      let all = try await records(connection, kinds)
      let records = all.filter { !$0.isSends }
      // They move with their limits.
      let sends = Dictionary(grouping: all.filter(\.isSends)) { Array($0.key) }
      var result = Result()
      for start in stride(from: 0, to: records.count, by: Self.window) where result.error == nil {
        let portion = records[start..<min(start + Self.window, records.count)]
        let replies = connection.pipeline(
          portion.map { entity in
            let pages = entity.kind == .throttle ? sends[Array(entity.key)] ?? [] : []
            return ["FLEET", "IMPORT", "\(entity.kind.name)"].map { Array($0.utf8) }
              + ([entity] + pages).flatMap { [Array("\($0.slot)".utf8), Array($0.record)] }
          })
        for (entity, reply) in zip(portion, replies) {
          switch try await reply.get() {
          case .integer(1): result.moved += 1
          case .error(let text): result.error = result.error ?? CountdownClientError(reply: text)
          default:
            let key = String(decoding: entity.key, as: UTF8.self)
            result.skipped.append("\(entity.kind.name):\(key)")
          }
        }
      }
      return result
    }

    /// Reads the hidden records from a copy of the state, which exists only meanwhile.
    private func records(
      _ connection: Connection, _ kinds: Set<EntityKind>
    ) async throws -> [StoredRecords.Entry] {
      // A directory of its own, as SQLite also believes files with other names.
      let temporary = Output.environment("TMPDIR") ?? "/tmp"
      var template = Array("\(temporary)/countdownctl-XXXXXX".utf8CString)
      guard unsafe mkdtemp(&template) != nil else {
        throw Failure("cannot make a directory in TMPDIR")
      }
      let folder = String(
        decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
      let path = folder + "/state.db"
      defer {
        for suffix in ["", "-wal", "-shm", "-journal"] { unsafe unlink(path + suffix) }
        unsafe rmdir(folder)
      }
      let file = try FileBeingWritten(path)
      _ = try await Backup.copy(connection) { try file.write($0) }
      try file.finish()
      do throws(StoreError) {
        return try StoredRecords(ofBackup: path, kinds).all
      } catch {
        throw Failure(error)
      }
    }
  }
}
