import Countdowns
import Wire

/// Checks a history of a fleet, whatever went wrong in it.
///
/// The servers' journal has the changes of each record in order. A fleet behaves like one daemon
/// (it is linearizable for each key) if each change is the effect of one command, or of time alone,
/// on the record before it, at the time at which it was decided; if it was made between a command
/// and its reply; and if the reply is that of one daemon. A command that changed nothing must agree
/// with some record that a server had between the command and its reply.
struct FleetCheck {
  let simulation: FleetSimulation
  private let specification: FleetSpecification
  private let owners: FleetOwners
  var world: FleetWorld { simulation.world }

  /// How much longer than the timeout of the servers a command may take, in microseconds.
  static let slack: Int64 = 20_000

  init(_ simulation: FleetSimulation) {
    self.simulation = simulation
    specification = FleetSpecification(simulation.engineSettings)
    owners = FleetOwners(simulation, specification)
  }

  /// Returns the first problem, or nil.
  func problem() -> String? {
    if let problem = checkAnswers() { return problem }
    for key in FleetSimulation.keys {
      if let problem = check(key) { return "\(key.channel): " + problem }
    }
    for key in FleetSimulation.limits {
      if let problem = checkThrottle(key, simulation.commands) ?? checkRecords(key) {
        return "\(key.channel): " + problem
      }
    }
    return checkEnd()
  }

  private func check(_ key: FleetKey) -> String? {
    let executions = world.journal.executions[key] ?? []
    let commands = simulation.commands.filter { $0.key == key }
    if let problem = checkLimits(key, executions, commands) { return problem }
    var causes = executions.map { Cause($0, specification, mayEnd: owners.mayBeGone($0)) }
    if let problem = checkOrder(key, &causes, commands) ?? owners.check(key) { return problem }
    return checkEvents(key, causes)
  }

  // MARK: Answers

  private func checkAnswers() -> String? {
    let timeout = simulation.settings.timeout.microseconds
    for command in simulation.commands {
      let daemon = simulation.allDaemons[Int(command.daemon) - 1]
      guard let ended = command.ended else {
        if daemon.isOver || command.isCutOff { continue }
        return "never answered: \(command.text)"
      }
      let paused = daemon.pauses.filter { $0.end >= command.began && $0.begin <= ended }
        .reduce(0) { $0 + $1.end - $1.begin }
      // A SUBSCRIBE before it may have waited for as long. Limits are asked one after the other,
      // and then given back; the next replies wait.
      let timeouts: Int64 =
        (daemon.fleet.settings.mirror == .used ? 2 : 1) * (simulation.hasLimits ? 12 * 3 : 1)
      if ended - command.began > timeouts * timeout + paused + Self.slack {
        return "answered late: \(command.text)"
      }
    }
    return nil
  }

  // MARK: Limits

  /// An accepted send, and the time of its decision on the servers' clock.
  private struct Send {
    let generation: Int
    let decided: Int64
    let execution: Execution
  }

  private func checkLimits(
    _ key: FleetKey, _ executions: [Execution], _ commands: [ClientCommand]
  ) -> String? {
    if key.kind == .throttle { return checkThrottle(key, commands) }
    guard let policy = FleetSimulation.policy(of: key) else { return nil }
    var sends: [Int: Send] = [:]
    var refunded: Set<Int> = []
    for execution in executions {
      guard let record = execution.change.record,
        let new = FleetSpecification.generation(record, .countdown)
      else { continue }
      let generation = Int(new)
      if sends[generation] == nil {
        sends[generation] = Send(
          generation: generation, decided: execution.decided, execution: execution)
      }
    }
    var granted: Set<Int> = []
    for command in commands {
      guard let reply = command.reply, reply["accepted"]?.bool == true,
        let generation = reply["generation"]?.int
      else { continue }
      switch command.words[1] {
      case "START", "RESEND": granted.insert(generation)
      // Uncertain refunds are added below.
      case "REFUND": refunded.insert(generation)
      default: break
      }
    }
    for command in commands where command.words[1] == "REFUND" {
      if case .unsure = command.result { refunded.insert(Int(command.words[4])!) }
    }
    let counted = granted.subtracting(refunded).compactMap { sends[$0] }
      .sorted { $0.decided < $1.decided }
    for window in policy.rules.windows where counted.count > window.limit {
      for index in window.limit..<counted.count {
        let first = counted[index - window.limit]
        let last = counted[index]
        guard last.decided - first.decided < window.length.microseconds else { continue }
        return "\(window.limit + 1) sends in \(last.decided - first.decided) µs, allowed are "
          + "\(window.limit) in \(window.length.microseconds): generations "
          + "\(counted[(index - window.limit)...index].map(\.generation))"
          + counted[(index - window.limit)...index].flatMap { send in
            commands.filter { $0.reply?["generation"]?.int == send.generation }
          }.map { "\n  " + $0.text }.joined()
      }
    }
    return nil
  }

