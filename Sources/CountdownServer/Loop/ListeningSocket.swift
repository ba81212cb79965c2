import CountdownStore
import Glibc

/// A Unix socket that listens at a path, and that two daemons cannot own at the same time.
///
/// A socket file outlives a daemon that was killed. A new daemon takes it over if nobody answers
/// there, and leaves it alone if somebody does, or if the file is not a socket. A lock file beside
/// it, locked for as long as the daemon lives, decides between two that start at the same moment.
struct ListeningSocket {
  let descriptor: Int32
  let path: String
  private let lock: Int32
  private let identity: FileIdentity?

  /// - Parameter mode: the permissions of the socket file: users who may write to it may connect.
  init(path: String, mode: UInt32) throws(ListenError) {
    guard var address = Self.address(of: path) else { throw .pathTooLong(path) }
    self.path = path

    // A link planted by somebody else must not create, or lock, a file elsewhere.
    lock = unsafe open(
      path + ".lock", O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
    guard lock >= 0 else { throw .notPossible("lock \(path).lock", errno) }
    guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
      let code = errno
      Glibc.close(lock)
      throw code == EWOULDBLOCK ? .inUse(path) : .notPossible("lock \(path).lock", code)
    }

    do {
      try Self.makeWay(path, &address)
      descriptor = try Self.listen(at: path, &address, mode: mode)
    } catch {
      Glibc.close(lock)
      throw error
    }
    identity = FileIdentity(at: path)
  }

  /// The length of the queue in which clients wait during a restart, and while all descriptors are
  /// taken. The kernel limits it to `net.core.somaxconn`.
  private static let longestQueue = Int32.max

  /// Returns the path that a listening socket is bound to, as `CLIENT LIST` shows it.
  static func path(of descriptor: Int32) -> String {
    var address = sockaddr_un()
    var length = socklen_t(MemoryLayout<sockaddr_un>.size)
    let found = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe getsockname(descriptor, $0, &length)
      }
    }
    guard found == 0 else { return "" }
    return unsafe withUnsafeBytes(of: address.sun_path) {
      unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
    }
  }

  /// Removes the socket file, unless it is another daemon's by now, and releases the lock.
  func remove() {
    if identity != nil, FileIdentity(at: path) == identity { unsafe unlink(path) }
    Glibc.close(lock)
  }

  private static func makeWay(
    _ path: String, _ address: inout sockaddr_un
  ) throws(ListenError) {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else {
      guard errno == ENOENT else { throw .notPossible("look at \(path)", errno) }
      return
    }
    guard status.st_mode & S_IFMT == S_IFSOCK else { throw .notASocket(path) }
    let probe = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard probe >= 0 else { throw .notPossible("make a socket", errno) }
    defer { Glibc.close(probe) }
    if unsafe withSocketAddress(&address, { unsafe connect(probe, $0, $1) }) == 0 {
      throw .inUse(path)
    }
    // Only a refused connection shows that nobody listens; a full queue shows the opposite.
    guard errno == ECONNREFUSED || errno == ENOENT else {
      if errno == EAGAIN { throw .inUse(path) }
      throw .notPossible("find out who listens at \(path)", errno)
    }
    guard unsafe unlink(path) == 0 || errno == ENOENT else {
      throw .notPossible("remove the old socket \(path)", errno)
    }
  }

  private static func listen(
    at path: String, _ address: inout sockaddr_un, mode: UInt32
  ) throws(ListenError) -> Int32 {
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0 else { throw .notPossible("make a socket", errno) }
    // Nobody may connect before the permissions are set.
    let old = umask(0o177)
    let bound = unsafe withSocketAddress(&address) { unsafe bind(descriptor, $0, $1) }
    let code = errno
    umask(old)
    guard bound == 0 else {
      Glibc.close(descriptor)
      throw .notPossible("make the socket \(path)", code)
    }
    guard unsafe chmod(path, mode) == 0, Glibc.listen(descriptor, longestQueue) == 0 else {
      let code = errno
      Glibc.close(descriptor)
      unsafe unlink(path)
      throw .notPossible("listen at \(path)", code)
    }
    return descriptor
  }

  private static func address(of path: String) -> sockaddr_un? {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    let fits = unsafe withUnsafeMutableBytes(of: &address.sun_path) { target in
      guard !bytes.isEmpty, bytes.count < target.count else { return false }
      unsafe target.copyBytes(from: bytes)
      return true
    }
    return fits ? address : nil
  }

  private static func withSocketAddress(
    _ address: inout sockaddr_un, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) -> Int32 {
    unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
  }
}

/// Why the daemon cannot listen, and what to do.
package enum ListenError: Error, Equatable, CustomStringConvertible {
  case inUse(String)
  case notASocket(String)
  case pathTooLong(String)
  case notPossible(String, Int32)

  package var description: String {
    switch self {
    case .inUse(let path):
      "another countdownd listens at \(path) already; stop it, or choose another --socket"
    case .notASocket(let path):
      "\(path) exists and is not a socket; move it away, or choose another --socket"
    case .pathTooLong(let path):
      "the socket path is \(path.utf8.count) bytes long, and must have 1 to 107: \(path)"
    case .notPossible(let what, let code):
      unsafe "cannot \(what): \(String(cString: strerror(code)))"
        + (code == ENOENT ? "; make its directory, or choose another --socket" : "")
        + (code == EACCES ? "; may this user write there?" : "")
    }
  }
}
