import Glibc

/// The service manager's end of sd_notify: a datagram socket that `NOTIFY_SOCKET` points to.
struct NotifySocket {
  private let descriptor: Int32
  private let path: String

  /// Must run in a process of its own: the environment belongs to the whole process.
  init() {
    path = "/tmp/countdownd-notify-\(getpid()).sock"
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
    unlink(path)
    precondition(bindUnix(descriptor, to: path) == 0, "cannot bind \(path)")
    setenv("NOTIFY_SOCKET", path, 1)
  }

  /// Waits for the next message; nil if none arrives within 30 s.
  func receive() -> String? {
    guard isReadable(withinMilliseconds: 30_000) else { return nil }
    var buffer = [UInt8](repeating: 0, count: 8192)
    let count = recv(descriptor, &buffer, buffer.count, 0)
    return String(decoding: buffer[..<count], as: UTF8.self)
  }

  var hasMessage: Bool { isReadable(withinMilliseconds: 0) }

  private func isReadable(withinMilliseconds limit: Int32) -> Bool {
    var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&request, 1, limit) > 0
  }

  func close() {
    unlink(path)
    Glibc.close(descriptor)
  }
}

/// bind(2) to a path.
func bindUnix(_ descriptor: Int32, to path: String) -> Int32 {
  var address = sockaddr_un()
  address.sun_family = sa_family_t(AF_UNIX)
  withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
  return withUnsafePointer(to: address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
    }
  }
}
