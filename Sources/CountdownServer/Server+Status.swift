import CountdownFleet

/// The status that is shown to administrators.
extension Server {
  package var status: ServerStatus {
    ServerStatus(
      troubles: [
        dispatcher.damage.first.map {
          "damaged: \($0). Look at it, then `countdownctl state acknowledge`"
        },
        configured.problem.map { "the new configuration is refused, the old one stays: \($0)" },
        state.problem.map { "read-only: \($0)" },
        state.writer?.upkeep.problem.map { "folding fails: \($0)" }, fleetServers?.trouble,
        dispatcher.fleet?.trouble,
      ].compactMap(\.self),
      load: "\(connections.count) connections, \(dispatcher.engine.count(.countdown)) countdowns, "
        + "\(dispatcher.engine.count(.hud)) HUDs, \(dispatcher.engine.count(.timer)) timers")
  }
}
