import Glibc
import NIOCore

/// Who is at the other end of a Unix socket, as the kernel knows it: `struct ucred`.
struct PeerCredentials: Sendable {
  var pid: Int32
  var uid: UInt32
  var gid: UInt32

  /// Source: unix(7), SO_PEERCRED.
  static func read(from channel: any Channel) -> EventLoopFuture<PeerCredentials> {
    guard let provider = channel as? any SocketOptionProvider else {
      return channel.eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
    }
    return provider.unsafeGetSocketOption(
      level: .init(rawValue: SOL_SOCKET), name: .init(rawValue: SO_PEERCRED))
  }
}
