import ArgumentParser
import CountdownClient

/// A subcommand that talks to the daemon.
protocol SessionCommand: AsyncParsableCommand {
  var global: GlobalOptions { get }

  /// How long to wait for an answer; nil for ever.
  var patience: Duration? { get }

  /// Does its work; what it throws becomes a message and an exit status.
  func run(_ session: Session) async throws
}

extension SessionCommand {
  var patience: Duration? { global.patience }

  func run() async throws {
    let session = Session(global, patience: patience)
    do {
      // So also what goes on for long, as watch does, begins only with a daemon that answers.
      if patience != nil { _ = try await session.reply(["PING"]) }
      try await run(session)
    } catch let error as NoAnswer {
      Output.error("\(session.path) did not answer within \(error.patience.humanText)")
      throw ExitCode.unreachable
    } catch let error as CountdownClientError {
      Output.error(session.explain(error))
      throw session.exitCode(error)
    }
  }
}

/// The daemon did not answer in time.
struct NoAnswer: Error { let patience: Duration }

/// The daemon as a subcommand sees it, and how results are printed.
struct Session {
  let path: String
  let json: Bool
  let client: CountdownClient
  let patience: Duration?

  init(_ options: GlobalOptions, patience: Duration? = nil) {
    self.patience = patience
    path =
      options.socket ?? Output.environment("COUNTDOWND_SOCKET") ?? CountdownClient.defaultPath
    json = options.json
    client = .unconnected(path: path, name: "countdownctl")
  }

  /// Sends a command, options without a value left out.
  func send(_ words: [String], _ options: [(String, String?)] = []) async throws -> JSONValue {
    let given = options.flatMap { name, value in value.map { [name, $0] } ?? [] }
    return JSONValue(try await reply(words + given))
  }

  func reply(_ words: [String]) async throws -> RESPValue {
    try await reply(words.map { Array($0.utf8) })
  }

  /// Sends a command, and waits no longer for its reply than there is patience.
  ///
  /// - Throws: `NoAnswer`, and what `CountdownClient.send` throws.
  func reply(_ words: [[UInt8]]) async throws -> RESPValue {
    guard let patience else { return try await client.send(bytes: words) }
    // What comes first counts. The client does not leave off connecting when it is cancelled, so
    // nothing waits for it here.
    let (outcomes, outcome) = AsyncStream.makeStream(of: Result<RESPValue, any Error>.self)
    let asking = Task {
      do {
        outcome.yield(.success(try await client.send(bytes: words)))
      } catch {
        outcome.yield(.failure(error))
      }
    }
    let waiting = Task {
      try await Task.sleep(for: patience)
      outcome.yield(.failure(NoAnswer(patience: patience)))
    }
    defer {
      asking.cancel()
      waiting.cancel()
    }
    for await first in outcomes { return try first.get() }
    throw CancellationError()
  }

  /// Prints a view, or that there is none, and then ends with status 1.
  func show(_ view: JSONValue, absent: String, _ text: (JSONValue) throws -> String) throws {
    if json {
      Output.line(view.text)
    } else if view != .null {
      Output.line(try text(view))
    } else {
      Output.error(absent)
    }
    if view == .null { throw ExitCode.refused }
  }

  /// Prints that something was done, or that there was nothing to do it to, with status 1.
  func show(done: JSONValue, yes: String, no: String) throws {
    let isDone = done.bool == true
    if json {
      Output.line(done.text)
    } else if isDone {
      Output.line(yes)
    } else {
      Output.error(no)
    }
    if !isDone { throw ExitCode.refused }
  }

  // MARK: Errors

  func explain(_ error: CountdownClientError) -> String {
    switch error {
    case .daemonNotRunning(CountdownClient.defaultPath):
      return "no countdownd listens at \(CountdownClient.defaultPath); start it with "
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
    case .server(let code, let message): return "\(code) \(message)"
    case .connectionFailed, .notCountdownd, .connectionClosed, .clientClosed, .protocolViolation:
      return "\(error)"
    }
  }

  func exitCode(_ error: CountdownClientError) -> ExitCode {
    switch error {
    case .daemonNotRunning, .notASocket, .notCountdownd, .permissionDenied, .pathTooLong,
      .connectionFailed:
      return .unreachable
    case .server("NOTFOUND", _): return .refused
    case .server, .connectionClosed, .clientClosed, .protocolViolation: return .serverError
    }
  }
}
