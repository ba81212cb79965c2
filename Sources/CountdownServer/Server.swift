import CountdownStore
import Countdowns
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

  let group: MultiThreadedEventLoopGroup
  let loop: any EventLoop
  let listening: ListeningSocket?
  var listener: (any Channel)?
  let stopped: EventLoopPromise<Void>
  let hasEnded = Mutex(false)

  private(set) var dispatcher: Dispatcher! = nil
  /// What is kept, until it has been read.
  var unread: Store?
  var loading: StateLoading?
  var toldOfLoading: Instant?
  /// Reading it takes as long as storing a small batch.
  let bootID = BootID.current
  var writer: StoreWriter?
  /// Where the log is brought to the tables. The loop comes first.
  let upkeep = NIOThreadPool(numberOfThreads: 1)
  /// Why nothing can be stored at present.
  var storeProblem: StoreError?
  /// Why the log cannot be brought to the tables at present.
  var upkeepProblem: StoreError?
  /// To be done when nothing waits to be stored.
  var afterStoring: [() -> Void] = []
  var connections: [UInt64: ConnectionHandler] = [:]
  var rejectedConnections = 0
  var lastConnection: UInt64 = 0
  var isStopping = false
  var backup: Backup?
  var lastBackup: Int64 = 0

  private let alarmQueue = DispatchQueue(label: "countdownd.alarm")
  let bootAlarm: DispatchAlarm
  let wallAlarm: DispatchAlarm
  /// Where something is kept: how the clocks stand is stored when somebody has set one.
  private var wallClockSteps: WallClockSteps?
  var watchdogDue: Instant?
  var isBatchOpen = false
  /// More is due than has been done: it goes on once sockets have been looked at.
  var isBehind = false
  var afterSockets: AfterSockets! = nil
  var putOff: [(Server) -> Void] = []
  /// Of those who had no turn; before the others.
  var putOffFirst: [(Server) -> Void] = []
  /// The connection whose snapshots were gone on with last.
  var lastSnapshot: UInt64 = 0

  private static let nicenessOfUpkeep: Int32 = 10

  /// Listens from the moment it returns, and serves all commands. Throws `StoppedWhileLoading` if it is
  /// asked to end before that.
  ///
  /// - Parameter isMade: is handed the server before it loads what was kept, which may take long.
  package static func start(
    _ settings: ServerSettings, hooks: ServerHooks = ServerHooks(), logger: Logger,
    isMade: (Server) -> Void = { _ in }
  ) throws -> Server {
    let server = try Server(settings, hooks: hooks, logger: logger)
    isMade(server)
    do {
      try server.openLoop()
      let loaded = server.load()
      // Little is loaded in no time: then nobody need hear of it.
      try server.soon(loaded).wait()
      try server.listen()
      try loaded.wait()
    } catch {
      server.hasEnded.withLock { $0 = true }
      // Nobody waits for it; but a promise may not be let go of before it is kept.
      server.stopped.succeed()
      server.listening?.remove()
      try server.group.syncShutdownGracefully()
      try server.upkeep.syncShutdownGracefully()
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
    // A file of another version is made over first, and one that was damaged looked through.
    if settings.state != nil { hooks.isLoading(0) }
    unread = try settings.state.map { try Self.openStore($0, logger, at: now) }
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

  private func openLoop() throws {
    upkeep.start()
    // Where that is not allowed it goes on as it is.
    upkeep.submit { _ in setpriority(Int32(PRIO_PROCESS.rawValue), 0, Self.nicenessOfUpkeep) }
    // Clients may have been waiting at the socket for long: their first batch arms the alarms.
    bootAlarm.setHandler { [weak self] in self?.hop { $0.openBatch() } }
    wallAlarm.setHandler { [weak self] in self?.hop { $0.openBatch() } }
    if settings.state != nil {
      // Where there is none, the next batch notices, within a minute.
      wallClockSteps = WallClockSteps(queue: alarmQueue) { [weak self] in
        self?.hop { $0.openBatch() }
      }
    }
    try loop.flatSubmit { [self] in
      do {
        let (way, channel) = try AfterSockets.open(on: loop) { [weak self] in self?.goOn() }
        afterSockets = way
        return channel.map { _ in }
      } catch {
        return loop.makeFailedFuture(error)
      }
    }.wait()
    try loop.submit { [self] in
      if let interval = settings.watchdogInterval {
        watchdogDue = Moment.present.boot + Interval(microseconds: interval / 2)
      }
      armAlarms()
    }.wait()
  }

  private func listen() throws {
    let descriptor: Int32
    switch settings.listener {
    case .path: descriptor = listening!.descriptor
    case .descriptor(let activated): descriptor = activated
    }
    let bootstrap = ServerBootstrap(group: group)
      .serverChannelOption(.maxMessagesPerRead, value: 64)
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
    let channel = bootstrap.withBoundSocket(descriptor)
    // That has made the queue as short as the channel's default, of 128, whatever its options say.
    try ListeningSocket.lengthenQueue(of: descriptor)
    listener = try channel.wait()
  }

  /// To the loop from any thread; nowhere once it has ended, as an alarm or a signal may come late.
  func hop(_ body: @escaping @Sendable (Server) -> Void) {
    hasEnded.withLock { hasEnded in
      if !hasEnded { loop.execute { body(self) } }
    }
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
      new.watchdogInterval = server.settings.watchdogInterval
      server.settings = new
      server.dispatcher.reload(new.dispatcher)
      server.dispatcher.engine.reload(new.engine)
      done()
    }
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
