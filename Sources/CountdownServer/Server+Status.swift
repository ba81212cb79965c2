/// The status that is shown to administrators.
extension Server {
  var status: ServerStatus {
    ServerStatus(
      troubles: [
        storeProblem.map { "read-only: \($0)" },
        upkeepProblem.map { "folding fails: \($0)" }, fleetServers?.trouble,
      ].compactMap(\.self),
      load: "\(connectionCount) connections, \(dispatcher.engine.count(.countdown)) countdowns, "
        + "\(dispatcher.engine.count(.hud)) HUDs, \(dispatcher.engine.count(.timer)) timers")
  }
}
