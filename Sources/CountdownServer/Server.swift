import CountdownStore
import Countdowns
import Dispatch
import DispatchTimers
import Glibc
import Logging

/// The daemon between its sockets and its engine: one event loop on which everything happens.
///
/// A batch: commands that have come are executed, due timers run, changes are stored, and then
/// output is written, once for each connection. Two alarms, one for each clock, wake the loop when
/// something is due; while nothing is, nothing runs.
///
/// `@unchecked Sendable`: everything but `shutDown`, `reload` and `hop` belongs to the thread that
/// calls `start` and `waitUntilStopped`. The loop runs in these two.
///
/// It lives until the process ends: alarms and the store hold it, as they may call at any time.
package final class Server: CommandHost, @unchecked Sendable {
  /// How long due work may take before sockets are looked at again.
  static let sliceMicroseconds: Int64 = 500
  /// How many steps of it are done before the clock is looked at.
  static let stepsPerLook = 64
  /// How many entities a snapshot looks at before the clock is looked at.
  static let snapshotsPerLook = 16

  private(set) var settings: ServerSettings
  let hooks: ServerHooks
  let logger: Logger
  let startedAt: Moment
  package let virtualClock: VirtualClock?

  let loop: EventLoop
  let listening: ListeningSocket?
  var listener: Listener?
  /// Where it listens.
  private(set) var path = ""

  private(set) var dispatcher: Dispatcher! = nil
  /// Where a fleet keeps its records; nil: there is none.
  private(set) var fleetServers: FleetServers?
  /// What is kept, until it has been read.
  var unread: Store?
  var loading: StateLoading?
  /// What came of loading; nil until it has ended.
  var loaded: Result<Void, any Error>?
  var toldOfLoading: Instant?
  /// The clocks when this daemon started: of the same boot as those of any moment since.
  let startReading: StoreClock.Reading
  var writer: StoreWriter?
  /// Where the log is brought to the tables. The loop comes first.
  let upkeep = UpkeepThread()
  /// Why nothing can be stored at present.
  var storeProblem: StoreError?
  /// Why the log cannot be brought to the tables at present.
  var upkeepProblem: StoreError?
  /// To be done when nothing waits to be stored.
  var afterStoring: [() -> Void] = []
  /// By descriptor.
  var connections: [Connection?] = []
  var connectionCount = 0
  var rejectedConnections = 0
  var lastConnection: UInt64 = 0
  var isStopping = false
  /// Where virtual time continues once the daemon has started again; nil unless it is to.
  package var nextStart: StoreClock.Reading?
  var hasStopped = false
  var backup: Backup?
  var lastBackup: Int64 = 0

  private let alarmQueue = DispatchQueue(label: "countdownd.alarm")
  let bootAlarm: DispatchAlarm
  let wallAlarm: DispatchAlarm
  /// Where something is kept: how the clocks stand is stored when somebody has set one.
  private var wallClockSteps: WallClockSteps?
  var watchdogDue: Instant?
  var isBatchOpen = false
  /// Due work is left; it continues once sockets have been looked at.
  var isBehind = false
  /// Those that get the output of the batch that ends.
  var touched: [Session] = []
  /// The connection whose snapshots continued last.
  var lastSnapshot: UInt64 = 0

  /// How long clients wait at the socket before they receive LOADING.
  private static let patienceMilliseconds: UInt64 = 100

  /// Loads the state and listens. All commands are served from the moment that `waitUntilStopped`
  /// is called; while it loads they are answered, most of them with `LOADING`. Throws
  /// `StoppedWhileLoading` if it is asked to end before that.
  ///
  /// - Parameter isMade: is handed the server before it loads what was kept, which may take long.
  package static func start(
    _ settings: ServerSettings, hooks: ServerHooks = ServerHooks(), logger: Logger,
    isMade: (Server) -> Void = { _ in }
  ) throws -> Server {
    let server = try Server(settings, hooks: hooks, logger: logger)
    isMade(server)
    do {
      server.openAlarms()
      server.load()
      // A small state loads at once: then there is nothing to report.
      var isLate = false
      server.loop.schedule(inMilliseconds: patienceMilliseconds) { isLate = true }
      server.run { server.loaded != nil || isLate }
      if case .failure(let error)? = server.loaded { throw error }
      try server.listen()
      server.run { server.loaded != nil }
      try server.loaded!.get()
      server.fleetServers?.start()
    } catch {
      server.listener?.close()
      server.listening?.remove()
      server.upkeep.stop()
      throw error
    }
    return server
  }

  private init(_ settings: ServerSettings, hooks: ServerHooks, logger: Logger) throws {
    self.settings = settings
    self.hooks = hooks
    self.logger = logger
    var reading =
      settings.virtualStart ?? StoreClock.Reading(bootID: BootID.current, Moment.present)
    // A file of another version is made over first, and one that was damaged looked through.
    if settings.state != nil { hooks.isLoading(0) }
    unread = try settings.state.map { state throws(StoreError) in
      var state = state
      state.isTimeVirtual = settings.isTimeVirtual
      state.continuesClocks = settings.isTimeVirtual && settings.virtualStart == nil
      return try Self.openStore(state, logger, at: reading)
    }
    if settings.isTimeVirtual, let unread { reading = unread.clock.reading }
    startReading = reading
    startedAt = Moment(reading)
    switch settings.listener {
    case .path(let path, let mode): listening = try ListeningSocket(path: path, mode: mode)
    case .descriptor: listening = nil
    }
    loop = try EventLoop()
    bootAlarm = DispatchAlarm(clock: .boot, queue: alarmQueue)
    wallAlarm = DispatchAlarm(clock: .wall, queue: alarmQueue)
    virtualClock = settings.isTimeVirtual ? VirtualClock(startedAt) : nil

    var engine = settings.engine
    if let unread { engine.firstGeneration = unread.firstNumber }
    dispatcher = Dispatcher(
      engine: Engine(settings: engine, at: startedAt), settings: settings.dispatcher,
      host: self)
    dispatcher.isLoading = unread != nil
    if let fleet = settings.fleet { try openFleet(fleet) }
  }

  private func openFleet(_ settings: FleetSettings) throws(FleetError) {
    let servers = try FleetServers(settings, loop, logger) { [unowned self] in openBatch() }
    let fleet = Fleet(
      settings, daemon: .random(in: 1 ... .max), dispatcher: dispatcher, link: servers)
    servers.client = fleet
    dispatcher.fleet = fleet
    fleetServers = servers
  }

  private func openAlarms() {
    // Clients may have been waiting at the socket for long: their first batch arms the alarms.
    bootAlarm.setHandler { [self] in hop { $0.openBatch() } }
    wallAlarm.setHandler { [self] in hop { $0.openBatch() } }
    if settings.state != nil {
      // Where there is none, the next batch notices, within a minute.
      wallClockSteps = WallClockSteps(queue: alarmQueue) { [self] in
        hop { $0.openBatch() }
      }
    }
    if let interval = settings.watchdogInterval {
      watchdogDue = Moment.present.boot + Interval(microseconds: interval / 2)
    }
    armAlarms()
  }

  private func listen() throws(ListenError) {
    let descriptor: Int32
    switch settings.listener {
    case .path: descriptor = listening!.descriptor
    case .descriptor(let activated): descriptor = activated
    }
    path = ListeningSocket.path(of: descriptor)
    listener = try Listener(loop, descriptor) { [self] socket in
      admit(socket)
    } failed: { [self] code in
      logger.log(
        .refusedAtLimit, .warning, "no connection can be accepted at present; raise LimitNOFILE=",
        ["error": "\(String(cString: strerror(code)))"])
    }
  }

  /// Runs the loop until `isDone`, which is asked after each iteration.
  func run(until isDone: () -> Bool) {
    while !isDone() {
      loop.runOnce(waits: !isBatchOpen)
      if isBatchOpen {
        gather()
        endBatch()
      }
    }
  }

  /// Adds more to a batch that takes long to store, until it is for as many clients as the last two
  /// together. They have their replies, so most of them send again at once.
  private func gather() {
    guard let limit = writer?.gathersForMicroseconds, limit > 0, dispatcher.engine.hasChanges else {
      return
    }
    let end = BootClock.now + UInt64(limit)
    while dispatcher.hasFewerThanLately {
      let now = BootClock.now
      guard now < end else { return }
      loop.runOnce(waitsAtMostMicroseconds: end - now)
    }
  }

  /// Runs `body` on the loop soon. From any thread.
  func hop(_ body: @escaping @Sendable (Server) -> Void) {
    loop.execute { body(self) }
  }

  package var now: Moment { virtualClock?.now ?? Moment.present }

  package var stopwatch: () -> Int64 { { Int64(BootClock.now) } }

  /// Takes new settings: for what is started from now on, and for connections that come from now
  /// on. Where it listens, and how it keeps time, stays. From any thread; `done` is called on the
  /// loop once they are in force.
  package func reload(_ new: ServerSettings, _ done: @escaping @Sendable () -> Void) {
    hop { server in
      var new = new
      new.listener = server.settings.listener
      new.isTimeVirtual = server.settings.isTimeVirtual
      new.virtualStart = server.settings.virtualStart
      new.fleet = server.settings.fleet
      new.watchdogInterval = server.settings.watchdogInterval
      server.settings = new
      server.dispatcher.reload(new.dispatcher)
      server.dispatcher.engine.reload(new.engine)
      done()
    }
  }

  package func setLogLevel(_ level: String) -> Bool {
    guard hooks.setLogLevel(level) else { return false }
    for index in settings.shown.indices where settings.shown[index].name == "log-level" {
      settings.shown[index].value = level
    }
    return true
  }
}

extension Moment {
  /// What the clocks of this machine say.
  static var present: Moment {
    Moment(
      boot: Instant(microseconds: Int64(BootClock.now)),
      wall: Instant(microseconds: Int64(WallClock.now)))
  }
}

extension Instant {
  /// As alarms take it.
  var tick: UInt64 { UInt64(max(microseconds, 0)) }
}
