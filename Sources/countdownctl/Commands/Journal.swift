import ArgumentParser
import CountdownClient
import CountdownStore
import Countdowns
import Glibc
import Wire

struct JournalCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "journal",
    abstract: "Show or export the journal: what the daemon has decided.",
    discussion: """
      The daemon keeps a journal if journal.size is set in its configuration. Only administrators \
      may read it.

      Examples:
        countdownctl journal list --since 1h
        countdownctl journal list --match '+45*' --json
        countdownctl journal export /var/backups/countdownd.journal
      """,
    subcommands: [List.self, Export.self])

  struct List: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Print decisions and what else happened, oldest first.")

    @Argument(
      help: "A file made by journal export; without it, the daemon's journal.",
      completion: .file())
    var file: String?
    @Option(help: "Only what happened in this time before the newest entry.", transform: duration)
    var since: Duration?
    @Option(help: "Only keys that match the pattern.") var match: String?
    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      let source = JournalSource(file, session)
      let first = try await source.first(since)
      let pattern = match.map { Array($0.utf8) }
      var lost = 0
      try await source.entries { number, entry in
        guard entry.at.wall.microseconds >= first else {
          lost = 0
          return
        }
        print(&lost)
        guard entry.what != .state, pattern.map({ Glob.matches($0, entry.subject) }) ?? true
        else { return }
        global.show(entry.json(number), [entry.line(style: session.style)])
      } lost: {
        lost += $0
      }
      print(&lost)
    }

    /// Prints how many entries are lost at a place, if any are.
    private func print(_ lost: inout Int) {
      guard lost > 0 else { return }
      global.show(.object(["what": "lost", "lost": lost]), ["\(lost) entries are lost"])
      lost = 0
    }
  }

  struct Export: SessionCommand {
    static let configuration = CommandConfiguration(
      abstract: "Write the daemon's journal to a file, for policy replay and journal list.",
      discussion: "The file gets its name once it is complete. Only this user can read it.")

    @Argument(help: "The file to write.", completion: .file()) var file: String
    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws {
      var (count, lost) = (0, 0)
      let target = try FileBeingWritten(file)
      try await JournalSource(nil, session).read { number, bytes in
        try target.write(JournalFrames.frame(bytes, number: number))
        count += 1
        lost += Int(JournalEntry(bytes: bytes, offset: 0)?.segment.lost ?? 0)
      } lost: {
        lost += $0
      }
      try target.finish()
      let others = lost > 0 ? "; \(lost) others are lost" : ""
      global.show(
        .object(["entries": count, "lost": lost]),
        ["\(file.printable): \(count) entries" + others])
    }
  }
}

/// A journal in a file, or that of the daemon.
struct JournalSource {
  private let file: String?
  private let session: Session
  private static let chunk = 1 << 18
  /// More bytes are no entry: the file is damaged.
  private static let maximumInEntry = 16 << 20

  init(_ file: String?, _ session: Session) {
    self.file = file
    self.session = session
  }

  /// Calls `body` with each entry, and `lost` where entries are missing; see `read`.
  func entries(
    _ body: (UInt64, JournalEntry) throws -> Void, lost: (Int) -> Void = { _ in }
  ) async throws {
    try await read(
      { number, bytes in
        if let entry = JournalEntry(bytes: bytes, offset: 0) { try body(number, entry) }
      }, lost: lost)
  }

  /// Returns when a time before the newest entry began, in microseconds since 1970.
  func first(_ since: Duration?) async throws -> Int64 {
    guard let since else { return .min }
    var newest: Int64 = 0
    try await entries { newest = $1.at.wall.microseconds }
    return newest - since.millisecondsRoundedUp * 1_000
  }

  /// Calls `body` with each entry. What is cut off or damaged is left out, with a message.
  ///
  /// - Parameter lost: receives how many entries are missing at a place, before the next entry; not
  ///   those that the entry at the beginning of a segment has.
  func read(
    _ body: (UInt64, [UInt8]) throws -> Void, lost: (Int) -> Void
  ) async throws {
    var last = UInt64.max
    func next(_ number: UInt64, _ bytes: [UInt8]) throws {
      if last < number, number - last > 1 { lost(Int(clamping: number - last - 1)) }
      last = number
      try body(number, bytes)
    }
    if let file { return try read(file, next) }
    var (position, segment, rest) = (0, 0, [UInt8]())
    var damaged = 0
    while true {
      let reply = try await session.reply(["JOURNAL", "READ", "\(position)", "\(Self.chunk)"])
      guard let start = reply["position"]?.int, let end = reply["next"]?.int,
        let from = reply["segment"]?.int, let bytes = reply["bytes"]?.bytes
      else { throw CountdownClientError.protocolViolation("a journal without positions") }
      if start != position || from != segment {
        damaged += rest.count
        rest = []
      }
      guard !bytes.isEmpty else {
        if let count = reply["lost"]?.int, count > 0 { lost(count) }
        break
      }
      (position, segment) = (end, from)
      rest += bytes
      rest.removeFirst(try JournalFrames.read(rest, next))
    }
    damaged += rest.count
    if damaged > 0 {
      Output.error("the journal is damaged: \(damaged) bytes are left out", code: "DAMAGE")
    }
  }

