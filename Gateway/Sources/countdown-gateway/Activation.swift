import ArgumentParser

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The interface between systemd and a service. Source: sd_listen_fds(3), sd_notify(3),
/// systemd.exec(5).
enum Activation {
  private static let first: Int32 = 3
  /// The name of the socket for operators: `FileDescriptorName=` of its unit.
  private static let admin = "countdown-gateway-admin"

  /// The sockets that systemd has opened: one for everybody, one for operators.
  static var descriptors: (everybody: Int32?, operators: Int32?) {
    get throws {
      guard variable("LISTEN_PID") == "\(getpid())",
        let count = variable("LISTEN_FDS").flatMap({ Int32($0) })
      else { return (nil, nil) }
      let names = (variable("LISTEN_FDNAMES") ?? "").split(
        separator: ":", omittingEmptySubsequences: false)
      var everybody: Int32?
      var operators: Int32?
      for index in 0..<count {
        _ = fcntl(first + index, F_SETFD, FD_CLOEXEC)
        let isAdmin = names.dropFirst(Int(index)).first == admin[...]
        guard (isAdmin ? operators : everybody) == nil else {
          throw ValidationError(
            "systemd passes \(count) sockets; pass one, and one with FileDescriptorName=\(admin)")
        }
        if isAdmin { operators = first + index } else { everybody = first + index }
      }
      return (everybody, operators)
    }
  }

  /// Returns the file of a credential from systemd (`LoadCredential=`); nil if there is none.
  static func credential(_ name: String) -> String? {
    guard let path = variable("CREDENTIALS_DIRECTORY").map({ "\($0)/\(name)" }),
      access(path, F_OK) == 0
    else { return nil }
    return path
  }

  /// Notifies systemd that connections are accepted.
  static func isReady() {
    guard let path = variable("NOTIFY_SOCKET"), path.utf8.count < 108 else { return }
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return }
    defer { close(descriptor) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { place in
      place.copyBytes(from: path.utf8)
      // An abstract socket, which has no file.
      if path.hasPrefix("@") { place[0] = 0 }
    }
    let length = MemoryLayout<sa_family_t>.size + path.utf8.count
    _ = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        sendto(descriptor, "READY=1", 7, 0, $0, socklen_t(length))
      }
    }
  }

  private static func variable(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
  }
}