  // MARK: Order

  /// A change, and what may have caused it.
  struct Cause {
    let execution: Execution
    /// The events that it is to publish.
    let published: [HeardEvent]
    var isByTime = false
    /// Whether the end of an owner explains it.
    var isByOwner = false
    var candidates: [Int] = []
    var events: [HeardEvent]

    init(_ execution: Execution, _ specification: FleetSpecification, mayEnd: Bool) {
      self.execution = execution
      published = FleetSpecification.events(execution.change)
      func outcome(isThere: Bool) -> FleetSpecification.Outcome {
        specification.apply(
          nil, about: execution.key, execution.before?.bytes, at: execution.decided
        ) { _ in isThere }
      }
      let byTime = outcome(isThere: true)
      events = byTime.events
      isByTime = agrees(with: byTime)
      guard !isByTime, mayEnd else { return }
      let byOwner = outcome(isThere: false)
      isByOwner = agrees(with: byOwner)
      if isByOwner { events = byOwner.events }
    }

    func agrees(with outcome: FleetSpecification.Outcome) -> Bool {
      outcome.record == execution.change.record
        && outcome.events.filter { $0.isShared || $0.name == "refused" } == published
    }
  }

  private func checkOrder(
    _ key: FleetKey, _ causes: inout [Cause], _ commands: [ClientCommand]
  ) -> String? {
    for index in causes.indices {
      let execution = causes[index].execution
      if execution.change.earliest > execution.clock {
        return "decided at \(execution.change.earliest), before it was so late: \(execution.clock)"
      }
      if causes[index].isByTime { continue }
      let generation =
        FleetSpecification.generation(execution.change.record, key.kind)
        ?? causes[index].published.last.map { Int64($0.generation) }
      if let generation,
        let old = FleetSpecification.generation(execution.before?.bytes, key.kind), generation < old
      {
        return "generation \(old) is followed by \(generation), at \(execution.at) µs"
      }
      var near: [String] = []
      for (number, command) in commands.enumerated()
      where command.daemon == execution.change.version.daemon && command.began <= execution.at {
        switch command.result {
        case .notDone: continue
        case .unsure: break
        case .done: guard command.ended! >= execution.at else { continue }
        }
        let outcomes = owners.possible(command, mayEnd: owners.mayBeGone(execution)).map {
          specification.apply(
            command.words, about: key, execution.before?.bytes, at: execution.decided,
            generation: generation ?? 1, by: $0.number, isThere: $0.isThere)
        }
        guard let outcome = outcomes.first(where: causes[index].agrees) else {
          near.append(command.text)
          continue
        }
        // What it starts must not end early.
        guard
          world.settings.trouble.clocks || command.words[1] == "PAUSE"
            || execution.decided >= FleetWorld.clockStart + command.began
        else {
          near.append("\(command.text)\n  decided at a time before it came")
          continue
        }
        if case .done(let reply) = command.result, plain(reply) != plain(outcome.reply ?? .null) {
          near.append("\(command.text)\n  instead of \(plain(outcome.reply ?? .null))")
          continue
        }
        causes[index].candidates.append(number)
        causes[index].events = outcome.events
      }
      if causes[index].candidates.isEmpty, !causes[index].isByOwner {
        return "nothing explains the change \(execution.number) at \(execution.at) µs by "
          + "\(execution.change.version), decided at \(execution.decided); before it: "
          + describe(key, execution.before?.bytes, at: execution.decided) + "; after it: "
          + describe(key, execution.change.record, at: execution.decided)
          + near.suffix(4).map { "\n  " + $0 }.joined()
      }
    }
    var match = Matching(causes.map(\.candidates), rightCount: commands.count)
    for index in causes.indices where !causes[index].isByTime && !causes[index].isByOwner {
      guard match.matchLeft(index) else {
        return "more changes than commands: the one at \(causes[index].execution.at) µs; "
          + commands[causes[index].candidates[0]].text
      }
    }
    let needed = Set(
      commands.indices.filter { number in
        guard case .done(let reply) = commands[number].result else { return false }
        return !isExplainedWithoutChange(commands[number], reply)
      })
    for number in needed.sorted() {
      let command = commands[number]
      guard match.matchRight(number, keeping: { needed.contains($0) }) else {
        let records = world.journal.records(key, from: command.began, until: command.ended!)
        return "no record agrees with \(command.text)"
          + records.map {
            "\n  "
              + describe(key, $0?.bytes, at: FleetWorld.clockStart + command.ended!)
          }.joined()
      }
    }
    return checkKept(causes, commands)
  }