  private func read(_ file: String, _ body: (UInt64, [UInt8]) throws -> Void) throws {
    var (position, rest) = (0, [UInt8]())
    while rest.count <= Self.maximumInEntry {
      let bytes: [UInt8]
      do throws(SafeFile.Failure) {
        bytes = try SafeFile.read(file, from: position, atMost: Self.chunk)
      } catch {
        throw Failure("\(file.printable) cannot be read: \(error.reason)")
      }
      if bytes.isEmpty { break }
      position += bytes.count
      rest += bytes
      rest.removeFirst(try JournalFrames.read(rest, body))
    }
    guard !rest.isEmpty else { return }
    let end = position - rest.count
    let what = end == 0 ? "is no journal" : "is damaged at byte \(end); the rest is left out"
    throw Failure("\(file.printable) \(what)", code: "DAMAGE", status: .damaged)
  }
}

extension JournalEntry {
  /// The key that it is about.
  var subject: [UInt8] { what == .decision ? (words.count > 2 ? words[2] : []) : key }

  private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self).printable }

  /// What happened, in words.
  private var description: String {
    switch what {
    case .segment:
      segment.lost > 0 ? "segment; \(segment.lost) entries before it are lost" : "segment"
    case .state: "state \(kind.name) \(text(key))"
    case .decision: words.map(text).joined(separator: " ")
    case .expired: "code of \(text(key)) expired"
    case .waits: "\(text(key)) waits for its limits"
    case .over: "\(text(key)) is over, if its limits have room"
    case .ran: "all that was due before was run"
    case .promised: "\(text(key)) has promised its room"
    case .ended: "\(kind.name) \(text(key)) ended: \(answer.reason)"
    case .reloaded: "reloaded " + words.map(text).joined(separator: " ")
    case .closed: "daemon ended"
    }
  }

  private var outcome: String {
    guard what == .decision else { return "" }
    if !answer.error.isEmpty { return answer.error.printable }
    switch answer.isAccepted {
    case nil: return "done"
    case true?: return answer.reason.isEmpty ? "accepted" : "accepted (\(answer.reason))"
    case false?:
      let by = answer.limit.map { " by \(text($0))" } ?? ""
      return "refused (\(answer.reason)\(by)) for "
        + Duration.milliseconds(answer.retryAfterMS).humanText
    }
  }

  func line(style: Style) -> String {
    let when = WallClock.text(unixMilliseconds: Int(at.wall.microseconds / 1_000))
    return style.dim(when) + "  " + description + (outcome.isEmpty ? "" : "  " + outcome)
  }

  func json(_ number: UInt64) -> RESPValue {
    let head = RESPValue.object([
      "number": Int(number), "at_unix_ms": Int(at.wall.microseconds / 1_000), "what": "\(what)",
    ])
    func list(_ texts: [[UInt8]]) -> [RESPValue] { texts.map { .bulkString($0) } }
    let subject = RESPValue.object(["kind": "\(kind.name)", "key": RESPValue.bulkString(key)])
    let rest: [RESPValue] =
      switch what {
      case .segment:
        [
          .object([
            "keys": segment.keys, "continues": segment.continues, "lost": Int(segment.lost),
          ])
        ]
      case .decision:
        [
          .object([
            "uid": Int(uid), "command": list(words), "limits": list(limits),
            "accepted": answer.isAccepted, "reason": answer.reason.isEmpty ? nil : answer.reason,
            "limit": answer.limit.map { RESPValue.bulkString($0) },
            "retry_after_ms": Int(answer.retryAfterMS), "generation": Int(answer.generation),
            "error": answer.error.isEmpty ? nil : answer.error,
          ])
        ]
      case .reloaded: [.object(["settings": list(words)])]
      case .ended: [subject, .object(["reason": answer.reason])]
      case .state, .expired, .waits, .over, .promised: [subject]
      case .closed, .ran: []
      }
    return .map(([head] + rest).flatMap { $0.pairs ?? [] })
  }
}
