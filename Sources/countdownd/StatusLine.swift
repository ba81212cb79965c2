import CountdownServer
import Synchronization
import SystemdSupport

/// The line that `systemctl status` shows: problems first, for as long as they last.
final class StatusLine: Sendable {
  private struct State {
    var troubles: [String] = []
    var news: String?

    var text: String { (troubles + [news].compactMap(\.self)).joined(separator: "; ") }
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

  func isListening(_ status: ServerStatus) {
    state.withLock { state in
      state.troubles = status.troubles
      state.news = "listening"
      notifier.ready(status: state.text)
    }
  }

  func isReloading() { notifier.reloading() }

  func hasReloaded(_ status: ServerStatus, isRefused: Bool) {
    state.withLock { state in
      state.troubles = status.troubles
      state.news = isRefused ? nil : "configuration reloaded"
      notifier.ready(status: state.text)
    }
  }
}