  /// Checks that no confirmed change is lost.
  private func checkKept(_ causes: [Cause], _ commands: [ClientCommand]) -> String? {
    guard !world.settings.trouble.losesConfirmed, !simulation.wasFlushed else { return nil }
    for index in causes.indices where !owners.kept.contains(causes[index].execution.write) {
      // The change may come from a command whose client received no certain reply.
      let may = causes[index].candidates.filter {
        if case .unsure = commands[$0].result { true } else { false }
      }
      guard may.isEmpty, let number = causes[index].candidates.first else { continue }
      return "was confirmed and is lost: \(commands[number].text)"
    }
    return nil
  }

  /// Returns whether a record from between the command and its reply explains it without a change.
  private func isExplainedWithoutChange(_ command: ClientCommand, _ reply: RESPValue) -> Bool {
    let from = FleetWorld.clockStart + command.began
    let until = FleetWorld.clockStart + command.ended!
    // A reply without a time may come from the clock of any server.
    var times = world.clockErrors.flatMap { [from + $0, (from + until) / 2 + $0, until + $0] }
    if let reported = reply["now_unix_ms"]?.int {
      times = [0, 999, 500].map { Int64(reported) * 1_000 + $0 }
    }
    for record in world.journal.records(command.key, from: command.began, until: command.ended!) {
      for time in times {
        let mayEnd = owners.mayBeGone(command.key, record?.bytes, by: command.ended!)
        let isExplained = owners.possible(command, mayEnd: mayEnd).contains {
          let outcome = specification.apply(
            command.words, about: command.key, record?.bytes, at: time, by: $0.number,
            isThere: $0.isThere)
          let byTime = specification.apply(
            nil, about: command.key, record?.bytes, at: time, isThere: $0.isThere)
          return outcome.record == byTime.record && outcome.reply.map { agree(reply, $0) } ?? false
        }
        if isExplained { return true }
      }
    }
    return false
  }

  /// Returns whether replies agree. Remaining times may differ because the reply's time is rounded.
  private func agree(_ a: RESPValue, _ b: RESPValue) -> Bool {
    guard case .map(let left) = a, case .map(let right) = b, left.count == right.count else {
      return plain(a) == plain(b)
    }
    return zip(left, right).allSatisfy { left, right in
      guard let name = left.key.string, name == right.key.string else { return false }
      if name == "now_unix_ms" { return true }
      if name.hasSuffix("_ms"), let a = left.value.int, let b = right.value.int {
        return abs(a - b) <= 1
      }
      return left.value == right.value
    }
  }

