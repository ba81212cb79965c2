extension Configuration {
  /// The longest duration of a countdown.
  private static let longestCountdown = Duration.seconds(3_650 * 86_400)

  /// Returns the problems of settings that are valid alone, but not together. `file` only appears
  /// in the problems.
  func inconsistencies(file: String) -> [ConfigurationProblem] {
    var problems: [(setting: String, message: String)] = []
    if countdown.every * countdown.count > Self.longestCountdown {
      problems.append(
        (
          "countdown.count",
          "\(countdown.count) steps of countdown.every are longer than 3650d together; "
            + "allowed: at most that"
        ))
    }
    if let problem = fleet.inconsistency { problems.append(problem) }
    return problems.map { ConfigurationProblem(file: file, setting: $0, message: $1) }
  }
}

extension Configuration.Fleet {
  fileprivate var inconsistency: (setting: String, message: String)? {
    let hasFiles = [tls.authorities, tls.certificate, tls.key].contains { !$0.isEmpty }
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
    case .redis where tls.enabled == .no && hasFiles:
      return ("fleet.tls.enabled", "no, but certificates are there; set it to yes")
    case .redis where tls.certificate.isEmpty != tls.key.isEmpty:
      return ("fleet.tls.key", "certificate and key belong together; set both or none")
    case .redis where !username.isEmpty && passwordFile.isEmpty:
      return ("fleet.password-file", "empty, but fleet.username is there; set it")
    case .redis: return nil
    }
  }
}
