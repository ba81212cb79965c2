import ArgumentParser
import CountdownClient
import Glibc
import Wire

struct Backup: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Copy the daemon's state to a file while it runs.",
    discussion: """
      The file is an SQLite database that only this user can read. It gets its name once it is \
      complete and on the disk; then it replaces a file of that name, but never a symbolic link or \
      a device. Ctrl-C leaves nothing behind. With - as FILE the copy goes to standard output.

      With --keep, FILE is a directory. The copy is named after the time (UTC), such as \
      countdownd-20261127T031500Z.db, and is checked before it gets that name; then only the newest \
      N files with such names stay. A copy that is damaged is removed, with exit status 65, and the \
      others stay as they are.

      `countdownctl restore` puts it back, and `countdownctl state` lists and checks it.

      Examples:
        countdownctl backup /var/backups/countdownd.db
        countdownctl backup --keep 14 /var/backups/countdownd
        countdownctl backup - | ssh backup 'cat > countdownd.db'
        countdownctl state check /var/backups/countdownd.db
      """)

  @Argument(help: "The file to write.", completion: .file()) var file: String
  @Option(
    help: .init("Write to the directory FILE, and keep the newest N copies in it.", valueName: "n"))
  var keep: Int?
  @OptionGroup var global: GlobalOptions

  private static let chunk = 1 << 18

  func validate() throws {
    if let keep, keep < 1 || file == "-" {
      throw ValidationError("--keep is at least 1, and FILE is then a directory")
    }
  }

  func run(_ session: Session) async throws {
    // The daemon ties the copy to this connection.
    let connection = try await Connection.open(path: session.path, name: "countdownctl") { _ in }
    defer { connection.close() }
    // Handles signals from here on, because there is a file to remove.
    let signals = Signals([SIGINT, SIGTERM, SIGHUP], leavingIgnored: true)
    if file == "-" {
      guard !Output.isTerminal else {
        throw ValidationError("a backup is no text for a terminal: redirect standard output")
      }
      _ = try await unlessEnded(by: signals) {
        try await Self.copy(connection) { Output.bytes($0) }
      }
      return
    }
    let path = keep == nil ? file : DatedBackups(file).newName
    let target = try FileBeingWritten(path)
    let size = try await unlessEnded(by: signals) {
      try await Self.copy(connection) { try target.write($0) }
    }
    guard let keep else {
      try target.finish()
      return report(path, size)
    }
    try target.finish { try Restore.check($0) }
    report(path, size, removed: try DatedBackups(file).removeOld(keeping: keep))
  }

  private func report(_ path: String, _ size: Int, removed: [String]? = nil) {
    global.show(
      removed.map { .object(["bytes": size, "file": path, "removed": $0]) }
        ?? .object(["bytes": size]),
      ["\(path.printable): \(size) bytes"] + (removed ?? []).map { "removed: \($0.printable)" })
  }

  /// Runs `body`; if a signal comes first, throws 128 + its number as the exit status.
  private func unlessEnded(
    by signals: Signals, _ body: @escaping @Sendable () async throws -> Int
  ) async throws -> Int {
    try await withThrowingTaskGroup(of: Int.self) { group in
      group.addTask { try await body() }
      group.addTask {
        for await signal in signals.received { throw ExitCode(128 + signal) }
        throw CancellationError()
      }
      defer { group.cancelAll() }
      return try await group.next()!
    }
  }

  /// Passes a copy of the state to `write`, in parts. Returns its length in bytes.
  static func copy(
    _ connection: Connection, _ write: ([UInt8]) throws -> Void
  ) async throws -> Int {
    func send(_ words: String...) async throws -> RESPValue {
      let reply = try await connection.send(words.map { Array($0.utf8) })
      if case .error(let text) = reply { throw CountdownClientError(reply: text) }
      return reply
    }
    let id = String(try await send("BACKUP", "BEGIN").int ?? 0)
    var size = try await send("BACKUP", "SIZE", id)
    while size.isNull {
      try await Task.sleep(for: .milliseconds(20))
      size = try await send("BACKUP", "SIZE", id)
    }
    guard let size = size.int else {
      throw CountdownClientError.protocolViolation("a size that is no number")
    }
    var offset = 0
    while offset < size {
      let reply = try await send("BACKUP", "READ", id, String(offset), String(Self.chunk))
      guard let bytes = reply.bytes, !bytes.isEmpty else {
        throw CountdownClientError.protocolViolation("a backup that ends too early")
      }
      try write(bytes)
      offset += bytes.count
    }
    _ = try await send("BACKUP", "END", id)
    return size
  }
}
