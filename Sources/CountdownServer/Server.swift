import CountdownCommands
import CountdownCore
import CountdownEngine
import CountdownStore
import Dispatch
import DispatchTimers
import Glibc
import Logging
import NIOCore
import NIOPosix
import Synchronization

/// The daemon between its sockets and its engine: one event loop on which everything happens.
///
/// A turn: whatever has come is executed, time is let pass, and then everything that was said to
/// anybody is written, once for each connection. Two alarms, one for each clock, bring the loop
/// back when something is due; while nothing is, nothing runs.
///
/// `@unchecked Sendable`: after `init`, everything but `shutDown`, `reload`, `hop` and `waitUntilStopped` is
/// only ever touched on `loop`.
package final class Server: CommandHost, @unchecked Sendable {
  /// How many steps of due work are done before sockets are looked at again: about a millisecond.
  static let stepsPerSlice = 2_000
  /// How many entities a snapshot looks at in one turn.
  static let snapshotsPerTurn = 500

  private(set) var settings: ServerSettings
  let hooks: ServerHooks
  let logger: Logger
  let startedAt: Moment
  package let virtualClock: VirtualClock?

  private let group: MultiThreadedEventLoopGroup
  let loop: any EventLoop
  private let listening: ListeningSocket?
  private var listener: (any Channel)?
  private let stopped: EventLoopPromise<Void>
  private let hasEnded = Mutex(false)

  private(set) var dispatcher: Dispatcher! = nil
  /// What is kept, until it has been read.
  private var unread: Store?
  private var loading: StateLoading?
  private var toldOfLoading: Instant?
  private(set) var keeper: StateKeeper?
  /// What was changed in the turn that is under way may rest on what could not be stored.
  private var mustTakeBack = false
  /// To be done when nothing waits to be stored.
  private var afterStoring: [() -> Void] = []
  var connections: [UInt64: ConnectionHandler] = [:]
  var rejectedConnections = 0
  var lastConnection: UInt64 = 0
  private(set) var isStopping = false
  var backup: Backup?
  var lastBackup: Int64 = 0

  private let alarmQueue = DispatchQueue(label: "countdownd.alarm")
  private let bootAlarm: DispatchAlarm
  private let wallAlarm: DispatchAlarm
  private var watchdogDue: Instant?
  private var isTurnEnding = false
  private var afterSockets: AfterSockets! = nil
  private var putOff: [(Server) -> Void] = []

  /// Listens from the moment it returns.
  package static func start(
    _ settings: ServerSettings, hooks: ServerHooks = ServerHooks(), logger: Logger
  ) async throws -> Server {
    let server = try Server(settings, hooks: hooks, logger: logger)
    do {
      try await server.openLoop()
      let loaded = server.load()
      // Little is loaded in no time: then nobody need hear of it.
      try await server.soon(loaded).get()
      try await server.listen()
      try await loaded.get()
    } catch {
      server.hasEnded.withLock { $0 = true }
      server.listening?.remove()
      try await server.group.shutdownGracefully()
      throw error
    }
    return server
  }

  private init(_ settings: ServerSettings, hooks: ServerHooks, logger: Logger) throws {
    self.settings = settings
    self.hooks = hooks
    self.logger = logger
    let now = Moment.present
    startedAt = now
    unread = try settings.state.map { try Self.open($0, logger, at: now) }
    switch settings.listener {
    case .path(let path, let mode): listening = try ListeningSocket(path: path, mode: mode)
    case .descriptor: listening = nil
    }
    group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    loop = group.next()
    stopped = loop.makePromise()
    bootAlarm = DispatchAlarm(clock: .boot, queue: alarmQueue)
    wallAlarm = DispatchAlarm(clock: .wall, queue: alarmQueue)
    virtualClock = settings.isTimeVirtual ? VirtualClock(startedAt) : nil

    var engine = settings.engine
    if let unread { engine.firstGeneration = unread.firstNumber }
    dispatcher = Dispatcher(
      engine: Engine(settings: engine, at: startedAt), settings: settings.dispatcher,
      host: self)
    dispatcher.isLoading = unread != nil
  }

  private func openLoop() async throws {
    // Clients may have been waiting at the socket for long: their first turn arms the alarms.
    bootAlarm.setHandler { [weak self] in self?.hop { $0.timeHasCome() } }
    wallAlarm.setHandler { [weak self] in self?.hop { $0.timeHasCome() } }
    try await loop.flatSubmit { [self] in
      do {
        let (way, channel) = try AfterSockets.open(on: loop) { [weak self] in self?.goOn() }
        afterSockets = way
        return channel.map { _ in }
      } catch {
        return loop.makeFailedFuture(error)
      }
    }.get()
    try await loop.submit { [self] in
      if let interval = settings.watchdogInterval {
        watchdogDue = Moment.present.boot + Interval(microseconds: interval / 2)
      }
      armAlarms()
    }.get()
  }

  private func listen() async throws {
    let descriptor: Int32
    switch settings.listener {
    case .path: descriptor = listening!.descriptor
    case .descriptor(let activated): descriptor = activated
    }
    let bootstrap = ServerBootstrap(group: group)
      .serverChannelOption(.maxMessagesPerRead, value: 64)
      // Clients that come while all descriptors are taken wait; the kernel has a limit of its own.
      .serverChannelOption(.backlog, value: 4_096)
      // Else the loop would spin while there are no descriptors left.
      .serverChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(AcceptBackoffHandler())
        }
      }
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      .childChannelOption(
        .writeBufferWaterMark, value: .init(low: 64 << 10, high: 256 << 10)
      )
      .childChannelInitializer { [self] channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(ConnectionHandler(server: self))
        }
      }
    listener = try await bootstrap.withBoundSocket(descriptor).get()
  }

  // MARK: Loading

  private static func open(
    _ state: Store.Options, _ logger: Logger, at now: Moment
  ) throws(StoreError) -> Store {
    let reading = StoreClock.Reading(bootID: BootID.current, now)
    do throws(StoreError) {
      return try Store(state, at: reading)
    } catch {
      guard error.kind == .corrupt else { throw error }
      try setAside(state, error, logger, at: now)
      return try Store(state, at: reading)
    }
  }

  private static func setAside(
    _ state: Store.Options, _ error: StoreError, _ logger: Logger, at now: Moment
  ) throws(StoreError) {
    let place = try Store.setAside(
      directory: state.directory, atUnixMicroseconds: now.wall.microseconds)
    logger.log(
      .stateSetAside, .critical,
      """
      the state is corrupt and was set aside, not deleted; going on without what cannot be read of it. \
      Restore a backup, or try `sqlite3 FILE .recover`
      """, ["file": "\(place)", "error": "\(error)"])
  }

  /// How long clients wait at the socket before they are told that it is loading.
  private static let patience = TimeAmount.milliseconds(100)

  /// Succeeds when `loaded` does, or after a short while.
  private func soon(_ loaded: EventLoopFuture<Void>) -> EventLoopFuture<Void> {
    let either = loop.makePromise(of: Void.self)
    let late = loop.scheduleTask(in: Self.patience) { either.succeed() }
    loaded.whenComplete { result in
      late.cancel()
      either.completeWith(result)
    }
    return either.futureResult
  }

  /// Reads what was kept; meanwhile whoever asks for it is told that it is loading.
  private func load() -> EventLoopFuture<Void> {
    let done = loop.makePromise(of: Void.self)
    loop.execute { [self] in
      guard let store = unread else { return done.succeed() }
      unread = nil
      dispatcher.engine.noteChanges()
      nonisolated(unsafe) let given = store
      let loading = StateLoading(given) { [weak self] portion in
        self?.hop { $0.take(portion) }
      }
      self.loading = loading
      loading.run { [weak self] error in self?.hop { $0.finishLoading(error, done) } }
    }
    return done.futureResult
  }

  private func take(_ portion: StateLoading.Portion) {
    guard let loading else { return }
    defer { loading.taken() }
    let offset = loading.loaded.clock.offset
    switch portion {
    case .countdowns(let records):
      for record in records {
        guard let countdown = record.durable(offset: offset) else {
          loading.unreadable += 1
          continue
        }
        dispatcher.engine.restore(countdown, at: record.index, now: now)
      }
    case .timers(let records):
      for record in records {
        guard let timer = record.durable(offset: offset) else {
          loading.unreadable += 1
          continue
        }
        dispatcher.engine.restore(timer, at: record.index, now: now)
      }
    case .guards(let records):
      for record in records {
        guard let kept = record.durable(offset: offset) else {
          loading.unreadable += 1
          continue
        }
        dispatcher.engine.restore(kept, at: record.place, now: now)
      }
    case .events(let turns):
      for events in turns {
        dispatcher.engine.eventTail.restore(
          events.payload, after: events.afterSequence, through: events.lastSequence)
      }
    }
    // Whoever is told may be slow to take it.
    let now = now.boot
    if toldOfLoading.map({ now - $0 >= .milliseconds(1_000) }) ?? true {
      toldOfLoading = now
      hooks.isLoading(dispatcher.engine.entityCount)
    }
  }

  private func finishLoading(_ error: StoreError?, _ done: EventLoopPromise<Void>) {
    guard let loading, var state = settings.state else { return done.succeed() }
    self.loading = nil
    do throws(StoreError) {
      nonisolated(unsafe) let given: Store
      if let error = error ?? loading.problem {
        guard error.kind == .corrupt else { throw error }
        // The lock on the directory goes with the old store; the numbers go on.
        state.firstNumber = max(
          loading.loaded.firstNumber, dispatcher.engine.lastSequence + 1)
        loading.close()
        try Self.setAside(state, error, logger, at: now)
        given = try Store(state, at: StoreClock.Reading(bootID: BootID.current, now))
        dispatcher.engine.noteEverything()
      } else {
        given = loading.loaded
      }
      try given.beginEvents(after: dispatcher.engine.lastSequence)
      keeper = try StateKeeper(given, bootID: BootID.current) { [weak self] body in
        self?.hop { _ in body() }
      }
    } catch {
      return done.fail(error)
    }
    dispatcher.isLoading = false
    logger.info(
      "state loaded",
      metadata: [
        "countdowns": "\(dispatcher.engine.countdownCount)",
        "timers": "\(dispatcher.engine.timerCount)",
      ])
    endTurn()
    done.succeed()
  }

  // MARK: Turns

  /// Has the turn ended once all that has come with it is done: everything is written at once.
  func endTurn() {
    guard !isTurnEnding else { return }
    isTurnEnding = true
    loop.execute { [self] in
      isTurnEnding = false
      passTime()
      continueSnapshots()
      storeTurn()
      armAlarms()
    }
  }

  /// What was told to a connection in a turn.
  private typealias Told = (session: Session, said: Said)

  /// Stores what the turn has changed. What was said in it is written once that is done, after what
  /// was said in the turns before.
  private func storeTurn() {
    let turn = dispatcher.takeTouched().map { session -> Told in
      let said = session.takeSaid()
      session.heldTurns += 1
      session.heldBytes += said.bytes.count
      return (session, said)
    }
    // It concerns this turn alone, also if there is nothing to be taken back.
    let mustTakeBack = mustTakeBack
    self.mustTakeBack = false
    guard let keeper, mustTakeBack || !dispatcher.engine.isReadOnly,
      dispatcher.engine.hasChanges || keeper.isBusy
    else { return write(turn) }
    let batch = keeper.takeBatch(from: &dispatcher.engine)
    if mustTakeBack {
      takeBack(turn, batch, keeper)
    } else {
      dispatcher.turnsUnderWay += 1
      keeper.store(batch, at: now) { [self] batch, error in
        dispatcher.turnsUnderWay -= 1
        if let error {
          notStored(turn, batch, error, keeper)
        } else {
          keeper.confirm(batch, &dispatcher.engine)
          write(turn)
        }
        goOnAfterStoring()
      }
    }
  }

  private func write(_ turn: [Told], withdrawing error: String? = nil) {
    for (session, said) in turn {
      session.heldTurns -= 1
      session.heldBytes -= said.bytes.count
      let bytes = error.map { said.withdrawn($0) } ?? said.bytes
      if session.outbound.isEmpty { session.outbound = bytes } else { session.outbound += bytes }
      connections[session.client.connection]?.flush()
    }
  }

  private func goOnAfterStoring() {
    guard keeper?.isBusy != true, !afterStoring.isEmpty else { return }
    let bodies = afterStoring
    afterStoring = []
    for body in bodies { body() }
  }

  // MARK: Trouble with the store

  private static let refusal =
    "READONLY state could not be stored, so this was not done; INFO persistence says why"
  private static let retryInterval = TimeAmount.seconds(1)

  /// A turn could not be stored: whatever commands have changed in it is as it was, and they are told so.
  private func notStored(
    _ turn: [Told], _ batch: StateKeeper.Batch, _ error: StoreError, _ keeper: StateKeeper
  ) {
    // What comes behind a turn that was taken back may rest on it.
    takeBack(turn, batch, keeper, isBehind: dispatcher.engine.isReadOnly)
    // What was taken back may be due by now, or sooner than what was to take its place; and trying
    // again waits for the end of the turn that is under way.
    endTurn()
    guard !dispatcher.engine.isReadOnly else { return }
    dispatcher.engine.isReadOnly = true
    mustTakeBack = true
    logger.log(
      .readOnly, .error,
      "nothing can be stored, so commands that change what is kept are refused until it can: \(error)"
    )
    hooks.isAlive(statusText)
    retryLater()
  }

  private func takeBack(
    _ turn: [Told], _ batch: StateKeeper.Batch, _ keeper: StateKeeper, isBehind: Bool = false
  ) {
    guard isBehind || turn.contains(where: { $0.said.hasChangedAnything }) else {
      // Time has changed things; it would do so again.
      keeper.keepForLater(batch, &dispatcher.engine)
      return write(turn)
    }
    do throws(StoreError) {
      try keeper.takeBack(batch, &dispatcher.engine, at: now)
    } catch {
      // What is in memory was refused, yet counts until the daemon ends.
      logger.critical("what could not be stored could not be taken back either: \(error)")
      keeper.keepForLater(batch, &dispatcher.engine)
    }
    write(turn, withdrawing: Self.refusal)
  }

  private func retryLater() {
    loop.scheduleTask(in: Self.retryInterval) { [weak self] in self?.retry() }
  }

  private func retry() {
    guard dispatcher.engine.isReadOnly, let keeper, !isStopping else { return }
    guard !mustTakeBack else { return retryLater() }
    let batch = keeper.takeBatch(from: &dispatcher.engine)
    keeper.store(batch, at: now, isProbe: true) { [self] batch, error in
      if error == nil {
        keeper.confirm(batch, &dispatcher.engine)
        dispatcher.engine.isReadOnly = false
        logger.log(.writable, .notice, "state can be stored again")
        hooks.isAlive(statusText)
        // What time has changed meanwhile is stored with it.
        endTurn()
      } else {
        keeper.keepForLater(batch, &dispatcher.engine)
        retryLater()
      }
      goOnAfterStoring()
    }
  }

  /// Goes on after sockets have been looked at.
  func yieldToSockets(_ body: @escaping (Server) -> Void) {
    putOff.append(body)
    afterSockets.comeBack()
  }

  private func goOn() {
    let bodies = putOff
    putOff = []
    for body in bodies { body(self) }
  }

  /// To the loop from any thread; nowhere once it has ended, as an alarm or a signal may come late.
  func hop(_ body: @escaping @Sendable (Server) -> Void) {
    hasEnded.withLock { hasEnded in
      if !hasEnded { loop.execute { body(self) } }
    }
  }

  // MARK: Time

  package var now: Moment { virtualClock?.now ?? Moment.present }

  package var stopwatch: Int64 { Int64(BootClock.now) }

  private func timeHasCome() {
    endTurn()
  }

  private func passTime() {
    let now = now
    // What fell due while nobody was there happens once everything is.
    if !dispatcher.isLoading, !dispatcher.advance(to: now, budget: Self.stepsPerSlice) {
      yieldToSockets { $0.endTurn() }
    }
    if let due = watchdogDue, let interval = settings.watchdogInterval,
      Moment.present.boot >= due
    {
      watchdogDue = Moment.present.boot + Interval(microseconds: interval / 2)
      hooks.isAlive(statusText)
    }
  }

  private func armAlarms() {
    // What is due while it loads happens after that.
    if virtualClock == nil, !dispatcher.isLoading {
      let (boot, wall) = dispatcher.engine.nextDeadline
      if let wall { wallAlarm.arm(at: wall.tick) }
      // Rather once too often than set anew each time the first of all is cancelled.
      if let boot { bootAlarm.arm(noLaterThan: boot.tick) }
    }
    if let watchdogDue { bootAlarm.arm(noLaterThan: watchdogDue.tick) }
  }

  private func continueSnapshots() {
    let waiting = dispatcher.engine.connectionsAwaitingSnapshots
    guard !waiting.isEmpty else { return }
    var goesOn = false
    for id in Set(waiting) {
      guard let session = dispatcher.sessions[id], !session.isBackedUp, !session.isClosing
      else { continue }
      dispatcher.continueSnapshots(for: session, budget: Self.snapshotsPerTurn, at: now)
      goesOn = true
    }
    if goesOn, !dispatcher.engine.connectionsAwaitingSnapshots.isEmpty {
      yieldToSockets { $0.endTurn() }
    }
  }

  var statusText: String {
    if let trouble = keeper?.trouble { return "read-only: \(trouble)" }
    return "\(connections.count) connections, \(dispatcher.engine.countdownCount) countdowns, "
      + "\(dispatcher.engine.hudCount) HUDs, \(dispatcher.engine.timerCount) timers"
  }

  // MARK: Settings

  /// Takes new settings: for what is started from now on, and for connections that come from now
  /// on. Where it listens, and how it keeps time, stays. From any thread; `done` is called on the
  /// loop once they are in force.
  package func reload(_ new: ServerSettings, _ done: @escaping @Sendable () -> Void) {
    hop { server in
      var new = new
      new.listener = server.settings.listener
      new.isTimeVirtual = server.settings.isTimeVirtual
      new.watchdogInterval = server.settings.watchdogInterval
      server.settings = new
      server.dispatcher.reload(new.dispatcher)
      server.dispatcher.engine.reload(new.engine)
      done()
    }
  }

  // MARK: Ending

  /// Takes no new connections, writes what is to be written, and ends. From any thread.
  package func shutDown() {
    hop { [self] _ in
      guard !isStopping else { return }
      isStopping = true
      hooks.isStopping()
      listener?.close(promise: nil)
      // What has come so far is stored and answered; then everybody is let go.
      storeTurn()
      afterStoring.append { [self] in
        for handler in connections.values { handler.end() }
        if connections.isEmpty { finishStopping() }
      }
      goOnAfterStoring()
      loop.scheduleTask(in: .milliseconds(1_500)) { [self] in
        for handler in connections.values { handler.abort() }
        finishStopping()
      }
    }
  }

  func finishStopping() {
    bootAlarm.disarm()
    wallAlarm.disarm()
    stopped.succeed()
  }

  /// Returns once it has ended.
  package func waitUntilStopped() async throws {
    try await stopped.futureResult.get()
    try await loop.submit { [self] in
      storeTurn()
      keeper?.close()
    }.get()
    listening?.remove()
    hasEnded.withLock { $0 = true }
    try await group.shutdownGracefully()
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
  fileprivate var tick: UInt64 { UInt64(max(microseconds, 0)) }
}
