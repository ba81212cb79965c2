import CountdownServer
import Synchronization
import SystemdSupport

/// The line that `systemctl status` shows: problems first, for as long as they last.
final class StatusLine: Sendable {
  private struct State {
    var troubles: [String] = []
    /// Why the newest configuration was refused; nil if it was not.
    var refusal: String?
    var news: String?

    var text: String {
      (troubles + [refusal, news].compactMap(\.self)).joined(separator: "; ")
    }
  }

  private let notifier: ServiceNotifier
  // The lock is held while sending, so that the newest line is sent last.
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

  /// - Parameter problem: why the new configuration was refused; nil if it was not.
  func hasReloaded(refusedFor problem: String? = nil) {
    state.withLock { state in
      state.refusal = problem.map { "the new configuration is refused, the old one stays: \($0)" }
      state.news = problem == nil ? "configuration reloaded" : nil
      notifier.ready(status: state.text)
    }
  }
}