  private func describe(_ key: FleetKey, _ record: [UInt8]?, at time: Int64) -> String {
    let words = ["\(key.kind.name)".uppercased(), "GET", key.name]
    return specification.apply(words, about: key, record, at: time).reply.map(plain) ?? "nothing"
  }

  // MARK: Events

  /// Checks that each subscriber of a key receives the events of each change once and in order,
  /// from some change on.
  private func checkEvents(_ key: FleetKey, _ causes: [Cause]) -> String? {
    var made: [(at: Int64, event: HeardEvent)] = []
    for cause in causes
    where simulation.hasLostStream || owners.kept.contains(cause.execution.write) {
      made += cause.events.filter(\.isShared).map { (cause.execution.at, $0) }
    }
    for daemon in simulation.allDaemons {
      for session in daemon.sessions {
        guard let since = session.subscriptions[key] else { continue }
        if since == .max, !daemon.isOver {
          return "subscriber of daemon \(daemon.number): no snapshot once all was read"
        }
        let heard = (session.heard[key] ?? []).filter { $0.event.isShared }
        if let problem = checkTimes(session.heard[key] ?? []) { return problem }
        if let problem = compare(
          heard.map { ($0.at, $0.event) }, made, since: since, isComplete: !daemon.isOver)
        {
          return "subscriber of daemon \(daemon.number): " + problem
        }
      }
    }
    return nil
  }

  private func checkTimes(_ heard: [(at: Int64, event: HeardEvent, json: String)]) -> String? {
    guard !world.settings.trouble.clocks else { return nil }
    for (at, event, json) in heard {
      guard let due = event.due else { continue }
      if FleetWorld.clockStart + at < due * 1_000 { return "early, at \(at) µs: \(json)" }
    }
    return nil
  }

  private func compare(
    _ heard: [(at: Int64, event: HeardEvent)], _ made: [(at: Int64, event: HeardEvent)],
    since: Int64, isComplete: Bool
  ) -> String? {
    if simulation.hasLostStream { return compareCounts(heard, made) }
    var next = made.startIndex
    var missed: [HeardEvent] = []
    for (at, event) in heard {
      guard let index = made[next...].firstIndex(where: { $0.event == event && $0.at <= at })
      else {
        let isOld = made[..<next].contains { $0.event == event }
        return (isOld ? "a second time or in the wrong order" : "of no change")
          + ", at \(at) µs: \(event.facts)" + lines("heard", heard) + lines("made", made)
      }
      missed += made[next..<index].filter { $0.at > since }.map(\.event)
      next = index + 1
    }
    if isComplete { missed += made[next...].filter { $0.at > since }.map(\.event) }
    guard !simulation.mayMissEvents, let first = missed.first else { return nil }
    return "\(missed.count) events missed since \(since) µs, the first: \(first.facts)"
      + lines("heard", heard) + lines("made", made)
  }

  private func lines(_ what: String, _ events: [(at: Int64, event: HeardEvent)]) -> String {
    events.map { "\n  \(what) at \($0.at): \($0.event.facts)" }.joined()
  }

  /// Checks that no event was received more often than it happened, even if it was lost later.
  private func compareCounts(
    _ heard: [(at: Int64, event: HeardEvent)], _ made: [(at: Int64, event: HeardEvent)]
  ) -> String? {
    for (at, event) in heard {
      let happened = made.count { $0.event == event && $0.at <= at }
      let times = heard.count { $0.event == event && $0.at <= at }
      if times > happened {
        return "heard \(times) times by \(at) µs, happened \(happened) times: \(event)"
      }
    }
    return nil
  }

  // MARK: The final state

  /// Checks that nothing is due, and that each daemon has the records of the servers.
  func checkEnd() -> String? { checkDue() ?? checkCopies() }

  private func checkDue() -> String? {
    for key in FleetSimulation.keys {
      guard let record = world.record(key) else { continue }
      let time = FleetWorld.clockStart + world.agenda.now - 700_000
      let outcome = specification.apply(nil, about: key, record.bytes, at: time)
      if outcome.record != record.bytes {
        return "\(key.channel): nobody does what is due: " + describe(key, record.bytes, at: time)
      }
    }
    return nil
  }

