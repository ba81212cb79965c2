import CSystemd
import Glibc

/// The socket that systemd listened on before it started the daemon (socket activation).
///
/// Source: sd_listen_fds_with_names(3), systemd.socket(5).
package enum ActivatedSockets {
  /// Returns the descriptor of the socket unit called `name`; nil if systemd passed none. It is a
  /// listening Unix stream socket with close-on-exec set, and belongs to the caller. The unit
  /// decides whether it blocks; by default it does.
  ///
  /// Call it once: it clears the environment, so that no process started later takes the
  /// descriptors for its own. It throws unless there is one descriptor, and it is what `name`
  /// expects: clients of others would wait forever.
  package static func take(name: String) throws(ActivationError) -> Int32? {
    try select(from: receive(), name: name)
  }

  /// One descriptor as systemd passed it.
  struct Passed: Equatable {
    var descriptor: Int32
    var name: String
  }

  private static func receive() throws(ActivationError) -> [Passed] {
    guard unsafe getenv("LISTEN_FDS") != nil else { return [] }
    guard let libsystemd = unsafe libsystemd else { throw .unreadable(code: ELIBACC) }
    var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
    let count = unsafe libsystemd.pointee.sd_listen_fds_with_names(1, &names)
    guard count >= 0 else { throw .unreadable(code: -count) }
    defer {
      for index in 0..<Int(count) { unsafe free(names?[index]) }
      unsafe free(names)
    }
    return (0..<count).map { index in
      let name = unsafe names?[Int(index)].map { unsafe String(cString: $0) } ?? unnamed
      return Passed(descriptor: SD_LISTEN_FDS_START + index, name: name)
    }
  }

  static func select(from passed: [Passed], name: String) throws(ActivationError) -> Int32? {
    // A unit without FileDescriptorName= passes its own name; a launcher that knows no names, such
    // as systemd-socket-activate, passes none.
    let accepted = [name, name + ".socket", unnamed]
    for socket in passed where !accepted.contains(socket.name) {
      throw .wrongName(passed: passed.map(\.name), wanted: name)
    }
    guard passed.count <= 1 else { throw .tooMany(passed.count) }
    guard let socket = passed.first else { return nil }
    guard let libsystemd = unsafe libsystemd,
      unsafe libsystemd.pointee.sd_is_socket_unix(
        socket.descriptor, Int32(SOCK_STREAM.rawValue), 1, nil, 0) > 0
    else {
      throw .wrongType(name: socket.name, descriptor: socket.descriptor)
    }
    return socket.descriptor
  }

  /// The name that libsystemd gives a descriptor passed without one.
  private static let unnamed = "unknown"
}
