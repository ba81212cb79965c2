import Wire

/// Takes commands to the engine, and replies and events to sessions.
///
/// Knows no sockets: its driver passes arguments and the time, and writes the `output` of sessions.
/// Not thread-safe: one event loop owns it.
package final class Dispatcher {
  package struct Settings: Equatable, Sendable {
    /// The most unread output of a connection, in bytes. An event beyond it closes the connection.
    package var maxOutput = 64 << 20
    /// The most unread output of all connections of a user, in bytes. Beyond it commands of the
    /// user are refused, and each event for the user closes one of its connections.
    package var maxOutputPerUser = 256 << 20
    package var access = AccessRules()
    package var onDamage = OnDamage.continue
    /// Commands that take at least this long are logged.
    package var slowCommand = Interval.milliseconds(10)
    package var slowLogLength = 128
    /// The most bytes of the commands between MULTI and EXEC together.
    package var maxRequestLength = 1 << 20

    package init() {}
  }

  /// What happens while damage to the state is not acknowledged.
  package enum OnDamage: String, CaseIterable, Sendable { case `continue`, refuse }

  package let engine: Engine
  package internal(set) var table: CommandTable
  package private(set) var settings: Settings
  /// The owner of the dispatcher, which it outlives. (Counting references would take longer.)
  @safe package unowned(unsafe) let host: any CommandHost

  package private(set) var sessions: [UInt64: Session] = [:]
  /// The users with open connections, by uid.
  package private(set) var users: [UInt32: User] = [:]
  /// The number of the current batch.
  private(set) var batch = 0
  package var fairness: Fairness
  /// The events being delivered, and the frames and targets of one. Their memory is reused.
  var delivering = Outbox()
  /// The number of them that are delivered, and the comparison with patterns for the next.
  var delivered = 0
  var matching: PatternTable.Matching?
  var isDelivering = false
  /// Whether the next delivery is of all events: those of a virtual time that has passed.
  var deliversAtOnce = false
  var frame = SharedFrame()
  var targets = Targets()
  /// The sessions touched in this batch: their output is written when the batch ends.
  private var touched: [Session] = []
  /// Numbers of sessions: those in `touched` that the batch before touched, too; all of the batch
  /// before; and all of the last two batches together.
  private var touchedAgain = 0
  private var touchedBefore = 0
  private var touchedLately = 0

  var slowLog: SlowLog
  var statistics: CommandStatistics
  private var monitors: [UInt64] = []
  /// The unread output of all clients, in bytes, and its peak since memory was last returned.
  var unreadBytes = 0
  var maximumUnread = 0
  /// Held-back connections whose users have room for output again.
  var roomFreed: [UInt64] = []
  /// Whether the state is still being read, so that commands about entities are refused.
  package var isLoading = false { didSet { restrict() } }
  /// What was found damaged in the state, until it is acknowledged.
  package var damage: [String] = [] { didSet { restrict() } }
  /// Whether some commands are refused: one look for all, as every command asks.
  private var isRestricted = false
  /// The fleet that this daemon belongs to; nil if there is none.
  package var fleet: Fleet?

  package init(engine: Engine, settings: Settings = Settings(), host: any CommandHost) {
    self.engine = engine
    self.settings = settings
    self.host = host
    fairness = Fairness(host.stopwatch)
    table = .all
    slowLog = SlowLog(threshold: settings.slowCommand.microseconds, length: settings.slowLogLength)
    statistics = CommandStatistics(commands: table.rows.count)
  }

  /// Applies new settings.
  package func reload(_ settings: Settings) {
    if settings.access != self.settings.access {
      for session in sessions.values { session.rights = settings.access.rights(of: session.peer) }
    }
    self.settings = settings
    restrict()
    slowLog.reload(threshold: settings.slowCommand.microseconds, length: settings.slowLogLength)
  }

  private var refusesAsDamaged: Bool { settings.onDamage == .refuse && !damage.isEmpty }

  private func restrict() { isRestricted = isLoading || refusesAsDamaged }

  private func checkRestriction(_ spec: CommandSpec) throws(CommandError) {
    if isLoading, spec.needsState {
      throw CommandError("LOADING state is being read; INFO persistence shows the progress")
    }
    guard refusesAsDamaged, !spec.worksWhenDamaged else { return }
    throw CommandError(
      "DAMAGED \(damage[0]): nothing is decided until an administrator has looked at it and "
        + "acknowledges it with `countdownctl state acknowledge`")
  }

  // MARK: Sessions

  package func open(_ session: Session) {
    sessions[session.client.connection] = session
    let user = users[session.client.uid] ?? User()
    users[session.client.uid] = user
    user.connections += 1
    session.user = user
    session.rights = settings.access.rights(of: session.peer)
    engine.connect(session.client.connection)
    statistics.connections += 1
  }

  /// Removes a closed connection's session. Its entities are cancelled bit by bit, with due work.
  package func close(_ session: Session) {
    sessions[session.client.connection] = nil
    monitors.removeAll { $0 == session.client.connection }
    engine.disconnect(session.client.connection)
    fleet?.ownerCloses(session.client.connection)
    session.isClosing = true
    session.isGone = true
    session.discardOutput()
    account(session)
    session.user?.heldBack.remove(session.client.connection)
    session.user?.connections -= 1
    if session.user?.connections == 0 { users[session.client.uid] = nil }
  }

  // MARK: Commands

  /// Executes one command, or its first part. The reply and events go to the output of sessions.
  ///
  /// - Returns: how many units of the session's share of a round it took.
  @discardableResult
  package func execute(_ arguments: Arguments, for session: Session, at now: Moment) -> Int {
    if !session.slots.isEmpty, wasDeferred(arguments, for: session) { return 1 }
    session.lastActive = now
    session.replies.nextCommand()
    statistics.commands += 1
    let start = begin(session)
    var took: Int64 = 0
    do throws(CommandError) {
      let index = try find(arguments)
      let spec = table.rows[index]
      session.lastCommand = index
      try check(spec, arguments, session)
      if !monitors.isEmpty, !spec.flags.contains(.unlogged) {
        showMonitors(arguments, of: spec, by: session, at: now)
      }
      if session.transaction != nil, !spec.flags.contains(.immediate) {
        try queue(arguments, spec, of: session)
      } else {
        try perform(index, arguments, for: session, at: now, &took)
      }
    } catch {
      session.transaction?.isRefused = true
      refuse(session, error, since: start)
    }
    finish(session, since: start)
    return spend(took, session, isCommand: true)
  }

  /// Executes a command that was found and checked.
  ///
  /// - Parameter took: set to how long it took, in microseconds.
  @inline(__always)
  func perform(
    _ index: Int, _ arguments: Arguments, for session: Session, at now: Moment, _ took: inout Int64
  ) throws(CommandError) {
    let spec = table.rows[index]
    let call = Call(
      dispatcher: self, session: session, spec: spec, arguments: arguments, now: now)
    let before = fairness.lapBegin
    do throws(CommandError) {
      if let fleet, fleet.shares(spec) {
        try fleet.submit(call)
      } else if let journal = engine.journal, Journal.takes(spec) {
        try performForJournal(journal, call)
      } else {
        try spec.handler(call)
      }
    } catch {
      took = fairness.lap(since: before)
      statistics.record(index, microseconds: took, failed: true)
      throw error
    }
    took = fairness.lap(since: before)
    statistics.record(index, microseconds: took)
    if took >= slowLog.threshold, !spec.flags.contains(.unlogged) {
      slowLog.append(arguments, of: spec, took: took, session: session, at: now)
    }
  }

  /// - Returns: where the reply begins.
  func begin(_ session: Session) -> Int {
    let start = session.output.bytes.count
    if start == 0 { session.makeRoom() }
    return start
  }

  func refuse(_ session: Session, _ error: CommandError, since start: Int) {
    // Remove a reply that had begun. There is none if this session is a monitor that the line about
    // this very command took over its limit: then all of its output was dropped.
    if session.output.bytes.count > start {
      session.output.bytes.removeSubrange(start...)
    }
    statistics.record(error)
    guard session.slots.isEmpty else {
      return fill(session.awaitReply(isBarrier: false)) { $0.error(error.text) }
    }
    session.output.error(error.text)
  }

  func finish(_ session: Session, since start: Int) {
    if session.replies.areDropped, session.output.bytes.count > start {
      session.output.bytes.removeSubrange(start...)
    }
    touch(session)
    account(session, grownBy: session.output.bytes.count - start)
    if engine.hasOutbox { deliver() }
    if !engine.notices.isEmpty { giveNotices() }
  }

  /// Has the host log what the engine has noticed.
  private func giveNotices() {
    for notice in engine.notices { host.note(.engine(notice)) }
    engine.notices.removeAll()
  }

  func spend(_ microseconds: Int64, _ session: Session, isCommand: Bool) -> Int {
    let units = Fairness.units(for: microseconds)
    session.user?.spend(units, microseconds: microseconds, isCommand: isCommand)
    return units
  }

  /// Reports a protocol error to a session, and takes no more commands from it.
  package func refuse(_ session: Session, _ error: RESPProtocolError) {
    session.output.error("ERR Protocol error: \(error.description)")
    session.isClosing = true
    statistics.protocolErrors += 1
    touch(session)
  }

  @inline(__always)
  func find(_ arguments: Arguments) throws(CommandError) -> Int {
    let second = arguments.count > 1 ? arguments[1] : nil
    switch table.find(arguments[0], second) {
    case .found(let index):
      return index
    case .unknown:
      throw CommandError(
        "ERR unknown command '\(quoted(arguments[0]))'; COMMAND LIST shows all commands")
    case .unknownSubcommand:
      let name = String(decoding: arguments[0]).uppercased()
      let known = table.family(name).compactMap(\.subcommand).joined(separator: ", ")
      guard let second else { throw CommandError("ERR \(name) needs one of \(known)") }
      throw CommandError("ERR unknown subcommand '\(quoted(second))' of \(name); known: \(known)")
    }
  }

  @inline(__always)
  func check(
    _ spec: CommandSpec, _ arguments: Arguments, _ session: Session
  ) throws(CommandError) {
    let (least, maximum) = spec.arguments
    guard arguments.count >= least, maximum.map({ arguments.count <= $0 }) ?? true else {
      throw CommandError(
        "ERR wrong number of arguments for '\(spec.fullName.lowercased())'; usage: \(spec.usage)")
    }
    if spec.flags.contains(.admin) {
      try settings.access.checkAdmin(session.peer, for: spec.fullName)
    }
    if !spec.flags.contains(.makesRoom) { try checkRoom(session) }
    if isRestricted { try checkRestriction(spec) }
    if let fleet, fleet.isLoading, fleet.lists(spec) {
      throw CommandError("LOADING what hosts share is being read; INFO fleet shows the progress")
    }
    if session.output.version == .resp2, !spec.flags.contains(.whileSubscribed),
      engine.subscriptionCount(of: session.client.connection) > 0
    {
      throw CommandError(
        "ERR Can't execute '\(spec.fullName.lowercased())': only (P)SUBSCRIBE, (P)UNSUBSCRIBE, "
          + "PING, QUIT and RESET are allowed while subscribed, unless the connection says HELLO 3")
    }
    // Without rules, this is all that they cost a command.
    if session.rights != nil { try authorize(spec, arguments, for: session) }
  }

  // MARK: Time

  /// Runs what is due. Returns false if the budget ran out first.
  package func advance(to now: Moment, budget: Int) -> Bool {
    // A step of due work may end a subscription, so some is done even while events wait.
    var isFinished = engine.advance(to: now, budget: isBehind ? 1 : budget)
    if let fleet, !fleet.advance(to: now.boot.microseconds, budget: budget) { isFinished = false }
    goOnDelivering()
    if !engine.notices.isEmpty { giveNotices() }
    return isFinished && hasDeliveredAll
  }

  // MARK: Output

  /// Marks a session to be looked at when the batch ends, even if it received nothing.
  package func touch(_ session: Session) {
    guard session.touchedInBatch != batch else { return }
    if session.touchedInBatch == batch - 1 { touchedAgain += 1 }
    session.touchedInBatch = batch
    touched.append(session)
  }

  /// Whether this batch has touched fewer sessions than the two batches before it together.
  package var hasFewerThanLately: Bool { touched.count < touchedLately }

  /// Takes the sessions touched in this batch, and begins the next one in the memory of `empty`.
  package func exchangeTouched(_ empty: inout [Session]) {
    precondition(empty.isEmpty, "what was taken before has been written")
    batch += 1
    touchedLately = touchedBefore + touched.count - touchedAgain
    touchedBefore = touched.count
    touchedAgain = 0
    swap(&touched, &empty)
  }

  // MARK: Monitors

  func startMonitor(_ session: Session) {
    guard !session.isMonitor else { return }
    session.isMonitor = true
    monitors.append(session.client.connection)
  }

  func stopMonitor(_ session: Session) {
    session.isMonitor = false
    monitors.removeAll { $0 == session.client.connection }
  }

  private func showMonitors(
    _ arguments: Arguments, of spec: CommandSpec, by session: Session, at now: Moment
  ) {
    let line = MonitorLine.text(arguments, of: spec, session: session, at: now)
    for id in monitors {
      guard let monitor = sessions[id], !monitor.isClosing else { continue }
      var encoder = RESPEncoder()
      encoder.bytes.append(UInt8(ascii: "+"))
      encoder.bytes.append(contentsOf: line.utf8)
      encoder.bytes.append(contentsOf: [0x0D, 0x0A])
      monitor.output.bytes.append(contentsOf: encoder.bytes)
      touch(monitor)
      closeIfFull(monitor, "what MONITOR shows")
    }
  }
}
