import ArgumentParser
import CountdownConfiguration
import CountdownFleet
import CountdownServer
import CountdownStore
import Countdowns
import Dispatch
import DispatchTimers
import Glibc
import Logging
import Runtime
import Synchronization
import SystemdSupport
import Wire

/// Runs the program countdownd.
package func runCountdownd() { Countdownd.main() }

/// Blocks the first thread instead of using Swift concurrency. That would start libdispatch's
/// shared thread pool, and with it a monitor that wakes up once a second for as long as the daemon
/// lives. Serial queues do not start it.
///
/// Source: libdispatch, src/event/workqueue.c (`_dispatch_workq_monitor_pools`).
struct Countdownd: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "countdownd",
    abstract: "Run countdowns, HUDs and timers for other programs.",
    discussion: """
      Clients connect to a Unix socket and speak the protocol of Redis: countdownctl, redis-cli -s, \
      or any Redis library. The daemon runs in the foreground and logs to standard error. Under \
      systemd it takes its socket from systemd, reports when it is ready, and logs to the journal.

      Examples:
        countdownd --socket ./countdownd.sock --state-directory ./state
        countdownd --config /etc/countdownd/countdownd.yaml
        countdownd --socket ./test.sock --virtual-time
        countdownd --socket ./test.sock --virtual-time --state-directory ./test-state

      Signals:
        SIGTERM, SIGINT  stop: finish what clients were promised, then end
        SIGHUP           reload the configuration; stop if the terminal was closed

      Environment:
        COUNTDOWND_BOOT_ID  an id of this boot, for a sandbox that hides the one in /proc

      Exit status:
        0   stopped as requested
        64  an error in the command line
        65  the state is of a newer release or of another program; a restart does not help
        69  cannot listen: the socket is in use, its directory does not exist, or too few files
            may be open
        73  cannot keep state: the message says why, and what to do
        74  cannot store a change: the log says why; a restart continues with what was stored
        78  the configuration has an error: the message says where
      """,
    version: "\(Product.name) \(ProductVersion.built)")

  @Option(
    help: .init(
      "The socket to listen at, unless systemd passes one (default: as configured, "
        + "\(Configuration().socket.path)).",
      valueName: "path"), completion: .file())
  var socket: String?

  @Option(
    help: .init(
      "The directory of the stored state (default: as configured, "
        + "\(Configuration().stateDirectory)).",
      valueName: "path"), completion: .directory)
  var stateDirectory: String?

  @Option(
    help: .init(
      "What changes survive: process (kill -9), power (a power failure too) or none (default: as "
        + "configured, \(Configuration().durability.rawValue)).",
      valueName: "level"))
  var durability: Durability?

  @Option(
    help: .init(
      "The configuration file; FILE.d/*.yaml are read after it (default: "
        + "\(Configuration.standardPath)).",
      valueName: "file"), completion: .file())
  var config: String?

  @Flag(
    help: """
      Freeze time; only CLOCK moves it. For tests: the state is in memory only, unless \
      --state-directory is given.
      """)
  var virtualTime = false

  @Flag(
    help: """
      End once standard input ends. For private daemons: whoever starts one keeps the other end of a \
      pipe, and it ends with them, even if they are killed.
      """)
  var endWithInput = false

  @Option(
    help: .init(
      "Log messages of this level and more severe ones (default: as configured, "
        + "\(Configuration().logLevel.rawValue)).",
      valueName: "level"))
  var logLevel: Configuration.LogLevel?

  @Flag(help: "Check the configuration, print the settings in force, and end.")
  var checkConfig = false

  func validate() throws {
    if virtualTime, stateDirectory == nil, let durability, durability != .none {
      throw ValidationError(
        "--virtual-time stores its state only in a --state-directory; add one for --durability "
          + "\(durability.rawValue)")
    }
  }

  private static let notifier = ServiceNotifier()

  static func main() {
    do {
      var command = try parseAsRoot()
      try command.run()
      drain()
    } catch {
      drain()
      // Error messages quote arguments, so `complain` escapes them. Help and completion quote none.
      guard exitCode(for: error) != .success else { exit(withError: error) }
      let message = fullMessage(for: error)
      if !message.isEmpty { complain(message, prefixed: false) }
      Glibc.exit(exitCode(for: error).rawValue)
    }
  }

  private static func drain() {
    LogDestination.flush()
    notifier.drain()
  }

  func run() throws {
    let configuration = try loadConfiguration()
    guard !virtualTime || configuration.fleet.engine == .none else {
      throw refuseStart(
        "--virtual-time cannot be used with fleet: the servers have clocks of their own", 78)
    }
    if checkConfig { return try report(configuration) }

    Self.format.store(configuration.logFormat == .json, ordering: .relaxed)
    let logger = makeLogger(configuration)
    logger.log(.started, .info, "\(Product.name) \(Product.version) starts")
    for warning in configuration.files.warnings { logger.warning("\(warning)") }

    let hasTerminal = isatty(STDERR_FILENO) == 1
    blockSignals()
    signal(SIGPIPE, SIG_IGN)
    // Exceeding the limit on file sizes is an error, like a full disk.
    signal(SIGXFSZ, SIG_IGN)
    guard raiseDescriptorLimit() >= Self.fewestDescriptors else {
      throw refuseStart(
        """
        the process may open fewer than \(Self.fewestDescriptors) files; raise LimitNOFILE= of the \
        service, or `ulimit -n`
        """, 69, logger)
    }
    Server.avoidHugePages()
    let status = StatusLine(Self.notifier)
    var settings = ServerSettings(listener: try listener(configuration, logger))
    settings.take(configuration)
    settings.isTimeVirtual = virtualTime
    settings.watchdogInterval = Watchdog.intervalMicroseconds().map { Int64(clamping: $0) }
    let restart = virtualTime ? virtualRestart(&settings, logger) : nil
    if !virtualTime { settings.engine.firstGeneration = firstNumber(configuration, logger) }

    let reloading = Reloading(configuration, settings, load: load, status, logger)
    let hooks = hooks(settings, reloading, status)
    let server = try refusing(logger) {
      try Server(settings, hooks: hooks, logger: logger)
    }
    let signals = watchSignals { number in
      let isHungUp = hasTerminal && isatty(STDERR_FILENO) == 0
      if number == SIGHUP, !isHungUp { return reloading.ask(server) }
      server.shutDown(by: number == SIGTERM ? "SIGTERM" : number == SIGINT ? "SIGINT" : "SIGHUP")
    }
    if endWithInput { waitForEndOfInput { server.shutDown(by: "stdin") } }
    do {
      try refusing(logger) { try server.start() }
      status.isListening(server.status)
      reloading.begin()
      greet(settings, logger)
      restart?.answer()
      server.waitUntilStopped()
    } catch is StoppedWhileLoading {}
    withExtendedLifetime(signals) {}
    logger.info("ended", metadata: ["by": "\(server.ending.cause ?? "")"])
    if let next = server.ending.next, server.ending.cause == "CLOCK" {
      Self.drain()
      VirtualRestart.again(at: next.start, answering: next.caller ?? -1)
    }
  }

  /// Prints the settings, and what is wrong or unwise about them.
  private func report(_ configuration: Configuration) throws {
    let problems = ServiceFiles.problems(configuration, from: config)
    var warnings = configuration.files.warnings
    if problems.isEmpty {
      let fleet = configuration.fleet
      warnings += [
        ServiceFiles.warning(configuration, ofService: config == nil),
        fleet.engine == .redis ? fleet.settings.warning : nil,
      ].compactMap(\.self)
    }
    for warning in warnings { complain("warning: \(warning)") }
    guard problems.isEmpty else {
      complain("the service cannot use its configuration:\n" + problems.joined(separator: "\n"))
      throw ExitCode(78)
    }
    for (name, value) in configuration.settings { say("\(name): \(value)") }
  }

  /// Has time be virtual, and continue where a restart has left it.
  private func virtualRestart(_ settings: inout ServerSettings, _ logger: Logger) -> VirtualRestart?
  {
    let restart = VirtualRestart()
    settings.virtualStart = restart?.start
    // After a restart the clock keeps generations rising; before, small ones are easier to read.
    if let start = settings.virtualStart {
      settings.engine.firstGeneration = start.wallMicroseconds
    }
    let place =
      settings.state == nil
      ? ", and the state is in memory only: without --state-directory, CLOCK RESTART keeps nothing"
      : ""
    logger.notice("time is virtual\(place)")
    return restart
  }

  private func loadConfiguration() throws -> Configuration {
    do {
      return try load()
    } catch {
      let text = "the configuration is refused:\n\(error.description)"
      if checkConfig { complain(text) }
      throw checkConfig ? ExitCode(78) : refuseStart(text, 78)
    }
  }

  /// Whether the log is JSON. Set once the configuration is loaded.
  private var readsJSON: Bool { Self.format.load(ordering: .relaxed) }
  private static let format = Atomic(false)

  /// Says why the daemon cannot start: on a terminal as it is, in the journal at critical, and as
  /// the status of the service.
  ///
  /// - Parameter logger: nil if there is none yet.
  private func refuseStart(_ text: String, _ status: Int32, _ logger: Logger? = nil) -> ExitCode {
    // Whoever reads JSON needs each line of it, once there is a configuration that says so.
    if Journal.isStandardError() || readsJSON {
      let logger = logger ?? makeLogger(Configuration())
      logger.log(.cannotStart, .critical, "cannot start: \(text)")
    } else {
      complain(text)
    }
    let line = text.split(separator: "\n").joined(separator: " ")
    Self.notifier.status("cannot start: \(line)")
    return ExitCode(status)
  }

  /// Returns the first generation. Without a state, the clock keeps generations rising; but one
  /// that an earlier daemon has stored in the state directory may be ahead of the clock.
  private func firstNumber(_ configuration: Configuration, _ logger: Logger) -> Int64 {
    let now = Int64(WallClock.now)
    guard configuration.durability == .none else { return now }
    do {
      return try Store.firstNumber(
        keepingNothingIn: configuration.stateDirectory, atLeast: now)
    } catch {
      logger.warning(
        """
        numbers of events and generations may be lower than they were, as those that were given out \
        cannot be looked up: \(error)
        """)
      return now
    }
  }

  /// Loads the configuration files; command-line options override them.
  private func load() throws(ConfigurationError) -> Configuration {
    var configuration = try Configuration.load(path: config ?? Configuration.standardPath)
    if let socket { configuration.socket.path = socket }
    if let stateDirectory { configuration.stateDirectory = stateDirectory }
    if let durability { configuration.durability = durability }
    // A test must not change the state directory of a configuration that others use.
    if virtualTime, stateDirectory == nil { configuration.durability = .none }
    if virtualTime, stateDirectory == nil { configuration.journal.size = 0 }
    if let logLevel { configuration.logLevel = logLevel }
    try configuration.readSecret(file: config ?? Configuration.standardPath)
    return configuration
  }

  private func listener(
    _ configuration: Configuration, _ logger: Logger
  ) throws -> ServerSettings.Listener {
    do {
      if let activated = try ActivatedSockets.take(name: Product.name) {
        return .descriptor(activated)
      }
    } catch {
      throw refuseStart(error.description, 69, logger)
    }
    return .path(configuration.socket.path, mode: configuration.socket.mode)
  }

  private func makeLogger(_ configuration: Configuration) -> Logger {
    let destination: LogDestination =
      if Journal.isStandardError() { .journal } else {
        configuration.logFormat == .json ? .json : .standardError
      }
    let output = LogOutput { destination.write($0) }
    LoggingSystem.bootstrap { _ in DaemonLogHandler(output: output) }
    let logger = Logger(label: Product.name)
    logger.set(configuration.logLevel)
    return logger
  }

  private func hooks(
    _ settings: ServerSettings, _ reloading: Reloading, _ status: StatusLine
  ) -> ServerHooks {
    let notifier = Self.notifier
    var hooks = ServerHooks()
    hooks.isAlive = { status.isAlive($0) }
    hooks.reload = { reloading.ask($0, $1) }
    hooks.setLogLevel = { reloading.setLogLevel($0) }
    hooks.isLoading = { notifier.loading($0) }
    hooks.isStopping = { notifier.stopping(status: "ending") }
    let logsToJournal = Journal.isStandardError()
    hooks.isLogBehind = { logsToJournal && LogDestination.isBehind }
    hooks.flushLog = { LogDestination.flush() }
    hooks.lostLines = { LostLines.sinceStart.withLock { ($0.all, $0.audit) } }
    let watchdog = settings.watchdogInterval
    hooks.systemdFacts = {
      [
        ("under_systemd", notifier.isUnderSystemd ? "1" : "0"),
        ("watchdog_interval_ms", watchdog.map { "\($0 / 1_000)" } ?? ""),
        ("logs_to_journal", logsToJournal ? "1" : "0"),
      ]
    }
    return hooks
  }

  /// Runs a part of the start; says why it fails, and what to do.
  private func refusing<Result>(
    _ logger: Logger, _ body: () throws -> Result
  ) throws -> Result {
    do {
      return try body()
    } catch let error as ListenError {
      // Under systemd the socket comes from its unit.
      let advice =
        Self.notifier.isUnderSystemd
        ? "; systemd has passed no socket: `systemctl start countdownd.socket`" : ""
      throw refuseStart(error.description + advice, 69, logger)
    } catch let error as FleetError {
      throw refuseStart("cannot use the servers of the fleet: \(error)", 78, logger)
    } catch let error as StoreError {
      throw refuseStart(
        "cannot keep state: \(error)\nOr keep none: --durability none",
        error.lastsUntilReplaced ? 65 : 73, logger)
    }
  }

  private func greet(_ settings: ServerSettings, _ logger: Logger) {
    switch settings.listener {
    case .path(let path, _):
      logger.log(
        .ready, .info, "\(Product.name) \(Product.version) listens", ["socket": "\(path)"])
      guard isatty(STDERR_FILENO) == 1 else { return }
      let name = path.contains(" ") ? "'\(path)'" : path
      // The directory of this program, as it was typed, so that the commands can be pasted.
      let program = CommandLine.arguments[0]
      let folder = program.lastIndex(of: "/").map { program[...$0] } ?? ""
      complain(
        """
        Try it in another terminal, in the same folder:
          export COUNTDOWND_SOCKET=\(name)
          \(folder)countdownctl start +4512345678 60s
          \(folder)countdownctl watch
          redis-cli -s \(name) COUNTDOWN GET +4512345678
        Ctrl-C stops the daemon.
        """, prefixed: false)
    case .descriptor:
      logger.log(
        .ready, .info, "\(Product.name) \(Product.version) listens",
        ["socket": "passed by systemd"])
    }
  }

  /// Watches signals, and waits until each is watched. They are blocked from the start, so one that
  /// came earlier is waiting.
  private func watchSignals(
    _ handler: @escaping @Sendable (Int32) -> Void
  ) -> [any DispatchSourceSignal] {
    let queue = DispatchQueue(label: "countdownd.signals")
    let registrations = DispatchGroup()
    let sources = Self.signals.map { number in
      let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
      source.setEventHandler { handler(number) }
      registrations.enter()
      source.setRegistrationHandler { registrations.leave() }
      source.activate()
      return source
    }
    registrations.wait()
    return sources
  }

  /// Reads standard input in a thread of its own, and calls back once it ends or cannot be read.
  private func waitForEndOfInput(_ handler: @escaping @Sendable () -> Void) {
    DispatchQueue(label: "countdownd.input").async {
      var bytes: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
      while true {
        let count = unsafe read(STDIN_FILENO, &bytes, MemoryLayout.size(ofValue: bytes))
        guard count > 0 || count < 0 && errno == EINTR else { return handler() }
      }
    }
  }

  private static let signals = [SIGTERM, SIGINT, SIGHUP]

  /// Below that, libdispatch may stop the program, or nobody could connect.
  private static let fewestDescriptors: rlim_t = 32

  /// Makes signals wait until they are watched, in all threads: call it before there are others.
  private func blockSignals() {
    var set = sigset_t()
    unsafe sigemptyset(&set)
    for number in Self.signals { unsafe sigaddset(&set, number) }
    unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
  }
}

extension Configuration.LogLevel: ExpressibleByArgument {}
extension Durability: ExpressibleByArgument {}

/// Writes an error to standard error.
func complain(_ text: String, prefixed: Bool = true) {
  StandardError.write(line: (prefixed ? "countdownd: " : "") + text.printableLines)
}

/// Prints a line of the result.
private func say(_ line: String) { print(line.printable) }

/// Raises the limit on descriptors as far as the system allows, and returns it: each connection
/// needs one.
private func raiseDescriptorLimit() -> rlim_t {
  var limit = rlimit()
  guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
    return .max
  }
  limit.rlim_cur = limit.rlim_max
  unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  return limit.rlim_max
}
