import Glibc

/// Why the sockets that systemd passed cannot be used. The description says what the socket unit
/// needs instead.
package enum ActivationError: Error, Equatable, CustomStringConvertible {
  /// `LISTEN_FDS` or the like is malformed or names a closed descriptor; `code` is an `errno`.
  case unreadable(code: Int32)
  /// At least one socket does not have the wanted name.
  case wrongName(passed: [String], wanted: String)
  /// Only one socket is served.
  case tooMany(Int)
  /// The descriptor is not a listening Unix stream socket.
  case wrongType(name: String, descriptor: Int32)

  package var description: String {
    switch self {
    case .unreadable(let code):
      return unsafe "cannot take over the sockets of LISTEN_FDS: \(String(cString: strerror(code)))"
    case .wrongName(let passed, let wanted):
      let names = passed.map { "\"\($0)\"" }.joined(separator: ", ")
      return "systemd passed sockets named \(names); "
        + "the socket unit needs FileDescriptorName=\(wanted), and nothing else may be passed"
    case .tooMany(let count):
      return "systemd passed \(count) sockets, and countdownd listens at one; "
        + "the socket unit needs exactly one ListenStream="
    case .wrongType(let name, let descriptor):
      return
        "what systemd passed as \"\(name)\" (descriptor \(descriptor)) is not a listening Unix "
        + "stream socket; the socket unit needs ListenStream= with an absolute path, and Accept=no"
    }
  }
}
