import CountdownStore
import Countdowns
import Wire

/// Where the server listens, what it stores and shares, and what it allows clients.
package struct ServerSettings: Sendable {
  package enum Listener: Sendable {
    /// A new socket at a path, with these permissions.
    case path(String, mode: UInt32)
    /// A listening socket that was passed to the daemon.
    case descriptor(Int32)
  }

  package var listener: Listener
  package var request = RESPLimits()
  package var connections = ConnectionLimits()
  package var engine = EngineSettings()
  package var dispatcher = Dispatcher.Settings()
  /// Where and how state is stored; nil if it is in memory only.
  package var state: Store.Options?
  /// How decisions are kept, and where.
  package var journal = Journal.Settings()
  package var journalDirectory = ""
  /// What is shared with other daemons, and how; nil without a fleet.
  package var fleet: FleetSettings?
  /// Whether time is virtual: frozen until CLOCK moves it.
  package var isTimeVirtual = false
  /// Where virtual time begins; nil to continue from the state, or else to begin at the present.
  package var virtualStart: StoreClock.Reading?
  /// The longest time between two heartbeats in microseconds; nil without a watchdog.
  package var watchdogInterval: Int64?
  /// The settings that CONFIG GET shows.
  package var shown: [(name: String, value: String)] = []

  package init(listener: Listener) { self.listener = listener }
}

/// The status of the server, in words.
package struct ServerStatus: Equatable, Sendable {
  /// The current problems, and what to do about them.
  package var troubles: [String]
  /// How many connections and entities there are.
  package var load: String
}

/// Callbacks from the server to the program that started it.
package struct ServerHooks: Sendable {
  /// Receives a heartbeat from the event loop, with the daemon's status.
  package var isAlive: @Sendable (_ status: ServerStatus) -> Void = { _ in }
  /// Returns lines of INFO about the service manager.
  package var systemdFacts: @Sendable () -> [(name: String, value: String)] = { [] }
  /// Called when the server begins to stop.
  package var isStopping: @Sendable () -> Void = {}
  /// Returns whether the log takes lines, but more slowly than they come.
  package var isLogBehind: @Sendable () -> Bool = { false }
  /// Writes the log lines that wait, but not for long. Called before the process ends at once.
  package var flushLog: @Sendable () -> Void = {}
  /// Returns how many log lines were lost since the start, and how many of them about changes for
  /// another user.
  package var lostLines: @Sendable () -> (all: Int, audit: Int) = { (0, 0) }
  /// Called while the state is loading, with the number of entities loaded.
  package var isLoading: @Sendable (_ entities: Int) -> Void = { _ in }
  /// Reloads the configuration, and reports the outcome from any thread.
  package var reload:
    @Sendable (Server, _ done: @escaping @Sendable (ReloadOutcome) -> Void) -> Void = {
      $1(.refused(["there is no configuration to be read"]))
    }
  /// Sets the log level until the next reload; returns false for an unknown level.
  package var setLogLevel: @Sendable (_ level: String) -> Bool = { _ in false }

  package init() {}
}
