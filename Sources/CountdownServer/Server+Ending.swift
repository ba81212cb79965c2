import CountdownStore
import Countdowns

/// The orderly end.
extension Server {
  /// Takes no new connections, writes what is to be written, and ends. From any thread.
  package func shutDown() {
    hop { [self] _ in
      guard !isStopping else { return }
      isStopping = true
      hooks.isStopping()
      listener?.close()
      // Nothing has been changed yet, and `start` waits for this.
      if let loading { return loading.stop() }
      // What has come so far is stored and answered; then everybody is let go.
      commitBatch()
      afterStoring.append { [self] in
        for connection in connections { connection?.end() }
        if connectionCount == 0 { finishStopping() }
      }
      goOnAfterStoring()
      loop.schedule(inMilliseconds: 1_500) { [self] in
        for connection in connections { connection?.close() }
        finishStopping()
      }
    }
  }

  /// Ends, to start again with virtual time that much later: in the next boot of the machine, whose
  /// boot clock begins at 0, or in the same. False where it could not listen there again.
  package func restart(after pause: Interval, inNextBoot isReboot: Bool) -> Bool {
    guard let virtualClock, case .path = settings.listener else { return false }
    let now = virtualClock.now
    let digits = (0..<32).map { _ in "0123456789abcdef".randomElement()! }
    nextStart = StoreClock.Reading(
      bootID: isReboot ? String(digits) : startReading.bootID,
      Moment(boot: isReboot ? .zero : now.boot + pause, wall: now.wall + pause))
    shutDown()
    return true
  }

  func finishStopping() {
    bootAlarm.disarm()
    wallAlarm.disarm()
    hasStopped = true
  }

  /// Serves clients until it is asked to end.
  package func waitUntilStopped() {
    run { hasStopped }
    commitBatch()
    if let writer {
      // Also what time has done while nothing could be stored.
      dispatcher.engine.takeChanges(into: writer.batch)
      writer.close(at: reading)
    }
    listening?.remove()
    upkeep.stop()
  }
}
