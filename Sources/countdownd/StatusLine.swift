import CountdownServer
import Synchronization
import SystemdSupport

/// The line that `systemctl status` shows, of what everybody has to say: what is wrong comes first,
/// and stays there for as long as it is.
final class StatusLine: Sendable {
  private struct State {
    var troubles: [String] = []
    /// Why the newest configuration does not count.
    var refusal: String?
    var news: String?

    var text: String {
      (troubles + [refusal, news].compactMap(\.self)).joined(separator: "; ")
    }
  }

  private let notifier: ServiceNotifier
  // What is sent last is what is true, so it is sent under the lock.
  private let state = Mutex(State())

  init(_ notifier: ServiceNotifier) { self.notifier = notifier }

  func isAlive(_ status: ServerStatus) {
    state.withLock { state in
      state.troubles = status.troubles
      state.news = status.load
      notifier.watchdog()
      notifier.status(state.text)
    }
  }

  func isListening() {
    state.withLock { state in
      state.news = "listening"
      notifier.ready(status: state.text)
    }
  }

  func isReloading() { notifier.reloading() }

  /// - Parameter problem: why the old configuration stays; nil if it does not.
  func hasReloaded(refusedFor problem: String? = nil) {
    state.withLock { state in
      state.refusal = problem.map { "the new configuration is refused, the old one stays: \($0)" }
      state.news = problem == nil ? "configuration reloaded" : nil
      notifier.ready(status: state.text)
    }
  }
}
