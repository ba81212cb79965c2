import Wire

/// Plays a journal with other rules: the same machines, on the journal's time.
package final class Replay {
  /// Why a journal cannot be played with these rules.
  package struct Problem: Error, Equatable { package let text: String }

  /// What became of the requests to start a countdown.
  package struct Tally: Equatable, Sendable {
    package var sends = 0
    /// Refused requests, by reason.
    package var refused: [String: Int] = [:]
    /// How long each refused request was to wait, in milliseconds.
    package var waits: [Int64] = []

    mutating func add(_ answer: JournalEntry.Answer) {
      guard let isAccepted = answer.isAccepted else { return }
      if !isAccepted {
        refused[answer.reason, default: 0] += 1
        waits.append(answer.retryAfterMS)
      } else if !answer.isRepetition {
        sends += 1
      }
    }
  }

  package struct Report: Equatable, Sendable {
    /// When the first and the last entry were made, in microseconds since 1970.
    package var first: Int64?
    package var last: Int64 = 0
    package var decisions = 0
    /// Decisions that are others with these rules.
    package var differing = 0
    package var then = Tally()
    package var now = Tally()
    /// How often a code was entered that would not have been sent.
    package var lostPasses = 0
    package var lostKeys: Set<[UInt8]> = []
    /// Sends that would have been refused, by key.
    package var affected: [[UInt8]: Int] = [:]
    /// Requests about which these rules cannot decide, by the error.
    package var undecided: [String: Int] = [:]
    /// Decisions that cannot be compared, by the cause.
    package var notComparable: [String: Int] = [:]
    /// Entries that the journal could not keep.
    package var missing: Int64 = 0
  }

  /// The connection of all commands. It owns the countdowns that had an owner.
  static let connection: UInt64 = 1

  private let settings: EngineSettings
  /// Only entries from this time on count, in microseconds since 1970.
  private let since: Int64
  package private(set) var report = Report()
  private let host = ReplayHost()
  private var table: Dispatcher?
  private var segment = JournalEntry.Segment()
  /// How far the time of the replay is ahead of the boot clock of the entry.
  private var shift = Interval.zero
  /// Until when all that was due had been run, on the time of the replay; nil in journals that do
  /// not note it.
  private var ran: Instant?
  /// How far due work is done.
  private var passed = Instant.zero
  private var wasClosed = false
  /// How many entries are missing before the next one, and whether any are in this segment.
  private var gap: Int64 = 0
  private var isBroken = false
  private var known: Set<Known> = []
  /// The entity that was restored last.
  private var restored: Known?
  /// The entities whose states cannot be read.
  private var damaged: Set<Known> = []
  /// Sends that have other generations here; those that are not made, and whether they are refused.
  private var renamed: [Int64: Int64] = [:]
  private var notMade: [Int64: Bool] = [:]
  /// The last START of a key.
  private var starts: [[UInt8]: CommandValues] = [:]

  private struct Known: Hashable {
    let kind: EntityKind
    let key: [UInt8]
  }

  package init(_ settings: EngineSettings, since: Int64 = .min) {
    var settings = settings
    settings.eventsKept = 0
    settings.policies = settings.policies.mapValues(\.withoutShadow)
    self.settings = settings
    self.since = since
  }

  private var engine: Engine { table!.engine }

  /// Notes that entries are missing before the next one, or after the last.
  package func miss(_ count: Int) {
    gap += Int64(count)
    isBroken = true
  }

  /// Ends the replay.
  package func finish() {
    report.missing += gap
    gap = 0
  }

  /// Plays the next entry.
  package func play(_ entry: JournalEntry) throws(Problem) {
    if entry.at.wall.microseconds >= since { report.missing += gap }
    gap = 0
    switch entry.what {
    case .segment:
      begin(entry)
      return
    case .reloaded: return
    case .closed:
      wasClosed = true
      return
    case .state, .decision, .expired, .waits, .ended, .over, .ran, .promised: break
    }
    guard table != nil else { throw Problem(text: "the journal does not begin with a segment") }
    if entry.at.wall.microseconds >= since {
      if report.first == nil { report.first = entry.at.wall.microseconds }
      report.last = entry.at.wall.microseconds
    }
    let boot = entry.at.boot + shift
    host.now = Moment(boot: max(boot, host.now.boot), wall: entry.at.wall)
    // A daemon that has run nothing yet says 0, whatever its clock.
    if entry.what == .ran { ran = entry.until.map { $0 > .zero ? $0 + shift : .zero } }
    passTime()
    switch entry.what {
    case .state: restore(entry)
    case .ran: break
    case .promised: promise(entry)
    case .expired, .over, .waits:
      if let index = engine.countdowns.find(entry.key) {
        _ = engine.runDue(countdown: index, at: host.now)
      }
    case .ended: end(entry)
    default: if entry.kind != .once { try decide(entry) }
    }
    engine.outbox.removeAll()
    engine.notices.removeAll()
    _ = engine.journal?.takePending()
  }

  // MARK: Entries

  private func begin(_ entry: JournalEntry) {
    let before = segment
    segment = entry.segment
    if entry.at.wall.microseconds >= since { report.missing += segment.lost }
    if table == nil {
      host.now = entry.at
    } else if segment.bootID != before.bootID {
      let later = max(entry.at.wall - host.now.wall, .zero)
      shift = host.now.boot + later - entry.at.boot
    }
    defer { (wasClosed, isBroken) = (false, false) }
    if table != nil, segment.continues, segment.keys == before.keys, !isBroken {
      if wasClosed { restart() }
      return
    }
    start()
    (known, damaged, renamed, notMade, starts) = ([], [], [:], [:], [:])
  }

  private func start() {
    let engine = Engine(settings: settings, at: host.now)
    var recording = Journal.Settings()
    recording.size = .max
    engine.journal = Journal(of: engine, recording, bootID: "", continues: true)
    engine.connect(Self.connection)
    table = Dispatcher(engine: engine, host: host)
    passed = host.now.boot
  }

  /// Does what a restart does: promises and owners do not outlive the daemon.
  private func restart() {
    let state = engine.durableState()
    start()
    _ = engine.restore(state, at: host.now)
  }

  /// Runs what is due and was run then, each at its moment. When codes expired and countdowns were
  /// over, the journal says itself.
  private func passTime() {
    let end = ran ?? host.now.boot + Journal.lag * -1
    // What was not run before a segment began is not run while its states are still to come.
    while passed <= end, let next = engine.nextDeadline.boot, next <= end {
      passed = max(next, passed)
      let wall = host.now.wall + (passed - host.now.boot)
      _ = engine.advance(to: Moment(boot: passed, wall: wall), budget: 1_000)
    }
  }

  private func restore(_ entry: JournalEntry) {
    let entity = Known(kind: entry.kind, key: entry.key)
    restored = nil
    guard known.insert(entity).inserted else { return }
    let (kind, store) = (entry.kind.behavior, engine.store(of: entry.kind))
    guard store.find(entry.key.span) == nil else { return }
    restored = entity
    for record in entry.records {
      let slot = UInt32(store.indexEnd)
      do throws(EntityRecord.Problem) {
        try kind.restore(
          record[...], at: slot, offset: shift.microseconds * -1, in: engine, at: host.now)
      } catch {
        // It begins as new.
        damaged.insert(entity)
      }
    }
    // Numbers of sends rise.
    guard let index = store.find(entry.key.span) else { return }
    var newest = store.generation(index)?.value ?? 0
    if entry.kind == .throttle {
      newest = max(newest, engine.throttles[index].machine.limit?.sends.last?.id ?? 0)
    }
    engine.raiseNumbers(to: newest)
  }

  private func end(_ entry: JournalEntry) {
    known.insert(Known(kind: entry.kind, key: entry.key))
    guard entry.answer.reason == "\(Reason.ownerGone.text)" else {
      _ = try? engine.end(entry.kind, entry.key.span, at: host.now)
      return
    }
    if entry.kind == .countdown, let index = engine.countdowns.find(entry.key) {
      engine.cancelCountdown(index, reason: .ownerGone, at: host.now)
    }
  }

  /// Notes what a limit that was just restored has promised.
  private func promise(_ entry: JournalEntry) {
    guard restored == Known(kind: entry.kind, key: entry.key), let until = entry.until,
      let index = engine.throttles.find(entry.key), engine.throttles[index].machine.isNamed
    else { return }
    engine.throttles[index].machine.note(until + shift)
  }

  /// Returns why a decision cannot be compared; nil if it can.
  private func obstacle(to entry: JournalEntry) -> String? {
    if isBroken { return "entries before it are missing" }
    let entities =
      [Known(kind: entry.kind, key: entry.words[2])]
      + entry.limits.map { Known(kind: .throttle, key: $0) }
    return entities.contains(where: damaged.contains) ? "its state cannot be read" : nil
  }

  private func decide(_ entry: JournalEntry) throws(Problem) {
    for limit in entry.limits { known.insert(Known(kind: .throttle, key: limit)) }
    guard entry.words.count > 2 else { return }
    let key = entry.words[2]
    known.insert(Known(kind: entry.kind, key: key))
    let counts = entry.at.wall.microseconds >= since
    if counts { report.decisions += 1 }
    // An error has changed nothing.
    guard entry.answer.error.isEmpty else { return }
    guard let recorded = values(of: entry) else {
      if counts { report.notComparable["this release does not have the command", default: 0] += 1 }
      return
    }
    let verb = recorded.spec.subcommand!
    let isStart = entry.kind == .countdown && (verb == "START" || verb == "RESEND")
    let then = entry.answer
    if isStart, counts { report.then.add(then) }
    if verb == "START" { starts[key] = recorded }
    guard let command = try adapt(recorded, entry, isStart: isStart) else {
      // It is about a send that was not made, or about limits that these rules do not have.
      if counts, !(verb == "TAKE" && then.isAccepted == true) {
        report.differing += 1
        if verb == "PASS", then.isAccepted == true, !then.isRepetition {
          report.lostPasses += 1
          report.lostKeys.insert(key)
        }
      }
      return
    }
    let waits = isStart || verb == "TAKE"
    let isNew = waits && then.isAccepted == true && !then.isRepetition && then.generation != 0
    engine.raiseNumbers(to: entry.number)
    let now = run(command)
    var isOther =
      then.isAccepted != now.isAccepted || then.reason != now.reason || !now.error.isEmpty
    let isTimed = waits || ["guesses", "limit", "blocked"].contains(then.reason)
    if isTimed, then.isAccepted == false {
      isOther = isOther || (then.limit, then.retryAfterMS) != (now.limit, now.retryAfterMS)
    }
    if counts, let obstacle = obstacle(to: entry) {
      report.notComparable[obstacle, default: 0] += 1
    } else if counts, isOther {
      report.differing += 1
    }
    if counts, waits, !now.error.isEmpty { report.undecided[now.error, default: 0] += 1 }
    if isStart, counts { report.now.add(now) }
    guard isNew else { return }
    if now.isAccepted == true {
      if now.generation != then.generation { renamed[then.generation] = now.generation }
    } else {
      notMade[then.generation] = now.isAccepted == false
      if isStart, counts, now.isAccepted == false { report.affected[key, default: 0] += 1 }
    }
  }

  private func run(_ command: CommandValues) -> JournalEntry.Answer {
    let (dispatcher, journal) = (table!, engine.journal!)
    // The commands of administrators were checked.
    let session = Session(
      connection: Self.connection, peer: Peer(uid: 0, pid: 0), address: "", at: host.now)
    var answer = JournalEntry.Answer()
    KeptArguments(command.words).withArguments { arguments in
      do throws(CommandError) {
        try dispatcher.check(command.spec, arguments, session)
        let call = Call(
          dispatcher: dispatcher, session: session, spec: command.spec, arguments: arguments,
          now: host.now)
        try dispatcher.performForJournal(journal, call)
        if let last = journal.last { answer = last.answer }
      } catch {
        answer.error = error.text
      }
    }
    return answer
  }

  // MARK: Other rules

  /// Returns a recorded command; nil if there is no such command.
  private func values(of entry: JournalEntry) -> CommandValues? {
    KeptArguments(entry.words).withArguments { arguments in
      guard let index = try? table!.find(arguments) else { return nil }
      return CommandValues(table!.table.rows[index], arguments)
    }
  }

  /// Returns a command as these rules need it; nil if it is about a send that they did not allow.
  private func adapt(
    _ recorded: CommandValues, _ entry: JournalEntry, isStart: Bool
  ) throws(Problem) -> CommandValues? {
    var command = recorded
    let key = entry.words[2]
    guard entry.kind == .countdown else {
      if let given = command.options["ID"]?.first {
        guard let id = name(here: Int64(String(decoding: given, as: UTF8.self)) ?? 0) else {
          return nil
        }
        command.options["ID"] = [Array("\(id)".utf8)]
      }
      // A limit that these rules do not have limits nothing.
      guard command.spec.subcommand == "TAKE", entry.limits.contains(key),
        entry.words.count > 3 || isKnown(key)
      else { return command }
      command.positions.removeAll { entry.limits.contains($0) && !isKnown($0) }
      return command.positions.isEmpty ? nil : command
    }
    if isStart {
      let isNew = engine.countdowns.find(key) == nil
      if command.spec.subcommand == "RESEND", isNew, let start = starts[key] {
        command = start
        command.options["TOKEN"] = nil
        command.options.merge(recorded.options) { $1 }
      }
      var policy = engine.countdowns.find(key).flatMap { engine.policyInForce($0)?.policy }
      if let name = command.options["POLICY"]?.first {
        policy = settings.policies[String(decoding: name, as: UTF8.self)]
      }
      command.options["LIMIT"] = try limits(policy?.rules.limits ?? [], of: command, entry)
      return command
    }
    if command.spec.subcommand == "ATTEMPT" {
      let sending = engine.countdowns.find(key).flatMap { engine.countdowns.sending($0) }
      // A repetition asked no limits.
      let names = entry.answer.isRepetition ? nil : sending?.policy.rules.attemptLimits
      command.options["LIMIT"] = try limits(names ?? [], of: command, entry)
    }
    // It is about all codes, whichever sends these rules have allowed.
    if command.options["ANY"] != nil { return engine.countdowns.find(key) == nil ? nil : command }
    let given = command.options["GENERATION"]?.first
    let named = given.map { Int64(String(decoding: $0, as: UTF8.self)) ?? 0 }
    let meant = named ?? entry.answer.generation
    guard let generation = name(here: meant) else { return nil }
    let now = engine.countdowns.find(key).map { engine.countdowns.generation($0).value }
    let isAboutCode = ["PASS", "ATTEMPT"].contains(command.spec.subcommand)
    if given != nil || isAboutCode && meant != 0 && now != nil && now != generation {
      command.options["GENERATION"] = [Array("\(generation)".utf8)]
    }
    return command
  }

  /// Returns the number that a send or a TAKE has here; nil if it was not made.
  private func name(here number: Int64) -> Int64? {
    notMade[number] == nil ? renamed[number] ?? number : nil
  }

  private func isKnown(_ limit: [UInt8]) -> Bool { engine.rules(of: limit.span) != nil }

  /// Returns the limits of a command that its policy names now; nil if it names none.
  private func limits(
    _ names: [String], of command: CommandValues, _ entry: JournalEntry
  ) throws(Problem) -> [[UInt8]]? {
    engine.stores.throttles.derivedKeys = [:]
    if segment.keys != "plain" {
      for limit in names {
        guard let count = settings.throttles[limit]?.rules.droppedSuffixLength else { continue }
        let key = entry.limits.first { name(of: $0) == limit }
        guard let key, segment.derived.contains("\(limit)=\(count)") else {
          throw Problem(
            text: "the limit '\(limit)' takes its keys from the countdowns', which this journal "
              + "has only as hashes; replay it with rules without that limit")
        }
        engine.stores.throttles.derivedKeys[limit] = key
      }
    }
    let limits = command.options["LIMIT"]?.filter {
      names.contains(name(of: $0)) && settings.throttles[name(of: $0)]?.needsKey ?? false
    }
    return limits?.isEmpty ?? true ? nil : limits
  }

  private func name(of key: [UInt8]) -> String { LimitRules.name(of: key.span) ?? "" }
}

