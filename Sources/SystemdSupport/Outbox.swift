import CSystemd
import DequeModule
import Dispatch
import Glibc
import Synchronization

/// Messages that a thread of its own sends one by one, so that a receiver that does not read stops
/// nobody else.
///
/// The thread has a descriptor table of its own: libsystemd opens a socket for each `sd_notify`,
/// and files for long log entries, which must not fail because clients have taken all descriptors.
/// A descriptor that `send` opens exists in this thread only.
///
/// Lives until the process ends.
package final class Outbox<Message: Sendable>: Sendable {
  private struct State {
    var waiting: Deque<Message> = []
    var sending: Message?
    /// Signalled once nothing waits.
    var drained: [DispatchSemaphore] = []
  }

  private let state = Mutex(State())
  private let wake = DispatchSemaphore(value: 0)
  private let send: @Sendable (Message) -> Void

  package init(_ send: @escaping @Sendable (Message) -> Void) {
    self.send = send
    startThread { [self] in
      // Source: close_range(2). Before Linux 5.9, and where it is forbidden, the table is shared.
      _ = countdownd_unshare_descriptors(UInt32(STDERR_FILENO + 1))
      while true {
        wake.wait()
        while let message = next() { send(message) }
      }
    }
  }

  /// Changes what waits: adds a message, for example.
  package func change(_ body: (inout Deque<Message>) -> Void) {
    state.withLock { body(&$0.waiting) }
    wake.signal()
  }

  /// Waits until everything is sent, but not for long. Returns what is not.
  @discardableResult
  package func drain(atMost limit: DispatchTimeInterval = .seconds(1)) -> [Message] {
    let done = DispatchSemaphore(value: 0)
    state.withLock { state in
      let isDrained = state.sending == nil && state.waiting.isEmpty
      if isDrained { done.signal() } else { state.drained.append(done) }
    }
    guard done.wait(timeout: .now() + limit) == .timedOut else { return [] }
    return state.withLock { [$0.sending].compactMap(\.self) + $0.waiting }
  }

  private func next() -> Message? {
    state.withLock { state in
      state.sending = state.waiting.popFirst()
      if state.sending == nil {
        for waiter in state.drained { waiter.signal() }
        state.drained = []
      }
      return state.sending
    }
  }
}

/// Starts a thread that receives no signals, as others watch them.
private func startThread(_ body: @escaping @Sendable () -> Never) {
  final class Box {
    let body: @Sendable () -> Never
    init(_ body: @escaping @Sendable () -> Never) { self.body = body }
  }
  var all = sigset_t()
  var old = sigset_t()
  unsafe sigfillset(&all)
  unsafe pthread_sigmask(SIG_BLOCK, &all, &old)
  defer { unsafe pthread_sigmask(SIG_SETMASK, &old, nil) }
  var thread = pthread_t()
  let box = unsafe Unmanaged.passRetained(Box(body)).toOpaque()
  let code = unsafe pthread_create(
    &thread, nil, { unsafe Unmanaged<Box>.fromOpaque($0!).takeRetainedValue().body() }, box)
  precondition(code == 0, unsafe "cannot start a thread: \(String(cString: strerror(code)))")
  pthread_detach(thread)
}