  private func checkCopies() -> String? {
    for daemon in simulation.daemons {
      let keys = FleetSimulation.keys + FleetSimulation.limits + FleetSimulation.limited
      for kind in Set(keys.map(\.kind)).sorted(by: { $0.rawValue < $1.rawValue }) {
        let listed = daemon.list(kind)
        for key in keys where key.kind == kind {
          let mine = listed.filter { $0["key"]?.string == key.name }
          let record = world.record(key)
          if mine.isEmpty, !daemon.fleet.isWhole(daemon.fleet.partition(of: key)) { continue }
          let time = FleetWorld.clockStart + world.agenda.now
          let shown = record.flatMap {
            specification.apply(
              ["\(kind.name)".uppercased(), "GET", key.name], about: key, $0.bytes, at: time
            ).reply
          }
          // A record that is kept only for its tokens is not listed.
          if mine.isEmpty, shown?.isNull == true { continue }
          guard mine.count == (record == nil ? 0 : 1) else {
            return "\(key.channel): the servers have \(record == nil ? 0 : 1) in the end, "
              + "daemon \(daemon.number) \(mine.count)"
          }
          guard record != nil, let copy = mine.first else { continue }
          for field in ["generation", "state", "sends", "payload", "result", "action", "calls"]
          where copy[field] != shown?[field] {
            return
              "\(key.channel): daemon \(daemon.number) has \(plain(copy)) in the end, the servers "
              + "\(shown.map(plain) ?? "nothing")"
          }
        }
      }
    }
    return nil
  }
}

extension HeardEvent {
  /// Whether the clients of all hosts receive it.
  fileprivate var isShared: Bool {
    !["tick", "snapshot", "refused"].contains(name)
  }
}

/// A maximum matching of two sides (Kuhn's algorithm).
struct Matching {
  private let edges: [[Int]]
  private let reversed: [[Int]]
  private(set) var rightOfLeft: [Int?]
  private var leftOfRight: [Int?]

  init(_ edges: [[Int]], rightCount: Int) {
    self.edges = edges
    var reversed = Array(repeating: [Int](), count: rightCount)
    for (left, all) in edges.enumerated() { for right in all { reversed[right].append(left) } }
    self.reversed = reversed
    rightOfLeft = Array(repeating: nil, count: edges.count)
    leftOfRight = Array(repeating: nil, count: rightCount)
  }

  /// Pairs a left element, if all left elements that are paired can stay so.
  mutating func matchLeft(_ left: Int) -> Bool {
    var seen: Set<Int> = []
    return rightOfLeft[left] != nil || tryLeft(left, &seen)
  }

  private mutating func tryLeft(_ left: Int, _ seen: inout Set<Int>) -> Bool {
    for right in edges[left] where seen.insert(right).inserted {
      guard leftOfRight[right].map({ tryLeft($0, &seen) }) ?? true else { continue }
      rightOfLeft[left] = right
      leftOfRight[right] = left
      return true
    }
    return false
  }

  /// Pairs a right element, if need be instead of one that is not needed. All left elements that
  /// are paired stay so.
  mutating func matchRight(_ right: Int, keeping isNeeded: (Int) -> Bool) -> Bool {
    if leftOfRight[right] != nil { return true }
    var seen: Set<Int> = []
    func search(_ right: Int) -> [(left: Int, right: Int)]? {
      for left in reversed[right] where seen.insert(left).inserted {
        guard let other = rightOfLeft[left] else { return [(left, right)] }
        if !isNeeded(other) { return [(left, right)] }
        if let path = search(other) { return path + [(left, right)] }
      }
      return nil
    }
    guard let path = search(right) else { return false }
    for (left, right) in path {
      if let old = rightOfLeft[left], leftOfRight[old] == left { leftOfRight[old] = nil }
      rightOfLeft[left] = right
      leftOfRight[right] = left
    }
    return true
  }
}
