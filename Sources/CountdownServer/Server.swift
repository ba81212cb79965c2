import CountdownFleet
import CountdownStore
import Countdowns
import Dispatch
import DispatchTimers
import Glibc
import Logging
import Runtime

/// The daemon: connects its sockets to its engine on one event loop.
///
/// A batch executes the commands that have arrived, runs due timers, stores the changes, and then
/// writes output once for each connection. Two alarms, one for each clock, wake the loop when
/// something is due; otherwise nothing runs.
///
/// `@unchecked Sendable`: everything but `shutDown`, `reload` and `runOnLoop` belongs to the thread
/// that calls `start` and `waitUntilStopped`. The loop runs in these two.
///
/// Lives until the process ends: alarms and the store retain it, as they may call at any time.
package final class Server: CommandHost, @unchecked Sendable {
  /// How long due work may run before the loop serves sockets again.
  static let sliceMicroseconds: Int64 = 500
  /// The most steps of due work between two looks at the clock.
  static let stepsPerLook = 64
  /// The most entities that a snapshot examines between two looks at the clock.
  static let snapshotsPerLook = 16

  private(set) var settings: ServerSettings
  let hooks: ServerHooks
  let logger: Logger
  let startedAt: Moment
  /// When the configuration in force was loaded, and why a newer one is refused; nil if none is.
  private(set) var configured: (at: Instant, problem: String?)
  package let virtualClock: VirtualClock?
  private let machineClocks = MachineClocks()

  let loop: EventLoop
  /// How many descriptors this process may have open.
  let descriptorLimit = Int(clamping: ProcessDescriptors.maximum)
  let listening: ListeningSocket?
  var listener: Listener?

  private(set) var dispatcher: Dispatcher! = nil
  /// The servers of the fleet; nil without a fleet.
  private(set) var fleetServers: FleetServers?
  private(set) var fleetMemory: FleetMemoryFile?
  let state: StateKeeper
  var journal = JournalKeeping()
  var backup: Backup?
  var lastBackup: Int64 = 0
  let connections = ConnectionTable()
  let alarms = Alarms()
  var batch = Batch()
  package internal(set) var ending = Ending()

  /// How long clients wait at the socket before they receive LOADING.
  private static let patienceMilliseconds: UInt64 = 100

  /// Loads the state and listens. While the state loads, most commands are answered with `LOADING`;
  /// `waitUntilStopped` serves all commands. Throws `StoppedWhileLoading` if asked to end before
  /// loading is done.
  package func start() throws {
    do {
      if let fleet = settings.fleet { try openFleet(fleet) }
      // Opened before the first batch, which arms them: clients may be waiting at the socket.
      alarms.open(noticesSteps: settings.state != nil) { [self] in runOnLoop { $0.openBatch() } }
      _ = alarms.isHeartbeatDue(every: settings.watchdogInterval)
      armAlarms()
      load()
      // If the state loads quickly, no client receives LOADING.
      var isLate = false
      loop.schedule(inMilliseconds: Self.patienceMilliseconds) { isLate = true }
      run { state.loading.outcome != nil || isLate }
      if case .failure(let error)? = state.loading.outcome { throw error }
      try listen()
      run { state.loading.outcome != nil }
      try state.loading.outcome!.get()
      fleetServers?.start()
      warnOfMissingDescriptors()
    } catch {
      listener?.close()
      listening?.remove()
      throw error
    }
  }

  /// Opens the state, which reads its log, and claims the path of the socket.
  package init(
    _ settings: ServerSettings, hooks: ServerHooks, logger: Logger
  ) throws {
    self.settings = settings
    self.hooks = hooks
    self.logger = logger
    // Opening may take long: it migrates a file of another version, and reads the change log.
    if settings.state != nil { hooks.isLoading(0) }
    state = try StateKeeper(
      settings, logger,
      at: settings.virtualStart ?? StoreClock.Reading(bootID: BootID.current, machineClocks.now))
    startedAt = Moment(state.start)
    configured = (startedAt.wall, nil)
    switch settings.listener {
    case .path(let path, let mode): listening = try ListeningSocket(path: path, mode: mode)
    case .descriptor: listening = nil
    }
    do { loop = try EventLoop() } catch {
      throw ListenError.notPossible("make an event loop", error.errno)
    }
    virtualClock =
      settings.isTimeVirtual
      ? VirtualClock(startedAt, ahead: Interval(microseconds: state.opened?.clock.offset ?? 0))
      : nil

    var engine = settings.engine
    if let store = state.opened { engine.firstGeneration = store.firstNumber }
    dispatcher = Dispatcher(
      engine: Engine(settings: engine, at: startedAt), settings: settings.dispatcher,
      host: self)
    machineClocks.wasSuspended = { [unowned self] from, until in
      dispatcher.engine.noteSuspension(from: from, until: until)
    }
    dispatcher.isLoading = state.opened != nil
    dispatcher.damage = state.damage?.findings ?? []
  }

  private func openFleet(_ settings: FleetSettings) throws(FleetError) {
    let servers = try FleetServers(settings, loop, logger) { [unowned self] in openBatch() }
    fleetMemory = self.settings.state.map { FleetMemoryFile($0.directory, loop, logger) }
    let fleet = Fleet(
      settings, daemon: .random(in: 1 ... .max), eventLog: state.opened?.lineage,
      memory: fleetMemory?.read(),
      dispatcher: dispatcher, link: servers)
    servers.client = fleet
    dispatcher.fleet = fleet
    fleetServers = servers
  }

  private func listen() throws(ListenError) {
    let descriptor: Int32
    switch settings.listener {
    case .path: descriptor = listening!.descriptor
    case .descriptor(let activated): descriptor = activated
    }
    listener = try Listener(loop, descriptor) { [self] socket in
      admit(socket)
    } refused: { [self] socket in
      refuse(socket)
    } failed: { [self] code in
      logger.log(
        .refusedAtLimit, .warning, "no connection can be accepted at present",
        ["error": unsafe "\(String(cString: strerror(code)))"])
    }
  }

  /// Runs the loop until `isDone`, which is checked before each iteration.
  func run(until isDone: () -> Bool) {
    while !isDone() {
      loop.runOnce(waits: !batch.isOpen)
      if batch.isOpen {
        waitForMoreClients()
        endBatch()
      }
    }
  }

  /// Adds commands to a batch that takes long to store, until it serves as many clients as the last
  /// two together. Those clients have their replies, so most of them send again at once.
  private func waitForMoreClients() {
    guard let limit = state.writer?.gathersForMicroseconds, limit > 0,
      dispatcher.engine.hasChanges
    else {
      return
    }
    let end = BootClock.now + UInt64(limit)
    while dispatcher.hasFewerThanLately {
      let now = BootClock.now
      guard now < end else { return }
      loop.runOnce(waitsAtMostMicroseconds: end - now)
    }
  }

  /// Runs `body` on the loop soon. Callable from any thread.
  func runOnLoop(_ body: @escaping @Sendable (Server) -> Void) {
    loop.execute { body(self) }
  }

  package var now: Moment { virtualClock?.now ?? machineClocks.now }

  package var stopwatch: () -> Int64 { { Int64(BootClock.now) } }

  /// Takes new settings, which apply to new entities and new connections. Those that take effect at
  /// a start only are as before. Callable from any thread; `done` is called on the loop once the
  /// settings are in force.
  package func reload(
    _ new: ServerSettings, _ done: @escaping @Sendable (ServerStatus) -> Void
  ) {
    // Read here, as files may be slow.
    nonisolated(unsafe) let files = new.fleet.map { fleet in
      Result { () throws(FleetError) in try FleetSecrets.Files(fleet) }
    }
    runOnLoop { server in
      if let files = unsafe files { server.fleetServers?.take(files) }
      let old = server.settings
      server.settings = new
      server.dispatcher.reload(new.dispatcher)
      server.dispatcher.engine.reload(new.engine, at: server.now)
      server.reloadJournal(from: old)
      if new.connections != old.connections { server.warnOfMissingDescriptors() }
      server.configured = (server.now.wall, nil)
      done(server.status)
    }
  }

  /// Notes why a new configuration is refused. Callable from any thread; `done` receives the status
  /// on the loop.
  package func noteRefusedReload(
    _ problem: String, _ done: @escaping @Sendable (ServerStatus) -> Void
  ) {
    runOnLoop { server in
      server.configured.problem = problem
      done(server.status)
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

extension Instant {
  /// The instant in microseconds, as alarms take it.
  var tick: UInt64 { UInt64(max(microseconds, 0)) }
}
