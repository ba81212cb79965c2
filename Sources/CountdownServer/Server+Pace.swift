import CountdownCommands
import NIOCore

/// Time goes no faster than those can read who listen.
///
/// When very many things are due at once their events can be more than a connection may leave
/// unread. While somebody is far behind and reads, the rest of what is due waits; who does not
/// read is waited for only so long, and closed when it is over its limit.
extension Server {
  private static let patience = TimeAmount.milliseconds(100)
  /// Who takes less than this within `patience` does not read.
  private static let leastTaken = 64 << 10

  /// Lets time stand still until whoever is behind has caught up, or is given up.
  func waitForReaders() {
    isBehind = true
    guard pause == nil else { return }
    pause = loop.scheduleTask(in: Self.patience) { [self] in
      pause = nil
      dispatcher.giveUpLaggards(whoTookLessThan: Self.leastTaken)
      if dispatcher.hasReadingLaggards { waitForReaders() } else { catchUp() }
    }
  }

  /// To be called when a connection has taken some of what it was sent.
  func hasTaken(_ session: Session) {
    guard dispatcher.noteTaken(session), let pause, !dispatcher.hasReadingLaggards else { return }
    pause.cancel()
    self.pause = nil
    yieldToSockets { $0.catchUp() }
  }
}
