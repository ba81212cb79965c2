import CEpoll
import Glibc

/// Accepts connections at a listening socket.
final class Listener: EventSource {
  /// The most new connections per iteration, so that a crowd of them does not delay other clients.
  private static let acceptedPerIteration = 64
  private static let retryMilliseconds: UInt64 = 1_000

  /// The path of the socket.
  let path: String
  private let loop: EventLoop
  private let descriptor: Int32
  private let accepted: (Int32) -> Void
  private let failed: (Int32) -> Void
  private var isClosed = false

  /// - Parameters:
  ///   - descriptor: a listening socket, which `close` closes.
  ///   - accepted: receives each new socket, and has to close it.
  ///   - failed: receives the error number, such as `EMFILE`, if no connection can be accepted at
  ///     present. Accepting is tried again after a second, or when `retry` is called.
  init(
    _ loop: EventLoop, _ descriptor: Int32, accepted: @escaping (Int32) -> Void,
    failed: @escaping (Int32) -> Void
  ) throws(ListenError) {
    self.loop = loop
    self.descriptor = descriptor
    path = ListeningSocket.path(of: descriptor)
    self.accepted = accepted
    self.failed = failed
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
    guard loop.add(self, descriptor, EventLoop.readable) else {
      throw .notPossible("wait for clients", errno)
    }
  }

  func ready(_ events: EventLoop.Events) {
    for _ in 0..<Self.acceptedPerIteration where !isClosed {
      let kind = Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
      let socket = countdownd_accept(descriptor, kind)
      if socket >= 0 {
        accepted(socket)
        continue
      }
      switch errno {
      case EAGAIN: return
      // The client has closed already.
      case EINTR, ECONNABORTED: continue
      default: return pause(errno)
      }
    }
  }

  /// Accepts nothing until `retry`: the loop would spin while descriptors or memory are exhausted.
  private func pause(_ code: Int32) {
    failed(code)
    loop.update(descriptor, nil)
    loop.schedule(inMilliseconds: Self.retryMilliseconds) { [weak self] in self?.retry() }
  }

  /// Accepts again. Called when a connection was closed, or a second has passed.
  func retry() {
    if !isClosed { loop.update(descriptor, EventLoop.readable) }
  }

  func close() {
    guard !isClosed else { return }
    isClosed = true
    loop.remove(descriptor)
    Glibc.close(descriptor)
  }
}
