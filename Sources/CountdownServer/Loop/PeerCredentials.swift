import Countdowns
import Glibc

extension Peer {
  /// `struct ucred`.
  private struct Credentials {
    var pid: pid_t = 0
    var uid: uid_t = 0
    var gid: gid_t = 0
  }

  /// Reads the credentials of a Unix socket's client from the kernel; nil if it has none.
  ///
  /// Source: unix(7), SO_PEERCRED; socket(7), SO_PEERGROUPS.
  static func read(from socket: Int32) -> Peer? {
    var credentials = Credentials()
    var length = socklen_t(MemoryLayout<Credentials>.size)
    guard unsafe getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0,
      let others = groups(of: socket)
    else { return nil }
    return Peer(
      uid: credentials.uid, groups: [credentials.gid] + others.filter { $0 != credentials.gid },
      pid: credentials.pid)
  }

  private static func groups(of socket: Int32) -> [gid_t]? {
    // Enough for most users. If a user has more groups, the kernel returns how many.
    var capacity = 32
    while true {
      var groups = [gid_t](repeating: 0, count: capacity)
      var length = socklen_t(capacity * MemoryLayout<gid_t>.stride)
      if unsafe getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, &groups, &length) == 0 {
        return Array(groups.prefix(Int(length) / MemoryLayout<gid_t>.stride))
      }
      let needed = Int(length) / MemoryLayout<gid_t>.stride
      guard errno == ERANGE, needed > capacity else { return nil }
      capacity = needed
    }
  }
}
