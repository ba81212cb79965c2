import Wire

/// Takes commands to the engine, and replies and events to sessions.
///
/// Knows no sockets: its driver hands in arguments and time, and writes what sessions have in their
/// `output`. Not thread-safe: one event loop owns it.
package final class Dispatcher {
  package struct Settings: Sendable {
    /// Events a connection has not read, in bytes, beyond which it is closed.
    package var maxOutput = 64 << 20
    /// What all connections of a user have not read, in bytes, beyond which no command of it is
    /// done, and for each event that is to be added a connection of it is closed.
    package var maxOutputPerUser = 256 << 20
    package var access = AccessRules()
    /// Commands that take at least this long are logged, in microseconds.
    package var slowCommand: Int64 = 10_000
    package var slowLogLength = 128

    package init() {}
  }

  package let engine: Engine
  package internal(set) var table: CommandTable
  package private(set) var settings: Settings
  /// Outlives the dispatcher, which is its own. (Counting references to it would take longer than
  /// asking.)
  @safe package unowned(unsafe) let host: any CommandHost

  package private(set) var sessions: [UInt64: Session] = [:]
  /// Those who have connections, by uid.
  package private(set) var users: [UInt32: User] = [:]
  /// Counts batches.
  private(set) var batch = 0
  /// Counts the rounds in which each client gets its share.
  private(set) var round = 0
  private let stopwatch: () -> Int64
  private var lapBegan: Int64?
  /// The events that are being delivered, and the line and frames of one; their memory is used
  /// again.
  var delivering = Outbox()
  var line = JSONLine()
  var frame = SharedFrame()
  var targets = Targets()
  /// Sessions whose output has grown since it was last asked for.
  private var touched: [Session] = []
  /// How many of them were in the batch before, too; how many that had; how many the two together.
  private var touchedAgain = 0
  private var touchedBefore = 0
  private var touchedLately = 0

  var slowLog: SlowLog
  var statistics: CommandStatistics
  private var monitors: [UInt64] = []
  /// What no client has read yet, in bytes; and the most of it since memory was returned last.
  var unreadBytes = 0
  var mostUnread = 0
  /// Connections of users that have room for output again.
  var roomFreed: [UInt64] = []
  /// The state is still being read, so commands about entities cannot be answered.
  package var isLoading = false
  /// What this daemon shares with others; nil: nothing.
  package var fleet: Fleet?

  package init(engine: Engine, settings: Settings = Settings(), host: any CommandHost) {
    self.engine = engine
    self.settings = settings
    self.host = host
    stopwatch = host.stopwatch
    table = CommandTable()
    slowLog = SlowLog(threshold: settings.slowCommand, length: settings.slowLogLength)
    statistics = CommandStatistics(commands: table.rows.count)
  }

  /// New settings count from now on.
  package func reload(_ settings: Settings) {
    self.settings = settings
    slowLog.reload(threshold: settings.slowCommand, length: settings.slowLogLength)
  }

  // MARK: Sessions

  package func open(_ session: Session) {
    sessions[session.client.connection] = session
    let user = users[session.client.uid] ?? User()
    users[session.client.uid] = user
    user.connections += 1
    session.user = user
    engine.connect(session.client.connection)
    statistics.connections += 1
  }

  /// The connection is closed. What it owned is cancelled bit by bit, with due work.
  package func close(_ session: Session) {
    sessions[session.client.connection] = nil
    monitors.removeAll { $0 == session.client.connection }
    engine.disconnect(session.client.connection)
    session.isClosing = true
    session.isGone = true
    session.discardOutput()
    account(session)
    session.user?.heldBack.remove(session.client.connection)
    session.user?.connections -= 1
    if session.user?.connections == 0 { users[session.client.uid] = nil }
  }

  // MARK: Commands

  /// Does one command, or its first part; the reply, and events that it causes, go to the sessions'
  /// output.
  ///
  /// - Returns: how much of the session's share of a round it took.
  @discardableResult
  package func execute(_ arguments: Arguments, for session: Session, at now: Moment) -> Int {
    if !session.pending.isEmpty, waitsForPending(arguments) {
      session.deferred = KeptArguments(arguments)
      session.isWaiting = true
      return 1
    }
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
      let call = Call(
        dispatcher: self, session: session, spec: spec, arguments: arguments, now: now)
      let before = lapBegan ?? stopwatch()
      do throws(CommandError) {
        if let fleet, fleet.shares(spec) { try fleet.submit(call) } else { try spec.handler(call) }
      } catch {
        took = lap(since: before)
        statistics.record(index, microseconds: took, failed: true)
        throw error
      }
      took = lap(since: before)
      statistics.record(index, microseconds: took)
      if took >= slowLog.threshold, !spec.flags.contains(.unlogged) {
        slowLog.append(arguments, of: spec, took: took, session: session, at: now)
      }
    } catch {
      refuse(session, error, since: start)
    }
    finish(session, since: start)
    return spend(took, session, isCommand: true)
  }

  /// Begins to fetch what a command needs that is to be executed soon, if it is like the last one.
  package func prepare(_ arguments: Arguments) {
    let place = table.lastCountdown
    if place > 0, place < arguments.count { engine.countdowns.prepare(arguments[place]) }
  }

  /// Does another part of a command that is not finished.
  ///
  /// - Returns: how much of the session's share of a round it took.
  @discardableResult
  package func goOn(_ session: Session, at now: Moment) -> Int {
    guard let unfinished = session.unfinished else { return 1 }
    let start = begin(session)
    let before = lapBegan ?? stopwatch()
    do throws(CommandError) {
      if try unfinished.part(now) { session.unfinished = nil }
    } catch {
      session.unfinished = nil
      refuse(session, error, since: start)
    }
    let took = lap(since: before)
    finish(session, since: start)
    return spend(took, session, isCommand: false)
  }

  /// - Returns: where the reply begins.
  private func begin(_ session: Session) -> Int {
    let start = session.output.bytes.count
    if start == 0 { session.makeRoom() }
    return start
  }

  private func refuse(_ session: Session, _ error: CommandError, since start: Int) {
    // A reply that had begun is removed; there is none where a monitor went over its limit
    // by the line about this very command, and all of its output was dropped.
    if session.output.bytes.count > start {
      session.output.bytes.removeSubrange(start...)
    }
    session.collected.bytes = []
    session.output.error(error.text)
    statistics.record(error)
  }

  private func finish(_ session: Session, since start: Int) {
    if session.replies.areDropped, session.output.bytes.count > start {
      session.output.bytes.removeSubrange(start...)
    }
    touch(session)
    account(session, grownBy: session.output.bytes.count - start)
    if engine.hasOutbox { deliver() }
  }

  /// A command counts for one, and for one more for each so many microseconds.
  private static let microsecondsPerUnit: Int64 = 4

  private func spend(_ microseconds: Int64, _ session: Session, isCommand: Bool) -> Int {
    let units = 1 + Int(clamping: max(microseconds, 0) / Self.microsecondsPerUnit)
    session.user?.spend(units, microseconds: microseconds, isCommand: isCommand)
    return units
  }

  /// Commands follow each other from now on: each is timed from the end of the one before, as
  /// looking at the clock takes about as long as a small command.
  ///
  /// - Parameter now: what the stopwatch says, if that is known.
  package func beginLaps(_ now: Int64? = nil) { lapBegan = now ?? stopwatch() }

  package func endLaps() { lapBegan = nil }

  /// How long something took, in microseconds, that began then and has just ended.
  private func lap(since before: Int64) -> Int64 {
    let now = stopwatch()
    if lapBegan != nil { lapBegan = now }
    return now - before
  }

  /// Gives the reply that a command is owed since it was done, and continues with those after it.
  func answerLater(_ session: Session, _ reply: (Session) -> Void) {
    session.isWaiting = false
    guard sessions[session.client.connection] != nil, !session.isClosing else { return }
    let mark = session.output.bytes.count
    reply(session)
    if session.replies.areDropped { session.output.bytes.removeSubrange(mark...) }
    touch(session)
    account(session)
  }

  /// Whether a command is to be done after those that the fleet decides: it is none of them.
  private func waitsForPending(_ arguments: Arguments) -> Bool {
    guard let fleet,
      case .found(let index) = table.find(
        arguments[0], arguments.count > 1 ? arguments[1] : nil)
    else { return true }
    return !fleet.shares(table.rows[index])
  }

  /// Gives the replies that have come and whose turn it is; then what waited for them is done.
  func givePending(_ session: Session) {
    guard sessions[session.client.connection] === session, !session.isClosing else { return }
    while let bytes = session.pending.first?.bytes {
      if !session.pending.removeFirst().isDropped {
        session.output.bytes.append(contentsOf: bytes)
      }
      touch(session)
    }
    account(session)
    guard session.pending.isEmpty, let deferred = session.deferred else { return }
    session.deferred = nil
    session.isWaiting = false
    deferred.withArguments { _ = execute($0, for: session, at: host.now) }
  }

  /// The stream of `session` is no longer understood: says why, and takes nothing more.
  package func refuse(_ session: Session, _ error: RESPProtocolError) {
    session.output.error("ERR Protocol error: \(error.description)")
    session.isClosing = true
    statistics.protocolErrors += 1
    touch(session)
  }

  private func find(_ arguments: Arguments) throws(CommandError) -> Int {
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

  private func check(
    _ spec: CommandSpec, _ arguments: Arguments, _ session: Session
  ) throws(CommandError) {
    let (least, most) = spec.arguments
    guard arguments.count >= least, most.map({ arguments.count <= $0 }) ?? true else {
      throw CommandError(
        "ERR wrong number of arguments for '\(spec.fullName.lowercased())'; usage: \(spec.usage)")
    }
    if spec.flags.contains(.admin) {
      try settings.access.checkAdmin(session.peer, for: spec.fullName)
    }
    if !spec.flags.contains(.makesRoom) { try checkRoom(session) }
    if isLoading, spec.needsState {
      throw CommandError("LOADING state is being read; INFO persistence shows the progress")
    }
    if let fleet, fleet.isLoading, fleet.lists(spec) {
      throw CommandError("LOADING what hosts share is being read; INFO fleet shows the progress")
    }
    guard session.output.version == .resp2, !spec.flags.contains(.whileSubscribed),
      engine.subscriptionCount(of: session.client.connection) > 0
    else { return }
    throw CommandError(
      "ERR Can't execute '\(spec.fullName.lowercased())': only (P)SUBSCRIBE, (P)UNSUBSCRIBE, PING, "
        + "QUIT and RESET are allowed while subscribed, unless the connection says HELLO 3")
  }

  // MARK: Time

  /// Does what is due; false if the budget ran out first.
  package func advance(to now: Moment, budget: Int) -> Bool {
    let finished = engine.advance(to: now, budget: budget)
    fleet?.advance(to: now.boot.microseconds)
    deliver()
    return finished
  }

  // MARK: Output

  /// Has a session looked at when the batch ends, though it received nothing.
  package func touch(_ session: Session) {
    guard session.touchedInBatch != batch else { return }
    if session.touchedInBatch == batch - 1 { touchedAgain += 1 }
    session.touchedInBatch = batch
    touched.append(session)
  }

  /// Everybody has had a share: from now on there is another.
  package func beginRound() { round += 1 }

  /// Whether fewer sessions have something to be written than had in the two batches before.
  package var hasFewerThanLately: Bool { touched.count < touchedLately }

  /// Takes the sessions that have something to be written since the last call. The next ones go
  /// into the memory of `empty`.
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
