import NIOCore

/// The orderly end.
extension Server {
  /// Takes no new connections, writes what is to be written, and ends. From any thread.
  package func shutDown() {
    hop { [self] _ in
      guard !isStopping else { return }
      isStopping = true
      hooks.isStopping()
      listener?.close(promise: nil)
      // Nothing has been changed yet, and `start` waits for this.
      if let loading { return loading.stop() }
      // What has come so far is stored and answered; then everybody is let go.
      commitBatch()
      afterStoring.append { [self] in
        for handler in connections.values { handler.end() }
        if connections.isEmpty { finishStopping() }
      }
      goOnAfterStoring()
      loop.scheduleTask(in: .milliseconds(1_500)) { [self] in
        for handler in connections.values { handler.abort() }
        finishStopping()
      }
    }
  }

  func finishStopping() {
    bootAlarm.disarm()
    wallAlarm.disarm()
    stopped.succeed()
  }

  /// Returns once it has ended.
  package func waitUntilStopped() throws {
    try stopped.futureResult.wait()
    try loop.submit { [self] in
      commitBatch()
      if let writer {
        // Also what time has done while nothing could be stored.
        dispatcher.engine.takeChanges(into: writer.batch)
        writer.close(at: reading)
      }
    }.wait()
    listening?.remove()
    hasEnded.withLock { $0 = true }
    try group.syncShutdownGracefully()
    try upkeep.syncShutdownGracefully()
  }
}
