import CountdownStore
import Countdowns
import Wire

/// Where and how the server listens, and what it lets clients use.
package struct ServerSettings: Sendable {
  package enum Listener: Sendable {
    /// A socket of its own at a path, with these permissions.
    case path(String, mode: UInt32)
    /// A listening socket that it was started with.
    case descriptor(Int32)
  }

  package var listener: Listener
  package var request = RESPLimits()
  package var commandsPerTurn = 128
  package var connections = 20_000
  package var connectionsPerUser = 10_000
  package var engine = EngineSettings()
  package var dispatcher = Dispatcher.Settings()
  /// Where and how state is kept; nil: not at all.
  package var state: Store.Options?
  /// What is shared with other daemons, and how; nil: nothing.
  package var fleet: FleetSettings?
  /// Time is frozen, and moves by CLOCK.
  package var isTimeVirtual = false
  /// Where virtual time begins; nil: where the state was left, else at the present.
  package var virtualStart: StoreClock.Reading?
  /// The longest time between two heartbeats in microseconds; nil without a watchdog.
  package var watchdogInterval: Int64?
  /// What CONFIG GET shows.
  package var shown: [(name: String, value: String)] = []

  package init(listener: Listener) { self.listener = listener }
}

/// How the server is, in words.
package struct ServerStatus: Equatable, Sendable {
  /// What is wrong at present, and what to do about it.
  package var troubles: [String]
  /// How much it has to do.
  package var load: String
}

/// What the server tells whoever started it.
package struct ServerHooks: Sendable {
  /// A heartbeat from the loop that timers run in, with the daemon's status.
  package var isAlive: @Sendable (_ status: ServerStatus) -> Void = { _ in }
  /// Lines of INFO about the service manager.
  package var systemdFacts: @Sendable () -> [(name: String, value: String)] = { [] }
  /// It will end, and why.
  package var isStopping: @Sendable () -> Void = {}
  /// What was kept is being read: so many entities are there by now.
  package var isLoading: @Sendable (_ entities: Int) -> Void = { _ in }
  /// Reloads the configuration, and reports the outcome from any thread.
  package var reload: @Sendable (_ done: @escaping @Sendable (ReloadOutcome) -> Void) -> Void = {
    $0(.refused(["there is no configuration to be read"]))
  }
  /// Sets the log level until the next reload; false for a word that is no level.
  package var setLogLevel: @Sendable (_ level: String) -> Bool = { _ in false }

  package init() {}
}
