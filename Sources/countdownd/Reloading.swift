import CountdownConfiguration
import CountdownServer
import Countdowns
import Dispatch
import Logging
import Runtime
import Synchronization

/// Reloads the configuration. Settings that can change while the daemon runs take effect at once;
/// a configuration with an error changes nothing.
final class Reloading: Sendable {
  private let configuration: Mutex<Configuration>
  /// As at the start.
  private let settings: ServerSettings
  private let load: @Sendable () throws(ConfigurationError) -> Configuration
  private let status: StatusLine
  private let logger: Logger
  /// Runs one reload at a time, off the event loop: reading files can be slow.
  private let queue = DispatchQueue(label: "countdownd.reload", attributes: .initiallyInactive)

  init(
    _ configuration: Configuration, _ settings: ServerSettings,
    load: @escaping @Sendable () throws(ConfigurationError) -> Configuration,
    _ status: StatusLine, _ logger: Logger
  ) {
    self.configuration = Mutex(configuration)
    self.settings = settings
    self.load = load
    self.status = status
    self.logger = logger
  }

  // libdispatch traps if it releases a queue that was never active.
  deinit { begin() }

  /// Reloads from now on. Requests wait until the server listens: else systemd would be notified of
  /// `ready` during loading.
  func begin() { queue.activate() }

  /// Requests a reload, from any thread; `done` receives the outcome on another one.
  func ask(
    _ server: Server, _ done: @escaping @Sendable (ReloadOutcome) -> Void = { _ in }
  ) {
    queue.async { [self] in done(reload(server)) }
  }

  /// Sets the log level until the next reload, which compares the new configuration with it.
  func setLogLevel(_ name: String) -> Bool {
    guard let level = Configuration.LogLevel(rawValue: name) else { return false }
    configuration.withLock { $0.logLevel = level }
    logger.set(level)
    logger.notice("log level set to \(level.rawValue)")
    return true
  }

  private func reload(_ server: Server) -> ReloadOutcome {
    status.isReloading()
    do {
      return take(try load(), server)
    } catch {
      let problems = error.problems.map(\.description)
      for problem in problems {
        logger.log(
          .reloadRefused, .error, "the configuration is refused, the old one stays: \(problem)")
      }
      server.noteRefusedReload(problems.first ?? "") { [status] in
        status.hasReloaded($0, isRefused: true)
      }
      return .refused(problems)
    }
  }

  private func take(_ loaded: Configuration, _ server: Server) -> ReloadOutcome {
    var new = loaded
    let (kept, changed) = configuration.withLock { configuration in
      defer { configuration = new }
      return (new.keepWhatNeedsRestart(from: configuration), new.changes(from: configuration))
    }
    for warning in new.files.warnings { logger.warning("\(warning)") }
    for name in kept {
      logger.warning("\(name) has changed, which takes a restart; the old value stays")
    }
    var settings = settings
    settings.take(new)
    let done = DispatchSemaphore(value: 0)
    server.reload(settings) { [status] in
      status.hasReloaded($0, isRefused: false)
      done.signal()
    }
    // A server that has ended does not signal any more.
    _ = done.wait(timeout: .now() + .seconds(5))
    logger.set(new.logLevel)
    logger.log(
      .reloaded, .notice, "configuration reloaded",
      [
        "policies": "\(new.engine.policies.count)",
        "changed": "\(changed.map(\.name).joined(separator: ","))",
      ])
    return .taken(changed: changed, kept: kept)
  }
}

extension Logger {
  /// Sets the level of all loggers.
  func set(_ level: Configuration.LogLevel) {
    var logger = self
    logger.logLevel = Logger.Level(rawValue: level.rawValue) ?? .info
  }
}
