/// An error from the client or from countdownd. The description says how to resolve it.
///
/// Calls throw nothing else, but for `CancellationError` when their task is cancelled:
///
///     do {
///       try await client.countdown.pause("+4512345678")
///     } catch CountdownClientError.server(.notFound, _) {
///       // there is none
///     } catch let error as CountdownClientError {
///       print(error)
///     }
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
  /// The connection was closed before the reply came. Whether the daemon ran the command is
  /// unknown; the next call connects again.
  case connectionClosed
  /// `close()` was called.
  case clientClosed
  /// The daemon sent something that violates the protocol.
  case protocolViolation(String)
  /// The daemon did not answer within the time limit. It may still run the command.
  case timedOut(Duration)
  /// The call itself is wrong, such as a command without a name.
  case invalidUse(String)

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
    case .connectionClosed: return "countdownd closed the connection before it answered"
    case .timedOut(let limit): return "countdownd did not answer within \(limit)"
    case .invalidUse(let what): return what
    case .clientClosed: return "this client has been closed"
    case .protocolViolation(let what): return "countdownd broke the protocol: \(what)"
    }
  }
}
