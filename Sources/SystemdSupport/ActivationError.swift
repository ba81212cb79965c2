import CSystemd
import Glibc

/// Why the sockets that systemd passed cannot be used. The description says what the socket unit
/// needs instead.
package enum ActivationError: Error, Equatable, CustomStringConvertible {
  /// `LISTEN_FDS` or the like is malformed or names a closed descriptor; `code` is an `errno`.
  case unreadable(code: Int32)
  /// At least one socket does not have the wanted name.
  case wrongName(passed: [String], wanted: String)
  /// The descriptor is not a listening Unix stream socket.
  case wrongType(name: String, descriptor: Int32, found: DescriptorKind)

  package var description: String {
    switch self {
    case .unreadable(let code):
      return unsafe "cannot take over the sockets of LISTEN_FDS: \(String(cString: strerror(code)))"
    case .wrongName(let passed, let wanted):
      let names = passed.map { "\"\($0)\"" }.joined(separator: ", ")
      return "systemd passed sockets named \(names); "
        + "the socket unit needs FileDescriptorName=\(wanted), and nothing else may be passed"
    case .wrongType(let name, let descriptor, let found):
      return "systemd passed \(found) as \"\(name)\" (descriptor \(descriptor)); "
        + "the socket unit needs ListenStream= with an absolute path, and Accept=no"
    }
  }
}

/// The kind of a descriptor, described for an error message.
package enum DescriptorKind: Equatable, Sendable, CustomStringConvertible {
  case unixSocket(listening: Bool, stream: Bool)
  case networkSocket
  case otherSocket
  case notASocket

  init(of descriptor: Int32) {
    let stream = Int32(SOCK_STREAM.rawValue)
    if sd_is_socket(descriptor, AF_UNSPEC, 0, -1) <= 0 {
      self = .notASocket
    } else if sd_is_socket(descriptor, AF_UNIX, 0, -1) > 0 {
      self = .unixSocket(
        listening: sd_is_socket(descriptor, AF_UNIX, 0, 1) > 0,
        stream: sd_is_socket(descriptor, AF_UNIX, stream, -1) > 0)
    } else if [AF_INET, AF_INET6].contains(where: { sd_is_socket(descriptor, $0, 0, -1) > 0 }) {
      self = .networkSocket
    } else {
      self = .otherSocket
    }
  }

  package var description: String {
    switch self {
    case .unixSocket(listening: true, stream: true): return "a listening Unix stream socket"
    case .unixSocket(listening: false, stream: true): return "a Unix stream socket not listening"
    case .unixSocket(_, stream: false): return "a Unix datagram or seqpacket socket"
    case .networkSocket: return "a network socket"
    case .otherSocket: return "a socket that is neither Unix nor network"
    case .notASocket: return "something that is not a socket"
    }
  }
}
