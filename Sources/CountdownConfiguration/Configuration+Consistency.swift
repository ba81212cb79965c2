import Countdowns

extension Configuration {
  /// Returns the problems of settings that are valid alone, but not together. `file` only appears
  /// in the problems.
  func inconsistencies(file: String) -> [ConfigurationProblem] {
    var problems: [(setting: String, message: String)] = []
    if Countdown.Plan(count: engine.countdownCount, every: engine.countdownEvery) == nil {
      problems.append(
        (
          "countdown.count",
          "\(engine.countdownCount) steps of countdown.every are longer than 3650d together; "
            + "allowed: at most that"
        ))
    }
    if let problem = fleet.inconsistency { problems.append(problem) }
    return problems.map { ConfigurationProblem(file: file, setting: $0, message: $1) }
  }
}

extension Configuration.Fleet {
  fileprivate var inconsistency: (setting: String, message: String)? {
    let tls = settings.tls
    let hasFiles = [tls.authorities, tls.certificate, tls.key].contains { $0 != nil }
    switch engine {
    case .none:
      guard self != Self() else { return nil }
      return ("fleet.engine", "none, but other settings of fleet are there; set it to redis")
    case .redis where settings.nodes.isEmpty:
      return ("fleet.nodes", "empty; name at least one HOST:PORT")
    case .redis where settings.discovery == .single && settings.nodes.count > 1:
      return (
        "fleet.nodes",
        "more than one, but fleet.discovery is single; set that to sentinel or cluster"
      )
    case .redis where !tls.isEnabled && hasFiles:
      return ("fleet.tls.enabled", "no, but certificates are there; set it to yes")
    case .redis where (tls.certificate == nil) != (tls.key == nil):
      return ("fleet.tls.key", "certificate and key belong together; set both or none")
    case .redis where settings.username != nil && settings.passwordFile == nil:
      return ("fleet.password-file", "empty, but fleet.username is there; set it")
    case .redis: return nil
    }
  }
}
