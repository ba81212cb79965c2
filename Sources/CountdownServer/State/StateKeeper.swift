import CountdownStore
import Countdowns
import Dispatch
import Logging
import Runtime

/// What outlives the daemon: how it is loaded, who stores it, and what has happened to it. Used on
/// the loop.
final class StateKeeper {
  enum Loading {
    /// Loading has not begun; nil if nothing is stored.
    case opened(Store?)
    case underWay(StateLoading)
    case ended(Result<Void, any Error>)

    /// The outcome of loading; nil until loading has ended.
    var outcome: Result<Void, any Error>? {
      if case .ended(let outcome) = self { outcome } else { nil }
    }
  }

  var loading: Loading
  /// The store whose loading has not begun.
  var opened: Store? { if case .opened(let store) = loading { store } else { nil } }
  /// The clocks when this daemon started. All later readings are of the same boot.
  let start: StoreClock.Reading
  /// Nil while the state loads, and if nothing is stored.
  var writer: StoreWriter?
  /// Why changes cannot be stored at present; nil if they can.
  var problem: StoreError?
  /// Actions to run once no batch waits to be stored.
  private var whenIdle: [() -> Void] = []
  /// What was found damaged in the state; nil if nothing is stored.
  var damage: DamageRecord?
  /// What has happened over all starts; nil if nothing is stored.
  private(set) var history: History?
  private let logger: Logger
  private static let historyQueue = DispatchQueue(label: "countdownd.history")

  /// Opens the store, which reads its log.
  init(_ settings: ServerSettings, _ logger: Logger, at now: StoreClock.Reading) throws {
    self.logger = logger
    guard var options = settings.state else {
      (loading, start) = (.opened(nil), now)
      return
    }
    options.isTimeVirtual = settings.isTimeVirtual
    options.continuesClocks = settings.isTimeVirtual && settings.virtualStart == nil
    var damage = try DamageRecord(directory: options.directory)
    var isUnclean = false
    let store = try Self.open(options, logger, at: now, &damage, isUnclean: &isUnclean)
    self.damage = damage
    var history = History(directory: options.directory)
    history.starts += 1
    history.uncleanEnds += isUnclean ? 1 : 0
    history.keep(logger)
    self.history = history
    (loading, start) = (.opened(store), settings.isTimeVirtual ? store.clock.reading : now)
  }

  /// The reading of the clocks at a moment, for the store.
  func reading(at now: Moment) -> StoreClock.Reading {
    StoreClock.Reading(bootID: start.bootID, now)
  }

  /// Changes what has happened, and writes it on another thread: the disk may be slow.
  func change(_ body: (inout History) -> Void) {
    guard var new = history else { return }
    body(&new)
    history = new
    Self.historyQueue.async { [logger, new] in new.keep(logger) }
  }

  /// Runs an action once no batch waits to be stored.
  func whenIdle(_ body: @escaping () -> Void) {
    whenIdle.append(body)
    goOn()
  }

  func goOn() {
    guard writer?.isBusy != true, !whenIdle.isEmpty else { return }
    let bodies = whenIdle
    whenIdle = []
    for body in bodies { body() }
  }
}

/// Continues with everything that can be read of a corrupt state, which stays as it is. See
/// `Replacement` for why nothing is lost on the way.
extension StateKeeper {
  /// - Parameter damage: receives what is found damaged or lost.
  private static func open(
    _ state: Store.Options, _ logger: Logger, at reading: StoreClock.Reading,
    _ damage: inout DamageRecord, isUnclean: inout Bool
  ) throws(StoreError) -> Store {
    do throws(StoreError) {
      return try Store(state, at: reading) { finding in
        if case .uncleanEnd = finding { isUnclean = true }
        if let text = announce(finding, logger) { damage.note(text, at: reading, logger) }
      }
    } catch {
      guard error.kind == .corrupt else { throw error }
      // No part of the state can be read.
      let replacement = try Replacement(of: nil, state, at: reading)
      damage.note(announce(error, replacement, logger), at: reading, logger)
      try replacement.finish()
      return try replacement.open(at: reading)
    }
  }

  /// Logs a finding. Returns it in words if it is damage.
  private static func announce(_ finding: Store.Finding, _ logger: Logger) -> String? {
    switch finding {
    case .uncleanEnd(let pid):
      logger.log(
        .uncleanEnd, .warning,
        """
        the daemon before this one did not end in order: it hung, failed or was killed, or the \
        machine was. Under systemd `journalctl -u countdownd` says which, with the signal, the \
        watchdog or the exit status; `journalctl -k` says whether memory ran out
        """, ["process": "\(pid)"])
    case .lostChanges(let error):
      logger.log(
        .changesLost, .error,
        """
        the newest changes are lost, as the machine ended without warning. The durability `power` \
        keeps them
        """, ["file": "\(error.path)", "error": "\(error.detail)"])
      return "the newest changes are lost, as the machine ended without warning"
    case .otherLog(let path):
      logger.log(
        .logSetAside, .notice,
        """
        a part of the log belongs to another state, which this file has replaced, and is set aside; \
        delete it if you do not need it
        """, ["file": "\(path)"])
    case .emptied(let path): return lost(path, "empty", logger)
    case .missing(let path): return lost(path, "missing", logger)
    case .writableByAll(let path):
      logger.warning(
        "every user may write there, and so read, forge or remove the state: try `chmod o-w`",
        metadata: ["file": "\(path)"])
    }
    return nil
  }

  private static func lost(_ path: String, _ how: String, _ logger: Logger) -> String {
    logger.log(
      .stateEmptied, .error,
      "there was a state, and now it is \(how): starting without it. Restore a backup if it matters",
      ["file": "\(path)"])
    return "there was a state, and \(path) is \(how)"
  }

  static func announce(
    _ error: StoreError, _ replacement: Replacement, _ logger: Logger
  ) -> String {
    logger.log(
      .stateReplaced, .critical,
      """
      the state is corrupt and is kept, not deleted; going on in a new file, without what cannot be \
      read of it. \
      `countdownctl state list \(replacement.replaced)` prints what is readable, and \
      `sqlite3 \(replacement.replaced) .recover` may find more; or restore a backup
      """,
      [
        "file": "\(replacement.replaced)", "new": "\(replacement.path)",
        "error": "\(error.detail)",
      ])
    return "the state was corrupt and is kept as \(replacement.replaced)"
  }
}

extension History {
  func keep(_ logger: Logger) {
    do throws(StoreError) {
      try write()
    } catch {
      logger.warning("the counts of starts, ends and backups are not kept: \(error)")
    }
  }
}

extension DamageRecord {
  mutating func note(_ finding: String, at now: StoreClock.Reading, _ logger: Logger) {
    do throws(StoreError) {
      try note(finding, atUnixMicroseconds: now.wallMicroseconds)
    } catch {
      logger.error("the next start will not know of the damage, as it cannot be written: \(error)")
    }
  }
}
