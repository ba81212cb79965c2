import Logging

/// How the server is, for whoever looks after it.
extension Server {
  var status: ServerStatus {
    ServerStatus(
      troubles: [
        keeper?.trouble.map { "read-only: \($0)" },
        keeper?.checkpointError.map { "checkpoints fail: \($0)" },
      ].compactMap(\.self),
      load: "\(connections.count) connections, \(dispatcher.engine.count(.countdown)) countdowns, "
        + "\(dispatcher.engine.count(.hud)) HUDs, \(dispatcher.engine.count(.timer)) timers")
  }

  /// Tells of checkpoints that begin to fail, and of those that work again.
  func followCheckpoints() {
    keeper?.whenCheckpointsChange { [weak self] error in
      guard let self else { return }
      if let error {
        logger.log(
          .checkpointsFail, .error,
          """
          the log of changes cannot be moved to the state file, so it grows with each change; nothing is \
          lost, and all is accepted while there is room: \(error)
          """)
      } else {
        logger.log(.checkpointsWork, .notice, "the log of changes is moved to the state file again")
      }
      hooks.isAlive(status)
    }
  }
}
