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
    /// Entries that the journal could not keep.
    package var missing: Int64 = 0
  }

  /// What is due happens so late on the journal's time. The journal says when a code expired, which
  /// is a moment after it was due; unless the machine was suspended.
  private static let lag = Interval.seconds(10)

  private let settings: EngineSettings
  /// Only entries from this time on count, in microseconds since 1970.
  private let since: Int64
  package private(set) var report = Report()
  private let host = ReplayHost()
  private var table: Dispatcher?
  private var segment = JournalEntry.Segment()
  /// How far the time of the replay is ahead of the boot clock of the entry.
  private var shift = Interval.zero
  /// When the daemon last began to run: until then what was due waited.
  private var resumed = Instant.zero
  private var wasClosed = false
  /// How many entries are missing before the next one, and whether any are in this segment.
  private var gap: Int64 = 0
  private var isBroken = false
  private var known: Set<Known> = []
  /// Sends that have other generations here; those that are not made, and whether they are refused.
  private var renamed: [Int64: Int64] = [:]
  private var notMade: [Int64: Bool] = [:]
  /// The options of the last START of a key.
  private var starts: [[UInt8]: [[UInt8]]] = [:]

  private struct Known: Hashable {
    let kind: EntityKind
    let key: [UInt8]
  }

  package init(_ settings: EngineSettings, since: Int64 = .min) {
    var settings = settings
    settings.eventsKept = 0
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
    case .state, .decision, .expired, .waits, .ended: break
    }
    guard table != nil else { throw Problem(text: "the journal does not begin with a segment") }
    if entry.at.wall.microseconds >= since {
      if report.first == nil { report.first = entry.at.wall.microseconds }
      report.last = entry.at.wall.microseconds
    }
    let boot = entry.at.boot + shift
    host.now = Moment(boot: max(boot, host.now.boot), wall: entry.at.wall)
    passTime()
    switch entry.what {
    case .state: restore(entry)
    case .waits:
      if let index = engine.countdowns.find(entry.key) {
        _ = engine.runDue(countdown: index, at: host.now)
      }
      hold(entry.key, until: entry.until)
    case .expired:
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
    if wasClosed { resumed = entry.at.boot + shift }
    wasClosed = false
    let continues = segment.continues && segment.keys == before.keys && !isBroken
    isBroken = false
    guard table == nil || !continues else { return }
    let engine = Engine(settings: settings, at: host.now)
    var recording = Journal.Settings()
    recording.size = .max
    engine.journal = Journal(of: engine, recording, bootID: "", continues: true)
    table = Dispatcher(engine: engine, host: host)
    (known, renamed, notMade, starts) = ([], [:], [:], [:])
  }

  /// Runs what is due, each at its moment.
  private func passTime() {
    let end = host.now.boot + Self.lag * -1
    guard end > resumed else { return }
    while let next = engine.nextDeadline.boot, next <= end {
      let moment = max(next, resumed)
      let wall = host.now.wall + (moment - host.now.boot)
      _ = engine.advance(to: Moment(boot: moment, wall: wall), budget: 1_000)
    }
  }

  private func restore(_ entry: JournalEntry) {
    guard known.insert(Known(kind: entry.kind, key: entry.key)).inserted else { return }
    let kind = entry.kind.behavior
    guard kind.find(entry.key.span, in: engine) == nil else { return }
    for record in entry.records {
      let place = UInt32(kind.indexEnd(in: engine))
      // What cannot be restored begins as new.
      try? kind.restore(
        record[...], at: place, offset: shift.microseconds * -1, in: engine, at: host.now)
    }
    // Numbers of sends rise.
    guard let index = kind.find(entry.key.span, in: engine) else { return }
    var newest = kind.generation(index, in: engine)?.value ?? 0
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

  /// Lets a countdown that waits for its limits wait as long as it did.
  private func hold(_ key: [UInt8], until: Instant?) {
    guard let until, let index = engine.countdowns.find(key),
      engine.policyInForce(index)?.ownUntil != nil, engine.countdowns.machine(index).ticks
    else { return }
    engine.countdowns[index].machine.hold(until: until + shift)
    engine.armCountdown(index, at: host.now)
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
    let verb = String(decoding: entry.words[1], as: UTF8.self)
    let isStart = entry.kind == .countdown && (verb == "START" || verb == "RESEND")
    let (then, recorded) = (entry.answer, entry.answer.generation)
    if isStart, counts { report.then.add(then) }
    if verb == "START", isStart { starts[key] = Array(entry.words.dropFirst(3)) }
    guard let words = try words(of: entry, verb, isStart: isStart) else {
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
    let isNew = isStart && then.isAccepted == true && !then.isRepetition
    engine.raiseNumbers(to: entry.number)
    let now = run(words, uid: entry.uid)
    hold(key, until: entry.until)
    let waits = isStart || verb == "TAKE"
    var isOther =
      then.isAccepted != now.isAccepted || then.reason != now.reason || !now.error.isEmpty
    if waits, then.isAccepted == false {
      isOther = isOther || (then.limit, then.retryAfterMS) != (now.limit, now.retryAfterMS)
    }
    if counts, isOther { report.differing += 1 }
    if counts, waits, !now.error.isEmpty { report.undecided[now.error, default: 0] += 1 }
    guard isStart else { return }
    if counts { report.now.add(now) }
    guard isNew else { return }
    if now.isAccepted == true {
      if now.generation != recorded { renamed[recorded] = now.generation }
    } else {
      notMade[recorded] = now.isAccepted == false
      if counts, now.isAccepted == false { report.affected[key, default: 0] += 1 }
    }
  }

  private func run(_ words: [[UInt8]], uid: UInt32) -> JournalEntry.Answer {
    let (dispatcher, journal) = (table!, engine.journal!)
    // The commands of administrators were checked.
    let session = Session(
      connection: 1, peer: Peer(uid: 0, pid: 0), address: "", at: host.now)
    var answer = JournalEntry.Answer()
    KeptArguments(words).withArguments { arguments in
      do throws(CommandError) {
        let spec = dispatcher.table.rows[try dispatcher.find(arguments)]
        try dispatcher.check(spec, arguments, session)
        let call = Call(
          dispatcher: dispatcher, session: session, spec: spec, arguments: arguments,
          now: host.now)
        try dispatcher.performForJournal(journal, call)
        if let last = journal.last { answer = last.answer }
      } catch {
        answer.error = error.text
      }
    }
    return answer
  }

  // MARK: Words

  /// Returns the words of a command as these rules need them; nil if it is about a send that they
  /// did not allow.
  private func words(
    of entry: JournalEntry, _ verb: String, isStart: Bool
  ) throws(Problem) -> [[UInt8]]? {
    var words = entry.words
    let key = words[2]
    guard entry.kind == .countdown else {
      guard verb == "TAKE", words.count > 3 || settings.throttles[name(of: key)] != nil else {
        return words
      }
      // A limit that these rules do not have limits nothing.
      let isNamed = entry.limits.contains(key)
      let unknown = { [self] (limit: [UInt8]) in
        entry.limits.contains(limit) && settings.throttles[name(of: limit)] == nil
      }
      guard isNamed else { return words }
      let left = words.enumerated().filter { $0.offset < 2 || !unknown($0.element) }
      guard left.count > 2, left[2].element.contains(UInt8(ascii: ":")) else { return nil }
      return left.map(\.element)
    }
    if isStart {
      if verb == "RESEND", engine.countdowns.find(key) == nil, let start = starts[key] {
        let new = Array(words.dropFirst(3))
        words = [words[0], Array("START".utf8), key]
        let hasLimits = new.contains(Array("LIMIT".utf8))
        words += without("TOKEN", hasLimits ? without("LIMIT", start) : start)
        words += new
      }
      return try limited(words, entry)
    }
    let place = words.firstIndex(of: Array("GENERATION".utf8)).map { $0 + 1 }
    var meant = entry.answer.generation
    if let place, place < words.count {
      meant = Int64(String(decoding: words[place], as: UTF8.self)) ?? 0
    }
    if meant != 0, notMade[meant] != nil { return nil }
    let generation = renamed[meant] ?? meant
    if let place, place < words.count {
      words[place] = Array("\(generation)".utf8)
    } else if verb == "PASS" || verb == "ATTEMPT", meant != 0,
      let index = engine.countdowns.find(key),
      engine.countdowns.generation(index).value != generation
    {
      words += [Array("GENERATION".utf8), Array("\(generation)".utf8)]
    }
    return words
  }

  /// Returns the words of a START or RESEND with the limits that its policy names now.
  private func limited(_ words: [[UInt8]], _ entry: JournalEntry) throws(Problem) -> [[UInt8]] {
    var policy = engine.countdowns.find(words[2]).flatMap { engine.policyInForce($0)?.policy }
    if let place = words.firstIndex(of: Array("POLICY".utf8)), place + 1 < words.count {
      policy = settings.policies[String(decoding: words[place + 1], as: UTF8.self)]
    }
    engine.derivedKeys = [:]
    let names = policy?.rules.limits ?? []
    if segment.keys != "plain" {
      for limit in names {
        guard let count = settings.throttles[limit]?.rules.withoutLast else { continue }
        let key = entry.limits.first { name(of: $0) == limit }
        guard let key, segment.derived.contains("\(limit)=\(count)") else {
          throw Problem(
            text: "the limit '\(limit)' takes its keys from the countdowns', which this journal "
              + "has only as hashes; replay it with rules without that limit")
        }
        engine.derivedKeys[limit] = key
      }
    }
    let given = without("LIMIT", words)
    let limits = words.filter { word in
      guard !given.contains(word), word != Array("LIMIT".utf8) else { return false }
      let name = name(of: word)
      return names.contains(name) && settings.throttles[name]?.needsKey ?? false
    }
    return limits.isEmpty ? given : given + [Array("LIMIT".utf8)] + limits
  }

  private func name(of key: [UInt8]) -> String { LimitRules.name(of: key.span) ?? "" }

  /// Returns words without an option and its values: those of LIMIT have a colon.
  private func without(_ option: String, _ words: [[UInt8]]) -> [[UInt8]] {
    guard let place = words.firstIndex(of: Array(option.utf8)) else { return words }
    var end = place + 1
    if option == "LIMIT" {
      while end < words.count, words[end].contains(UInt8(ascii: ":")) { end += 1 }
    } else {
      end = min(end + 1, words.count)
    }
    return without(option, Array(words[..<place] + words[end...]))
  }
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
  func limitReached(_ name: String, _ value: Int, by client: Client, key: [UInt8]?) {}
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
