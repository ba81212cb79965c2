import CountdownFleet
import CountdownStore
import Countdowns
import Glibc
import Runtime

/// The orderly shutdown.
extension Server {
  package struct Ending {
    enum Phase { case serving, stopping, stopped }

    var phase = Phase.serving
    /// The signal or command that has stopped the server; nil while it serves.
    package var cause: String?
    /// Where virtual time continues after a restart, and the descriptor at which the next start
    /// answers who has requested it; nil unless one was requested.
    package var next: (start: StoreClock.Reading, caller: Int32?)?
  }

  package func shutDown() { shutDown(by: "SHUTDOWN") }

  /// Stops accepting connections, writes pending output, and ends. Callable from any thread.
  ///
  /// - Parameter cause: the signal or command; the last one counts.
  package func shutDown(by cause: String) {
    runOnLoop { [self] _ in
      ending.cause = cause
      guard ending.phase == .serving else { return }
      ending.phase = .stopping
      hooks.isStopping()
      listener?.close()
      // Nothing has changed yet. `start` waits until loading has stopped.
      if case .underWay(let loading) = state.loading { return loading.stop() }
      // Commands that were executed are stored and answered; then all connections are closed.
      dispatcher.fleet?.end()
      fleetServers?.flush()
      let timeout = dispatcher.fleet?.settings.timeout.microseconds ?? 0
      awaitFleet(until: now.boot + Interval(microseconds: timeout))
    }
  }

  /// Waits for answers of the fleet's servers, while no more commands are executed.
  private func awaitFleet(until end: Instant) {
    guard ending.phase == .stopping else { return }
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
    state.whenIdle { [self] in
      for connection in connections.open { connection.end() }
      if connections.count == 0 { finishStopping() }
    }
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
    guard let virtualClock, case .path = settings.listener, ending.phase == .serving else {
      return false
    }
    let now = virtualClock.now
    let digits = (0..<32).map { _ in "0123456789abcdef".randomElement()! }
    let start = StoreClock.Reading(
      bootID: isReboot ? String(digits) : state.start.bootID,
      Moment(boot: isReboot ? .zero : now.boot + pause, wall: now.wall + pause))
    // A descriptor that `execv` does not close, beside that of the connection.
    ending.next = (start, connection(caller).map { fcntl($0.descriptor, F_DUPFD, 3) })
    shutDown(by: "CLOCK")
    return true
  }

  func finishStopping() {
    alarms.disarm()
    ending.phase = .stopped
  }

  /// Serves clients until it is asked to end.
  package func waitUntilStopped() {
    run { ending.phase == .stopped }
    commitBatch()
    fleetMemory?.close()
    if let writer = state.writer {
      // Includes changes that timers made while nothing could be stored.
      dispatcher.engine.takeChanges(into: writer.batch)
      writer.close(at: reading)
    }
    closeJournal()
    listening?.remove()
  }
}
