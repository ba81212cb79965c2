import CEpoll
import Glibc
import Runtime

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
  private let refused: (Int32) -> Void
  private let failed: (Int32) -> Void
  private var isClosed = false
  /// Closed to accept a connection that is refused, while no other descriptor is free; -1 if
  /// another thread was faster to take it.
  private var spare = Listener.openSpare()

  /// - Parameters:
  ///   - descriptor: a listening socket, which `close` closes.
  ///   - accepted: receives each new socket, and has to close it.
  ///   - refused: receives a new socket for which there is no descriptor, and has to close it at
  ///     once.
  ///   - failed: receives the error number, such as `EMFILE`, if no connection can be accepted at
  ///     present. Accepting is tried again after a second, or when `retry` is called.
  init(
    _ loop: EventLoop, _ descriptor: Int32, accepted: @escaping (Int32) -> Void,
    refused: @escaping (Int32) -> Void, failed: @escaping (Int32) -> Void
  ) throws(ListenError) {
    self.loop = loop
    self.descriptor = descriptor
    path = ListeningSocket.path(of: descriptor)
    self.accepted = accepted
    self.refused = refused
    self.failed = failed
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
    guard loop.add(self, descriptor, EventLoop.readable) else {
      throw .notPossible("wait for clients", errno)
    }
  }

  func ready(_ events: EventLoop.Events) {
    for _ in 0..<Self.acceptedPerIteration where !isClosed {
      let socket = accept()
      if socket >= 0 {
        accepted(socket)
        continue
      }
      var code = errno
      if code == EMFILE || code == ENFILE { code = refuseOne() ?? EINTR }
      switch code {
      case EAGAIN: return
      // The client has closed already.
      case EINTR, ECONNABORTED: continue
      default: return pause(code)
      }
    }
  }

  private func accept() -> Int32 {
    countdownd_accept(descriptor, Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue))
  }

  private static func openSpare() -> Int32 { unsafe open("/dev/null", O_RDONLY | O_CLOEXEC) }

  /// Refuses a connection for which there is no descriptor. Returns the error number if it cannot.
  private func refuseOne() -> Int32? {
    if spare >= 0 { Glibc.close(spare) }
    let socket = accept()
    let code = errno
    if socket >= 0 { refused(socket) }
    spare = Self.openSpare()
    return socket >= 0 ? nil : code
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
    if spare >= 0 { Glibc.close(spare) }
  }
}
