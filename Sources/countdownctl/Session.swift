import ArgumentParser
import CountdownClient

/// A subcommand that talks to the daemon.
protocol SessionCommand: AsyncParsableCommand {
  var global: GlobalOptions { get }

  /// Does its work; what it throws becomes a message and an exit status.
  func run(_ session: Session) async throws
}

extension SessionCommand {
  func run() async throws {
    let session = Session(global)
    do {
      try await run(session)
    } catch let error as CountdownClientError {
      Output.error(session.explain(error))
      throw session.exitCode(error)
    }
  }
}

/// The daemon as a subcommand sees it, and how results are printed.
struct Session {
  let path: String
  let json: Bool
  let client: CountdownClient

  init(_ options: GlobalOptions) {
    path =
      options.socket ?? Output.environment("COUNTDOWND_SOCKET") ?? CountdownClient.defaultPath
    json = options.json
    client = .unconnected(path: path, name: "countdownctl")
  }

  /// Sends a command, options without a value left out.
  func send(_ words: [String], _ options: [(String, String?)] = []) async throws -> JSONValue {
    let given = options.flatMap { name, value in value.map { [name, $0] } ?? [] }
    return JSONValue(try await client.send(words + given))
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
    case .daemonNotRunning(let path):
      return "no countdownd listens at \(path); start it with "
        + "'systemctl start countdownd.socket', or give --socket"
    case .permissionDenied(let path, let group):
      let owner = group.map { ": it belongs to the group '\($0)'" } ?? ""
      let advice = group.map { "join it with 'sudo usermod -aG \($0) $USER' and log in again" }
      return "not allowed to use \(path)\(owner); \(advice ?? "ask its owner"), or give --socket"
    case .pathTooLong(let path, let limit):
      return "a socket's path has at most \(limit) bytes, this one has \(path.utf8.count): "
        + "\(path); use a shorter one, or a relative one from its directory"
    case .server(let code, let message): return "\(code) \(message)".printable
    case .connectionFailed, .connectionClosed, .clientClosed, .protocolViolation:
      return "\(error)".printable
    }
  }

  func exitCode(_ error: CountdownClientError) -> ExitCode {
    switch error {
    case .daemonNotRunning, .permissionDenied, .pathTooLong, .connectionFailed: return .unreachable
    case .server, .connectionClosed, .clientClosed, .protocolViolation: return .serverError
    }
  }
}
