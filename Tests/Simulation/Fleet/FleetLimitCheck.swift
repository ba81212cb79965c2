import Countdowns

/// Checks rate limits and named limits against plain lists: of what clients were granted, and of the
/// sends that each record has.
extension FleetCheck {
  /// Which change a reply belongs to does not matter: between the first of some commands and the
  /// reply to the last, no more may be accepted than the limit allows.
  func checkThrottle(_ key: FleetKey, _ commands: [ClientCommand]) -> String? {
    guard !world.settings.trouble.clocks, !simulation.wasFlushed else { return nil }
    let refunds = commands.filter { $0.words[1] == "REFUND" && $0.key.kind == .countdown }
    let refunded = Set(refunds.map { [$0.words[2], $0.words[4]] })
    let returned = returned(commands, to: key)
    func cost(of command: ClientCommand) -> Int {
      let id = FleetSimulation.id(of: command, for: key)
      return FleetSimulation.cost(of: command, for: key) - (id.flatMap { returned[$0] } ?? 0)
    }
    let accepted = commands.filter {
      cost(of: $0) > 0
        && !refunded.contains([$0.words[2], "\($0.reply?["generation"]?.int ?? 0)"])
    }
    // What is given back comes back at once, also if the limit was unused meanwhile.
    func givenBack(from began: Int64, to ended: Int64) -> Int {
      refunds.count {
        FleetSimulation.limited.contains($0.key) && $0.began <= ended
          && $0.ended ?? .max >= began
      }
    }
    let rules = simulation.rules(of: key)
    for (index, first) in accepted.enumerated() {
      var taken = 0
      for command in accepted[index...] {
        taken += cost(of: command)
        let time = command.ended! - first.began + Self.slack
        guard let rate = rules.rate else { continue }
        let allowed =
          Double(rate.burst) + Double(rate.count) * Double(time)
          / Double(rate.period.microseconds)
          + Double(givenBack(from: first.began, to: command.ended!))
        // Commands in between may have ended later.
        let last = accepted[index...].prefix { $0.began <= command.began }.map { $0.ended! }.max()!
        if last <= command.ended!, Double(taken) > allowed + 1e-6 {
          return "\(taken) taken in \(time) µs, allowed are \(allowed): \(command.text)"
        }
      }
      for window in rules.windows {
        let end = first.began + window.length.microseconds - Self.slack
        let inside = accepted[index...].filter { $0.ended! < end }
        let taken = inside.reduce(0) { $0 + cost(of: $1) }
        if taken > window.limit + givenBack(from: first.began, to: end) {
          return "\(taken) taken within \(window.text), first: \(first.text)"
        }
      }
    }
    return nil
  }

  /// Returns how much of each TAKE may have been given back by its id. A TAKE of which all is given
  /// back was none, however late that was.
  private func returned(_ commands: [ClientCommand], to key: FleetKey) -> [Int: Int] {
    var returned: [Int: Int] = [:]
    for words in commands.map(\.words) where words[1] == "REFUND" && words.contains("ID") {
      guard words[2] == key.name, let id = Int(words[5]) else { continue }
      returned[id] = max(returned[id] ?? 0, Int(words[3])!)
    }
    return returned
  }

  /// Looks at the sends that the records of a named limit have: windows, blocks, and outcomes.
  func checkRecords(_ key: FleetKey) -> String? {
    let rules = simulation.rules(of: key)
    guard !rules.windows.isEmpty else { return nil }
    var newest: Throttle.Limit?
    for execution in world.journal.executions[key] ?? [] {
      let before = execution.before.map { Self.limit($0.bytes) } ?? nil
      newest = execution.change.record.flatMap(Self.limit)
      guard let limit = newest else { continue }
      let sends = Array(limit.sends.newestFirst)
      for window in rules.windows {
        for last in sends {
          let inside = sends.reduce(0) {
            $1.at <= last.at && $1.at + window.length > last.at ? $0 + Int($1.count) : $0
          }
          if inside > window.limit { return "\(inside) sends within \(window.text)" }
        }
      }
      if let problem = checkBlock(limit, after: before, rules, decided: execution.decided) {
        return problem
      }
    }
    let end = FleetWorld.clockStart + world.agenda.now - 2_000_000
    let lost = newest?.sends.newestFirst.first {
      $0.outcome == .unknown && $0.at.microseconds + 700_000 < end
    }
    if let lost, rules.passed != nil, !world.settings.trouble.isAny,
      !simulation.commands.contains(where: { if case .done = $0.result { false } else { true } })
    {
      return "nobody knows the outcome of the code \(lost.id)"
    }
    return nil
  }

  private func checkBlock(
    _ limit: Throttle.Limit, after before: Throttle.Limit?, _ rules: LimitRules.Rules,
    decided: Int64
  ) -> String? {
    guard let passed = rules.passed, let before else { return nil }
    let known = Dictionary(
      before.sends.newestFirst.map { ($0.id, $0.outcome) }, uniquingKeysWith: { $1 })
    let sends = limit.sends.newestFirst
    if let blocked = before.blockedUntil, blocked.microseconds > decided,
      sends.contains(where: { known[$0.id] == nil })
    {
      return "a send was accepted while it was blocked"
    }
    let learned = sends.filter {
      known[$0.id] == .unknown && ($0.outcome == .entered || $0.outcome == .missed)
    }
    guard learned.count == 1, before.blockedUntil.map({ $0.microseconds <= decided }) ?? true
    else { return nil }
    let counted = sends.filter {
      ($0.outcome == .entered || $0.outcome == .missed) && $0.id > before.countedAfter
        && $0.at.microseconds + passed.within.microseconds > decided
    }.prefix(Int(passed.of))
    let entered = counted.count { $0.outcome == .entered }
    let isBlocked =
      counted.count == Int(passed.of) && entered * 100 < Int(passed.least) * counted.count
    guard isBlocked != (limit.blockedUntil != nil) else { return nil }
    return "\(entered) of the newest \(counted.count) codes were entered, and it is "
      + (isBlocked ? "not blocked" : "blocked")
  }

  private static func limit(_ record: [UInt8]) -> Throttle.Limit? {
    guard let key = EntityRecord.key(of: record.span) else { return nil }
    var reader = StateReader(record.dropFirst(key.upperBound), offset: 0)
    reader.format = record[0]
    var state = GuardEntity<Throttle>.blank(record.span.extracting(key))
    state.state(&reader)
    return reader.hasFailed ? nil : state.machine.limit
  }
}
