import ArgumentParser
import CountdownClient

/// A subcommand that talks to the daemon.
protocol SessionCommand: AsyncParsableCommand {
  var global: GlobalOptions { get }

  /// How long to wait for an answer; nil: no limit.
  var patience: Duration? { get }

  /// Runs the subcommand; an error becomes a message and an exit status.
  func run(_ session: Session) async throws

  /// Is called before the exit if the daemon does not answer or refuses.
  func failed() throws
}

extension SessionCommand {
  var patience: Duration? { global.wait }

  func failed() throws {}

  func run() async throws {
    let session = Session(
      socket: global.socket, json: global.json, showsGenerations: global.generations,
      patience: patience)
    do {
      // With a time limit, even long work such as watch begins only if the daemon answers.
      if patience != nil { _ = try await session.reply(["PING"]) }
      try await run(session)
    } catch let error as CountdownClientError {
      Output.error(session.explain(error), code: error.code)
      try failed()
      throw session.exitCode(error)
    }
  }
}

/// A subcommand's access to the daemon, and the output of its results.
struct Session {
  let path: String
  let json: Bool
  let style: Style
  let client: Client

  init(
    socket: String?, json: Bool = false, showsGenerations: Bool = false, patience: Duration?
  ) {
    path = socket ?? Client.defaultPath
    self.json = json
    var style = Output.style
    style.showsGenerations = showsGenerations
    self.style = style
    client = .unconnected(
      path: path, name: "countdownctl", connectTimeout: patience, timeout: patience)
  }

  func send(_ command: Command) async throws -> RESPValue { try await reply(command.words) }

  func reply(_ words: [String]) async throws -> RESPValue {
    try await reply(words.map { Array($0.utf8) })
  }

  func reply(_ words: [[UInt8]]) async throws -> RESPValue {
    try await client.send(unchecked: words)
  }

  /// Reads a list page by page until `body` returns false.
  ///
  /// - Parameter limit: the most entities of a page.
  func eachPage(
    _ words: any CommandWord..., options: KeyValuePairs<String, (any CommandWord)?> = [:],
    limit: Int = 1_000, _ body: ([RESPValue]) throws -> Bool
  ) async throws {
    var cursor = 0
    repeat {
      let paging: Command.Options = ["CURSOR": cursor == 0 ? nil : cursor, "LIMIT": limit]
      let reply = try await reply(Command(words, options).words + Command([], paging).words)
      let page = try reply.page
      cursor = page.cursor
      guard try body(page.elements) else { return }
    } while cursor != 0
  }

  /// Prints a view on one line. Throws exit status 1 for a refusal or null, and 2 for a repetition.
  func show<Shown: Entity>(
    _ reply: RESPValue, of: Shown.Type, key: String, after verb: String, hasToken: Bool = false
  ) throws {
    try show(reply, absent: Shown.absent(key, after: verb)) {
      try Shown.several($0, style: style)
        ?? Shown.line(try Shown.View($0), after: verb, style: style)
    }
    if reply["accepted"]?.bool == false { throw ExitCode.refused }
    if hasToken, reply["reason"]?.string == "repeated" { throw ExitCode.repeated }
  }

  /// Prints a reply; for null, prints `absent` and throws exit status 1.
  func show(_ reply: RESPValue, absent: String, _ text: (RESPValue) throws -> String) throws {
    if reply.isNull {
      Output.error(absent, code: "NOTFOUND")
      throw ExitCode.refused
    }
    Output.line(json ? reply.json : try text(reply))
  }

  /// Prints `yes`; if there was nothing to do, prints `no` and throws exit status 1.
  func show(done: RESPValue, yes: String, no: String) throws {
    try show(done.bool == true ? done : .null, absent: no) { _ in yes }
  }

  // MARK: Errors

  func explain(_ error: CountdownClientError) -> String {
    switch error {
    case .daemonNotRunning(Client.usualPath):
      return "no countdownd listens at \(Client.usualPath); start it with "
        + "'systemctl start countdownd.socket', or give --socket"
    case .daemonNotRunning(let path):
      return "no countdownd listens at \(path); start one with 'countdownd --socket "
        + "\(path) --state-directory DIR', or give another --socket"
    case .notASocket(let path):
      return "\(path) is not a socket; give another --socket"
    case .permissionDenied(let path, let group):
      let owner = group.map { ": it belongs to the group '\($0)'" } ?? ""
      let advice = group.map { "join it with 'sudo usermod -aG \($0) $USER' and log in again" }
      return "not allowed to use \(path)\(owner); \(advice ?? "ask its owner"), or give --socket"
    case .pathTooLong(let path, let limit):
      return "a socket's path has at most \(limit) bytes, this one has \(path.utf8.count): "
        + "\(path); use a shorter one, or a relative one from its directory"
    // These codes add nothing to the message.
    case .server(.invalid, let message), .server(.notFound, let message): return message
    case .server(let code, let message): return "\(code) \(message)"
    case .timedOut(let limit), .unsure(.timedOut(let limit)):
      return "\(path) did not answer within \(limit.humanText)"
    case .unsure(.connectionClosed): return "countdownd closed the connection before it answered"
    case .connectionFailed, .notCountdownd, .connectionClosed, .clientClosed, .protocolViolation,
      .invalidUse, .unsure(.cancelled), .unsure(.clientClosed):
      return "\(error)"
    }
  }

  func exitCode(_ error: CountdownClientError) -> ExitCode {
    switch error {
    case .daemonNotRunning, .notASocket, .notCountdownd, .permissionDenied, .pathTooLong,
      .connectionFailed, .timedOut, .unsure(.timedOut):
      return .unreachable
    case .server(.notFound, _): return .refused
    case .server, .connectionClosed, .clientClosed, .protocolViolation, .invalidUse, .unsure:
      return .serverError
    }
  }
}

extension CountdownClientError {
  /// The code of the error for `--json`.
  fileprivate var code: String {
    switch self {
    case .server(let code, _): code.rawValue
    case .daemonNotRunning, .notASocket, .permissionDenied, .pathTooLong, .connectionFailed:
      "UNREACHABLE"
    case .notCountdownd, .protocolViolation: "PROTOCOL"
    case .timedOut, .unsure(.timedOut): "TIMEOUT"
    case .connectionClosed, .clientClosed, .invalidUse, .unsure: "CLOSED"
    }
  }
}
