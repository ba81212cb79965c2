/// How a connection that is behind with its events gets on with reading them.
package struct Lag {
  /// Bytes it had taken when somebody looked last.
  package var taken: Int
  /// It does not read, so nobody waits for it until it has caught up.
  package var isGivenUp = false
}

/// Those who are so far behind with reading that more events at once could be too many for them.
///
/// A mass expiry says more in a moment than most clients read in a second. Whoever reads is not to
/// be cut off for it, so whoever lets time pass can do it at the pace of its slowest reader.
extension Dispatcher {
  /// A quarter of what it may leave unread: more can come before anybody looks.
  private var mostUnread: Int { settings.maxOutput / 4 }

  /// To be called when events were added to a session.
  func noteLag(_ session: Session) {
    guard session.lag == nil, session.pendingOutput > mostUnread else { return }
    session.lag = Lag(taken: session.takenBytes)
    laggards.append(session)
  }

  /// To be called when a session has taken something, or will take nothing more. Returns whether it
  /// was behind and is not any more.
  package func noteTaken(_ session: Session) -> Bool {
    guard session.lag != nil, session.isClosing || session.pendingOutput <= mostUnread / 2 else {
      return false
    }
    session.lag = nil
    laggards.removeAll { $0 === session }
    return true
  }

  /// Whether somebody is behind who reads.
  package var hasReadingLaggards: Bool {
    !laggards.isEmpty && laggards.contains { $0.lag?.isGivenUp == false && !$0.isClosing }
  }

  /// Gives up who has taken less than that many bytes since it was looked at last.
  package func giveUpLaggards(whoTookLessThan least: Int) {
    for session in laggards {
      guard var lag = session.lag else { continue }
      if session.takenBytes - lag.taken < least { lag.isGivenUp = true }
      lag.taken = session.takenBytes
      session.lag = lag
    }
  }
}

extension Session {
  /// Bytes that have left the daemon.
  fileprivate var takenBytes: Int { handedBytes - unwrittenBytes }
}
