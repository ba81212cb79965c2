import CountdownStore
import Countdowns
import Glibc

extension Configuration {
  /// Returns the problems of settings that are valid alone, but not together. `file` only appears
  /// in the problems.
  func inconsistencies(file: String) -> [ConfigurationProblem] {
    let problems =
      [planInconsistency, fleet.inconsistency].compactMap(\.self) + limitInconsistencies
      + [journalInconsistency].compactMap(\.self)
    return problems.map { ConfigurationProblem(file: file, setting: $0, message: $1) }
  }
}

private typealias Inconsistency = (setting: String, message: String)

/// Returns a hint at a name that may be meant.
private func hint(for name: String, among known: [String]) -> String {
  Suggestion.best(for: name, among: known).map { "did you mean \($0)?" }
    ?? "known: " + known.joined(separator: ", ")
}

extension Configuration {
  private var planInconsistency: Inconsistency? {
    guard Countdown.Plan(count: engine.countdownCount, every: engine.countdownEvery) == nil
    else { return nil }
    return (
      "countdown.count",
      "\(engine.countdownCount) steps of countdown.every are longer than 3650d together; "
        + "allowed: at most that"
    )
  }

  private var journalInconsistency: Inconsistency? {
    if journal.keys == .hmac, journal.secretFile == nil {
      return ("journal.secret-file", "empty, but journal.keys is hmac; name a file with a secret")
    }
    guard journal.isOn else { return nil }
    let shared = fleet.settings.kinds
    if fleet.engine != .none,
      shared.contains(.countdown) || shared.contains(.throttle) || shared.contains(.once)
    {
      return (
        "journal.size",
        "a journal has the decisions of one daemon; take countdown, throttle and once out of "
          + "fleet.kinds, or set journal.size to 0"
      )
    }
    return nil
  }

  /// Reads the secret of the journal. Throws what is wrong with its file.
  package mutating func readSecret(file: String) throws(ConfigurationError) {
    guard journal.isOn, journal.keys == .hmac, let path = journal.secretFile else { return }
    var problem = "the first line of \(path) needs 16 to 4096 bytes"
    do {
      journal.secret = try SafeFile.firstLine(path, atMost: 4_096)
      if (16...4_096).contains(journal.secret.count) { return }
    } catch {
      problem = "\(path) cannot be read: \(error.reason)"
    }
    throw ConfigurationError(problems: [
      ConfigurationProblem(file: file, setting: "journal.secret-file", message: problem)
    ])
  }
}

extension Configuration {
  /// The problems of policies and the limits that they name.
  private var limitInconsistencies: [Inconsistency] {
    var problems: [Inconsistency] = []
    for (name, policy) in engine.policies.sorted(by: { $0.key < $1.key }) {
      if let shadow = policy.shadow, shadow == name || engine.policies[shadow] == nil {
        let hint = hint(for: shadow, among: engine.policies.keys.filter { $0 != name }.sorted())
        problems.append(("policies.\(name).shadow", "no other policy \(shadow); \(hint)"))
      }
      let setting = "policies.\(name).limits"
      problems += unknownLimits(policy.rules.limits, setting)
      for limit in policy.rules.limits
      where engine.throttles[limit]?.rules.passed != nil && policy.rules.validity == nil {
        problems.append(
          (
            setting,
            "throttles.\(limit).passed counts codes that are entered; set "
              + "policies.\(name).validity: how long a code is valid"
          ))
      }
      problems += attemptLimitInconsistencies(policy)
    }
    return problems + problemsOfSharedLimits
  }

  private func unknownLimits(_ limits: [String], _ setting: String) -> [Inconsistency] {
    let known = engine.throttles.keys.sorted()
    return limits.filter { engine.throttles[$0] == nil }.map { limit in
      let hint = known.isEmpty ? "throttles is empty" : hint(for: limit, among: known)
      return (setting, "no limit \(limit) in throttles; \(hint)")
    }
  }

  private func attemptLimitInconsistencies(_ policy: SendPolicy) -> [Inconsistency] {
    let (setting, limits) = ("policies.\(policy.name).attempt-limits", policy.rules.attemptLimits)
    let stopped = limits.filter { engine.throttles[$0]?.rules.passed != nil }
    return unknownLimits(limits, setting)
      + stopped.map { limit in
        (
          setting,
          "throttles.\(limit).passed would refuse the attempts that could end its block; name a "
            + "limit without passed"
        )
      }
  }

  /// What a fleet does not share yet.
  private var problemsOfSharedLimits: [Inconsistency] {
    let shared = fleet.settings.kinds
    guard fleet.engine != .none, shared.contains(.countdown) || shared.contains(.throttle) else {
      return []
    }
    var problems: [Inconsistency] = []
    guard shared.contains(.throttle), shared.contains(.countdown) else {
      let text =
        "charges limits of another kind; list countdown and throttle in fleet.kinds, or neither"
      return engine.policies.flatMap { name, policy -> [Inconsistency] in
        let rules = [
          ("limits", policy.rules.limits), ("attempt-limits", policy.rules.attemptLimits),
        ]
        return rules.filter { !$1.isEmpty }.map { rule, _ in ("policies.\(name).\(rule)", text) }
      }
    }
    let maximum = LimitRules.maximumInFleet
    for (name, limit) in engine.throttles {
      let counts =
        limit.rules.windows.map { ("windows", $0.limit) }
        + (limit.rules.passed.map { [("passed.of", Int($0.of))] } ?? [])
      for (rule, count) in counts where count > maximum {
        problems.append(
          (
            "throttles.\(name).\(rule)",
            "a fleet has at most \(maximum) sends of a limit on record, this needs \(count); use rate "
              + "and burst for more, or take throttle out of fleet.kinds"
          ))
      }
    }
    return problems
  }
}

extension Configuration.Fleet {
  fileprivate var inconsistency: Inconsistency? {
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
    case .redis where settings.sentinelUsername != nil && settings.sentinelPasswordFile == nil:
      return ("fleet.sentinel-password-file", "empty, but fleet.sentinel-username is there; set it")
    case .redis where settings.sentinelPasswordFile != nil && settings.discovery != .sentinel:
      return ("fleet.sentinel-password-file", "set, but fleet.discovery is not sentinel")
    case .redis: return nil
    }
  }
}
