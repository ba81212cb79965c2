/// The status that is shown to administrators.
extension Server {
  var status: ServerStatus {
    ServerStatus(
      troubles: [
        storing.problem.map { "read-only: \($0)" },
        storing.writer?.foldingProblem.map { "folding fails: \($0)" }, fleetServers?.trouble,
      ].compactMap(\.self),
      load: "\(connections.count) connections, \(dispatcher.engine.count(.countdown)) countdowns, "
        + "\(dispatcher.engine.count(.hud)) HUDs, \(dispatcher.engine.count(.timer)) timers")
  }
}
