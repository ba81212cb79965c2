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
    problems += limitInconsistencies
    return problems.map { ConfigurationProblem(file: file, setting: $0, message: $1) }
  }
}

extension Configuration {
  /// The problems of policies and the limits that they name.
  private var limitInconsistencies: [(setting: String, message: String)] {
    var problems: [(setting: String, message: String)] = []
    for (name, policy) in engine.policies.sorted(by: { $0.key < $1.key }) {
      if let shadow = policy.shadow, shadow == name || engine.policies[shadow] == nil {
        let known = engine.policies.keys.filter { $0 != name }.sorted()
        let hint =
          Suggestion.best(for: shadow, among: known).map { "did you mean \($0)?" }
          ?? "known: " + known.joined(separator: ", ")
        problems.append(
          ("policies.\(name).shadow", "no other policy \(shadow); \(hint)"))
      }
      let setting = "policies.\(name).limits"
      for limit in policy.rules.limits {
        guard let rules = engine.throttles[limit]?.rules else {
          let known = engine.throttles.keys.sorted()
          let hint =
            Suggestion.best(for: limit, among: known).map { "did you mean \($0)?" }
            ?? (known.isEmpty ? "throttles is empty" : "known: " + known.joined(separator: ", "))
          problems.append((setting, "no limit \(limit) in throttles; \(hint)"))
          continue
        }
        if rules.passed != nil, policy.rules.validity == nil {
          problems.append(
            (
              setting,
              "throttles.\(limit).passed counts codes that are entered; set "
                + "policies.\(name).validity: how long a code is valid"
            ))
        }
      }
    }
    let shared = fleet.settings.kinds
    if fleet.engine != .none, !engine.throttles.isEmpty,
      shared.contains(.countdown) || shared.contains(.throttle)
    {
      problems.append(
        (
          "throttles",
          "named limits are not shared by a fleet yet; take countdown and throttle out of "
            + "fleet.kinds, or remove throttles"
        ))
    }
    return problems
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
