import CountdownStore
import Countdowns
import Glibc

/// The orderly shutdown.
extension Server {
  enum Phase { case serving, stopping, stopped }

  package func shutDown() { shutDown(by: "SHUTDOWN") }

  /// Stops accepting connections, writes pending output, and ends. Callable from any thread.
  ///
  /// - Parameter cause: the signal or command; the last one counts.
  package func shutDown(by cause: String) {
    runOnLoop { [self] _ in
      stoppedBy = cause
      guard phase == .serving else { return }
      phase = .stopping
      hooks.isStopping()
      listener?.close()
      // Nothing has changed yet. `start` waits until loading has stopped.
      if case .underWay(let loading) = loading { return loading.stop() }
      // Commands that were executed are stored and answered; then all connections are closed.
      dispatcher.fleet?.end()
      fleetServers?.flush()
      let timeout = dispatcher.fleet?.settings.timeout.microseconds ?? 0
      awaitFleet(until: now.boot + Interval(microseconds: timeout))
    }
  }

  /// Waits for answers of the fleet's servers, while no more commands are executed.
  private func awaitFleet(until end: Instant) {
    guard phase == .stopping else { return }
    if dispatcher.holdCommandsForFleet(), now.boot < end {
      openBatch()
      return loop.schedule(inMilliseconds: Self.fleetMilliseconds) { [self] in
        awaitFleet(until: end)
      }
    }
    closeConnections()
  }

  private static let fleetMilliseconds: UInt64 = 5

  private func closeConnections() {
    commitBatch()
    storing.whenIdle.append { [self] in
      for connection in connections.open { connection.end() }
      if connections.count == 0 { finishStopping() }
    }
    goOnAfterStoring()
    loop.schedule(inMilliseconds: 1_500) { [self] in
      for connection in connections.open { connection.close() }
      finishStopping()
    }
  }

  /// Ends the daemon, to start it again with virtual time `pause` later: in the next boot of the
  /// machine, whose boot clock begins at 0, or in the same boot. Returns false unless time is
  /// virtual and the daemon has opened its socket itself.
  package func restart(
    after pause: Interval, inNextBoot isReboot: Bool, answering caller: UInt64
  ) -> Bool {
    guard let virtualClock, case .path = settings.listener, phase == .serving else { return false }
    let now = virtualClock.now
    let digits = (0..<32).map { _ in "0123456789abcdef".randomElement()! }
    nextStart = StoreClock.Reading(
      bootID: isReboot ? String(digits) : startReading.bootID,
      Moment(boot: isReboot ? .zero : now.boot + pause, wall: now.wall + pause))
    // A descriptor that `execv` does not close, beside that of the connection.
    nextCaller = connection(caller).map { fcntl($0.descriptor, F_DUPFD, 3) }
    shutDown(by: "CLOCK")
    return true
  }

  func finishStopping() {
    alarms.disarm()
    phase = .stopped
  }

  /// Serves clients until it is asked to end.
  package func waitUntilStopped() {
    run { phase == .stopped }
    commitBatch()
    fleetMemory?.close()
    if let writer = storing.writer {
      // Includes changes that timers made while nothing could be stored.
      dispatcher.engine.takeChanges(into: writer.batch)
      writer.close(at: reading)
    }
    closeJournal()
    listening?.remove()
  }
}
