/// An error from the client or from countdownd. The description says how to resolve it.
///
/// Calls throw nothing else, but for `CancellationError` if their task is cancelled before the
/// command is sent. `mayHaveRun` says whether the daemon may have run the command.
///
///     do {
///       try await client.countdown.pause("+4512345678")
///     } catch CountdownClientError.server(.notFound, _) {
///       // there is none
///     } catch let error as CountdownClientError where error.mayHaveRun {
///       // read it
///     } catch let error as CountdownClientError {
///       print(error)
///     }
///
/// Later releases may have more cases: keep a `default` in a `switch`.
public enum CountdownClientError: Error, Hashable, Sendable {
  /// Nothing listens at the path.
  case daemonNotRunning(path: String)
  /// The file at the path is not a socket.
  case notASocket(path: String)
  /// Another program listens at the path.
  case notCountdownd(path: String)
  /// This user may not use the socket. `group` is a group with access; nil if none can be joined.
  case permissionDenied(path: String, group: String?)
  /// The path is too long for a Unix socket; the limit is in bytes.
  case pathTooLong(path: String, limit: Int)
  /// Connecting failed for another reason.
  case connectionFailed(path: String, reason: String)
  /// The daemon replied with an error: `code` is its first word.
  case server(code: ErrorCode, message: String)
  /// The command was sent, and its reply did not come: the daemon may have run it, or not.
  case unsure(Interruption)
  /// The connection was closed before the command was sent; the next call connects again.
  case connectionClosed
  /// `close()` was called before the command was sent; a call under way throws
  /// `unsure(.clientClosed)`.
  case clientClosed
  /// The daemon sent something that violates the protocol.
  case protocolViolation(String)
  /// The client did not reach the daemon within the time limit, and has sent nothing.
  case timedOut(Duration)
  /// The call itself is wrong, such as a command without a name.
  case invalidUse(String)

  /// Whether the daemon may have run the command.
  public var mayHaveRun: Bool {
    switch self {
    case .unsure, .protocolViolation, .server(.unsure, _): true
    default: false
    }
  }

  /// Reads an error reply: `CODE text`.
  public init(reply: String) {
    let words = reply.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
    self = .server(
      code: .init(rawValue: String(words[0])), message: words.count > 1 ? String(words[1]) : "")
  }

  /// Converts an error of any layer below: to one of this type, or a `CancellationError`.
  static func converting(_ error: any Error) -> any Error {
    switch error {
    case is CountdownClientError, is CancellationError: error
    default: Self.connectionClosed
    }
  }
}

/// Why a call ended before the daemon's reply came.
public enum Interruption: Sendable, Hashable {
  /// The task of the call was cancelled.
  case cancelled
  /// The time limit was over.
  case timedOut(Duration)
  /// The connection was closed.
  case connectionClosed
  /// `close()` was called.
  case clientClosed

  /// The error if the command has not been sent.
  var errorBeforeSending: any Error {
    switch self {
    case .cancelled: CancellationError()
    case .timedOut(let limit): CountdownClientError.timedOut(limit)
    case .connectionClosed: CountdownClientError.connectionClosed
    case .clientClosed: CountdownClientError.clientClosed
    }
  }
}

extension Error {
  /// Whether a call of `Client` ended because its task was cancelled: before it was sent
  /// (`CancellationError`), or afterwards (`CountdownClientError.unsure(.cancelled)`).
  public var isCancellation: Bool {
    self is CancellationError || self as? CountdownClientError == .unsure(.cancelled)
  }
}

extension CountdownClientError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .daemonNotRunning(Client.usualPath):
      return "no countdownd listens at \(Client.usualPath); start it with "
        + "'systemctl start countdownd.socket', or give the path of another socket"
    case .daemonNotRunning(let path):
      return "no countdownd listens at \(path); start one with 'countdownd --socket \(path)', or "
        + "give the path of another socket"
    case .notASocket(let path):
      return "\(path) is not a socket; give the path of another one"
    case .notCountdownd(let path): return "what answers at \(path) is not countdownd"
    case .permissionDenied(let path, let group?):
      return "not allowed to use \(path): it belongs to the group '\(group)'; join it with "
        + "'sudo usermod -aG \(group) $USER' and log in again"
    case .permissionDenied(let path, nil):
      return "not allowed to use \(path): ask who owns it, or give the path of another socket"
    case .pathTooLong(let path, let limit):
      return "the path of a Unix socket has at most \(limit) bytes, this one has "
        + "\(path.utf8.count): \(path)"
    case .connectionFailed(let path, let reason): return "cannot connect to \(path): \(reason)"
    case .server(let code, let message): return message.isEmpty ? "\(code)" : "\(code) \(message)"
    case .unsure(.cancelled): return "the call was cancelled; countdownd may have run the command"
    case .unsure(.timedOut(let limit)):
      return "countdownd did not answer within \(limit); it may have run the command"
    case .unsure(.connectionClosed):
      return "countdownd closed the connection before it answered; it may have run the command"
    case .unsure(.clientClosed):
      return "this client was closed during the call; countdownd may have run the command"
    case .connectionClosed: return "countdownd closed the connection; nothing was sent"
    case .timedOut(let limit): return "could not reach countdownd within \(limit)"
    case .invalidUse(let what): return what
    case .clientClosed: return "this client has been closed"
    case .protocolViolation(let what): return "countdownd broke the protocol: \(what)"
    }
  }
}
