/// What can go wrong between a client and countdownd. Every text says what to do about it.
public enum CountdownClientError: Error, Hashable, Sendable {
  /// Nothing listens at the path: there is no such socket, or nobody accepts on it.
  case daemonNotRunning(path: String)
  /// There is something else than a socket at the path.
  case notASocket(path: String)
  /// Somebody listens at the path who does not speak the protocol.
  case notCountdownd(path: String)
  /// The socket is there, and this user may not use it. `group` is the group that may, if there is
  /// one that can be joined.
  case permissionDenied(path: String, group: String?)
  /// A path that no Unix socket can have; the limit is in bytes.
  case pathTooLong(path: String, limit: Int)
  /// The connection could not be made for another reason.
  case connectionFailed(path: String, reason: String)
  /// The daemon answered with an error: its first word, and the rest.
  case server(code: String, message: String)
  /// The connection ended before the answer came. Whether the command was done is unknown; the next
  /// call connects again.
  case connectionClosed
  /// `close()` was called.
  case clientClosed
  /// The daemon said something that the protocol does not provide for.
  case protocolViolation(String)

  /// An error as the protocol spells it: `CODE text`.
  public init(reply: String) {
    let words = reply.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
    self = .server(code: String(words[0]), message: words.count > 1 ? String(words[1]) : "")
  }
}

extension CountdownClientError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .daemonNotRunning(CountdownClient.defaultPath):
      return "no countdownd listens at \(CountdownClient.defaultPath); start it with "
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
    case .server(let code, let message): return message.isEmpty ? code : "\(code) \(message)"
    case .connectionClosed: return "countdownd closed the connection before it answered"
    case .clientClosed: return "this client has been closed"
    case .protocolViolation(let what): return "countdownd broke the protocol: \(what)"
    }
  }
}