extension JournalEntry.Answer {
  /// Whether the command repeats one that was accepted before.
  fileprivate var isRepetition: Bool { reason == "\(Reason.repeated.text)" }
}

/// The host of a replay: it has nothing but the time.
private final class ReplayHost: CommandHost {
  var now = Moment(boot: .zero, wall: .zero)
  var stopwatch: () -> Int64 { { 0 } }
  var configuration: [(name: String, value: String)] { [] }
  func figures(_ section: InfoSection, forAdmin: Bool) -> [Figure] { [] }
  var limits: HostLimits { HostLimits() }
  func transport(of connection: UInt64) -> TransportFacts {
    TransportFacts(descriptor: -1, path: "", unreadInput: 0)
  }
  func close(_ connection: UInt64, _ reason: CloseReason) {}
  func reload(_ done: @escaping (ReloadOutcome) -> Void) {}
  func setLogLevel(_ level: String) -> Bool { false }
  func beginBackup(for connection: UInt64) throws(StateError) -> Int64 { 0 }
  func backupSize(_ id: Int64, of connection: UInt64) throws(StateError) -> Int64? { nil }
  func readBackup(
    _ id: Int64, of connection: UInt64, at offset: Int64, count: Int
  ) throws(StateError) -> [UInt8] { [] }
  func endBackup(_ id: Int64, of connection: UInt64) throws(StateError) {}
  func endBackup(of connection: UInt64) {}
  func shutDown() {}
  func restart(
    after pause: Interval, inNextBoot isReboot: Bool, answering connection: UInt64
  ) -> Bool { false }
  var virtualClock: VirtualClock? { nil }
}
