import Wire

/// Keeps what was decided, to be read and to be replayed with other rules: commands about
/// countdowns, rate limits and idempotency keys, and their answers.
///
/// A replay can begin at each segment: before the first entry about an entity, a segment has the
/// entity's state. So nothing has to be copied at once. The entries wait in `pending` until the
/// host takes them.
package final class Journal {
  /// The settings, as the operator writes them.
  package struct Settings: Equatable, Sendable {
    package enum Keys: String, CaseIterable, Sendable { case plain, hmac }

    /// The most bytes on the disk; 0 keeps no journal.
    package var size = 0
    package var entries = 10_000_000
    package var keys = Keys.plain
    package var secretFile: String?
    /// The content of that file.
    package var secret: [UInt8] = []

    package init() {}

    package var isOn: Bool { size > 0 }
  }

  /// Entries for the same segment, as bytes.
  package struct Portion: Sendable {
    package let beginsSegment: Bool
    /// How many entries before it are lost, says the entry that begins the segment.
    package let lost: Int
    package fileprivate(set) var entries: [[UInt8]] = []
    package fileprivate(set) var bytes = 0

    /// How many entries are lost with it: what begins a segment decides nothing.
    package var decisiveEntries: Int { entries.count - (beginsSegment ? 1 : 0) }
  }

  /// A segment has at most this part of the journal; the oldest is removed as a whole.
  package static let segments = 8
  /// The most bytes of a segment, as a start reads the newest.
  private static let maximumInSegment = 64 << 20
  /// The most bytes that wait for the host.
  private static let maximumPending = 16 << 20
  /// About what the file needs for each entry besides its bytes.
  private static let overhead = 32
  /// How much later than noted what is due may have been run.
  static let lag = Interval.seconds(10)

  unowned let engine: Engine
  private var settings: Settings
  private let bootID: String
  /// Hashes a key; nil if keys are kept as they are.
  let hash: (([UInt8]) -> [UInt8])?
  package let keysID: String

  package private(set) var pending: [Portion] = []
  private var pendingBytes = 0
  /// How many entries were lost that no segment reports yet.
  package private(set) var lost = 0
  /// How many of them did not fit in `pending`, since `takeDropped`.
  private var dropped = 0
  /// The entities that this segment knows, by the hashes of kind and key.
  private var known: Set<UInt64> = []
  private var segment = (bytes: 0, entries: 0)
  /// Whether the next entry begins a segment, and whether what was known before still holds.
  private var begins: (isDue: Bool, continues: Bool)

  var isInCommand = false
  /// The limits that the command under way has asked.
  var limits: [[UInt8]] = []
  /// What it has decided so far.
  private var answer = JournalEntry.Answer()
  private var number: Int64 = 0
  /// Until when all that was due has been run, as noted last.
  private var ran = Instant.zero
  /// The newest decision, for a replay.
  private(set) var last: JournalEntry?

  /// - Parameters:
  ///   - continues: whether the segment before ended with the state that there is now.
  ///   - hash: hashes a key under a secret; nil to keep keys as they are.
  package init(
    of engine: Engine, _ settings: Settings, bootID: String, continues: Bool,
    hash: (([UInt8]) -> [UInt8])? = nil
  ) {
    self.engine = engine
    self.settings = settings
    self.bootID = bootID
    self.hash = hash
    keysID = hash.map { String(decoding: $0(Array("fingerprint".utf8)), as: UTF8.self) } ?? "plain"
    begins = (true, continues)
  }

  package func reload(_ settings: Settings) { self.settings = settings }

  /// Takes what is to be written.
  package func takePending() -> [Portion] {
    defer { (pending, pendingBytes) = ([], 0) }
    return pending
  }

  /// Begins a segment after entries were lost: what was known is not known any more.
  package func startOver(lost count: Int) {
    lost += count
    begins = (true, false)
  }

  /// Returns how many entries had no room in memory since the last call.
  package func takeDropped() -> Int {
    defer { dropped = 0 }
    return dropped
  }

  // MARK: What happens

  /// Whether it keeps a command.
  static func takes(_ spec: CommandSpec) -> Bool {
    guard spec.flags.contains(.write), let kind = spec.group.kind else { return false }
    return kind.journaled != nil
  }

  /// Notes the state of the entity that a command is about.
  func begin(_ spec: CommandSpec, _ arguments: Arguments, at now: Moment) {
    beginSegmentIfDue(at: now)
    let ran = engine.ran(until: now.boot)
    if ran - self.ran >= Self.lag { note(ran: ran, at: now) }
    (isInCommand, limits, answer) = (true, [], JournalEntry.Answer())
    number = engine.lastGeneration
    guard arguments.count > 2, arguments[2].count <= EntityRecord.longestKey else { return }
    touch(spec.group.kind!, Array(arguments[2]), at: now)
  }

  /// Notes the decision of a command.
  ///
  /// - Parameter answer: nil if the command cannot be refused.
  func note(
    _ answer: Answer?, _ generation: Generation = Generation(0), retryAfterMS: Int64,
    limit: [UInt8]?
  ) {
    self.answer.isAccepted = answer?.isAccepted
    self.answer.reason = (answer?.reason?.text).map { "\($0)" } ?? ""
    self.answer.generation = generation.value
    self.answer.retryAfterMS = retryAfterMS
    note(limit: limit)
  }

  /// Notes the limit that refuses a start, which its view does not say.
  func note(limit: [UInt8]?) { answer.limit = limit.map { concealLimit($0) } }

  /// Notes that an entity ends without a command about it.
  func willEnd(
    _ kind: EntityKind, _ key: [UInt8], _ reason: Reason, at now: Moment
  ) {
    guard let journaled = kind.journaled else { return }
    beginSegmentIfDue(at: now)
    journaled.willEnd(key, in: self, at: now)
    var entry = JournalEntry(.ended, at: now)
    entry.kind = kind
    entry.key = journaled.conceal(key, for: self)
    entry.answer.reason = "\(reason.text)"
    append(entry)
  }

  package func noteReload(_ settings: [String], at now: Moment) {
    beginSegmentIfDue(at: now)
    var entry = JournalEntry(.reloaded, at: now)
    entry.words = settings.map { Array($0.utf8) }
    append(entry)
  }

  package func close(at now: Moment) {
    beginSegmentIfDue(at: now)
    var entry = JournalEntry(.closed, at: now)
    entry.segment.bootID = bootID
    append(entry)
  }

  /// Notes a command and its answer.
  func end(
    _ spec: CommandSpec, _ arguments: Arguments, error: CommandError?, by client: Client,
    at now: Moment
  ) {
    var entry = JournalEntry(.decision, at: now)
    entry.kind = spec.group.kind!
    entry.uid = client.uid
    entry.words = words(arguments, of: spec, isValid: error == nil)
    entry.limits = limits.map { concealLimit($0) }
    if let error {
      answer = JournalEntry.Answer()
      answer.error = error.text
    }
    entry.answer = answer
    entry.number = number
    if hash != nil, let error { entry.answer.error = String(error.text.prefix { $0 != " " }) }
    (isInCommand, limits) = (false, [])
    last = entry
    append(entry)
  }

  // MARK: Entries

  func append(_ entry: JournalEntry) {
    let bytes = entry.bytes(offset: 0)
    guard !begins.isDue, pendingBytes + bytes.count <= Self.maximumPending else {
      dropped += 1
      return startOver(lost: 1)
    }
    put(bytes)
  }

  /// Begins a segment if it is time: not between an entry and the states that belong to it.
  func beginSegmentIfDue(at now: Moment) {
    guard !isInCommand, pendingBytes < Self.maximumPending,
      begins.isDue || segment.bytes >= min(settings.size / Self.segments, Self.maximumInSegment)
        || segment.entries >= max(settings.entries / Self.segments, 1)
    else { return }
    var entry = JournalEntry(.segment, at: now)
    entry.segment.bootID = bootID
    entry.segment.keys = keysID
    entry.segment.continues = begins.continues
    entry.segment.lost = Int64(lost)
    entry.segment.derived = engine.settings.derivedLimits
    pending.append(Portion(beginsSegment: true, lost: lost))
    (known, segment, begins, lost) = ([], (0, 0), (false, true), 0)
    put(entry.bytes(offset: 0))
    note(ran: ran, at: now)
  }

  private func note(ran: Instant, at now: Moment) {
    self.ran = ran
    var entry = JournalEntry(.ran, at: now)
    entry.until = ran
    append(entry)
  }

  private func put(_ bytes: [UInt8]) {
    if pending.isEmpty { pending.append(Portion(beginsSegment: false, lost: 0)) }
    pending[pending.count - 1].entries.append(bytes)
    pending[pending.count - 1].bytes += bytes.count
    pendingBytes += bytes.count
    segment.bytes += bytes.count + Self.overhead
    segment.entries += 1
  }

  // MARK: States

  /// Notes the state of an entity, if this segment does not know it yet.
  func touch(_ kind: EntityKind, _ key: [UInt8], at now: Moment) {
    guard !begins.isDue, let journaled = kind.journaled, journaled.hasState else { return }
    var hasher = Hasher()
    hasher.combine(kind)
    hasher.combine(key)
    guard known.insert(UInt64(bitPattern: Int64(hasher.finalize()))).inserted else { return }
    let records = journaled.records(key, for: self)
    guard !records.isEmpty else { return }
    var entry = JournalEntry(.state, at: now)
    entry.kind = kind
    entry.key = journaled.conceal(key, for: self)
    entry.records = records
    append(entry)
    journaled.noteRest(key, in: self, at: now)
  }

  // MARK: Keys

  func conceal(_ key: [UInt8]) -> [UInt8] { hash?(key) ?? key }

  /// All that matters of an owner is that it ends with the daemon.
  private static func owner(_ value: [UInt8]) -> [UInt8] {
    let isNone = String(decoding: value, as: UTF8.self).lowercased() == "none"
    return Array((isNone ? "none" : "connection").utf8)
  }

  /// A token is never kept as it is.
  func conceal(token: [UInt8]) -> [UInt8] {
    if let hash { return hash(token) }
    return Array(String(SipHash(key: (0, 0))(token.span), radix: 16).utf8)
  }

  /// Returns the words of a command that decide something.
  ///
  /// - Parameter isValid: whether the command was not refused with an error.
  private func words(
    _ arguments: Arguments, of spec: CommandSpec, isValid: Bool
  ) -> [[UInt8]] {
    var words = [Array(spec.name.utf8), Array((spec.subcommand ?? "").utf8)]
    for (index, role) in spec.roles(of: arguments).enumerated() {
      switch role {
      case .name: continue
      case .unknown: return words
      case .token(let option) where option.isDecisive: words.append(Array(option.token!.utf8))
      case .value(let parameter) where parameter.isDecisive:
        // What stands in place of a limit is none, so the rest may be anything.
        if let more = parameter.more, !more.contains(arguments[index]) { return words }
        words.append(
          conceal(value: Array(arguments[index]), of: parameter, spec, isValid: isValid))
      case .token, .value: continue
      }
    }
    return words
  }

  /// Hides keys, tokens and secrets, and all values of a command that was refused with an error:
  /// they may be anything, such as a key at the place of a number. A replay leaves it out.
  private func conceal(
    value: [UInt8], of parameter: Parameter, _ spec: CommandSpec, isValid: Bool
  ) -> [UInt8] {
    if let kind = parameter.type == .key ? parameter.other ?? spec.group.kind : parameter.other {
      return kind.journaled?.conceal(value, for: self) ?? conceal(value)
    }
    if parameter.type == .token { return conceal(token: value) }
    if parameter.type == .owner { return Self.owner(value) }
    if parameter.isSecret { return [UInt8(ascii: "-")] }
    let isPolicy =
      parameter.token == "POLICY"
      && engine.settings.policies[String(decoding: value, as: UTF8.self)] != nil
    return isValid || isPolicy ? value : conceal(value)
  }
}

extension EngineSettings {
  /// Limits that take their keys from the countdowns', as `name=4`.
  fileprivate var derivedLimits: [String] {
    throttles.compactMap { name, limit in limit.rules.droppedSuffixLength.map { "\(name)=\($0)" } }
      .sorted()
  }
}

extension Dispatcher {
  /// Runs a command, and notes it and its answer in the journal.
  @inline(never)
  func performForJournal(
    _ journal: Journal, _ call: borrowing Call
  ) throws(CommandError) {
    journal.begin(call.spec, call.arguments, at: call.now)
    do throws(CommandError) {
      try call.spec.handler(call)
    } catch {
      journal.end(call.spec, call.arguments, error: error, by: call.client, at: call.now)
      throw error
    }
    journal.end(call.spec, call.arguments, error: nil, by: call.client, at: call.now)
  }
}
