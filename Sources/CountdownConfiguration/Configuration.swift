import CountdownStore
import Countdowns
import Wire

/// The settings of the daemon; initially each has its default.
///
/// `Settings.swift` names each setting and its allowed values; `config/countdownd.yaml` explains
/// them to the operator.
package struct Configuration: Equatable, Sendable {
  package var socket = Socket()
  /// The directory for the state that survives restarts.
  package var stateDirectory = "/var/lib/countdownd"
  package var durability = Durability.process
  /// The size of a segment of the change log, in bytes. Two segments are reserved on the disk.
  package var segmentSize = 16 << 20
  package var logLevel = LogLevel.info
  package var logFormat = LogFormat.text
  package var access = Access()
  /// The defaults of commands, and the limits of what they make.
  package var engine = EngineSettings()
  package var dispatcher = Dispatcher.Settings()
  package var request = RESPLimits()
  package var connections = ConnectionLimits()
  package var fleet = Fleet()
  package var journal = Journal.Settings()
  /// Where these settings are from.
  package var files = Files()

  package init() {}

  package struct Files: Equatable, Sendable {
    /// The files and the directory that were read.
    package var read: [String] = []
    /// Files of that directory which look like settings, and are not read because of their name.
    package var ignored: [String] = []

    /// A warning for each of `ignored`.
    package var warnings: [String] {
      ignored.map { "\($0) is not read, as its name does not end with .yaml: rename it" }
    }
  }

  /// The socket that the daemon creates when systemd passes none.
  package struct Socket: Equatable, Sendable {
    package var path = "/run/countdownd/countdownd.sock"
    /// Permission bits.
    package var mode: UInt32 = 0o660
  }

  /// Whom the daemon serves, besides root and the user that it runs as.
  package struct Access: Equatable, Sendable {
    /// Who may connect. Empty: everybody whom the permissions of the socket admit.
    package var connect = Principals()
    /// Who may use the commands that manage the daemon.
    package var admin = Principals()
    /// Who may use which keys, by the name of the rule. Empty: everybody all.
    package var rules: [String: Rule] = [:]

    package struct Rule: Equatable, Sendable {
      /// Empty: everybody.
      package var who = Principals()
      /// Nil: all.
      package var kinds: [EntityKind]?
      package var keys: [String] = []
      package var role = KeyRule.Role.readWrite

      package init() {}
    }

    package struct Principals: Equatable, Sendable {
      package var users: [Principal] = []
      package var groups: [Principal] = []
    }
  }

  /// Levels with the names of swift-log.
  package enum LogLevel: String, CaseIterable, Equatable, Sendable {
    case trace
    case debug
    case info
    case notice
    case warning
    case error
    case critical
  }

  /// How lines of standard error look. The journal has fields in any case.
  package enum LogFormat: String, CaseIterable, Sendable { case text, json }

  /// What is shared with daemons on other hosts, and how.
  package struct Fleet: Equatable, Sendable {
    package enum Engine: String, CaseIterable, Sendable { case none, redis }

    package var engine = Engine.none
    package var settings = FleetSettings()
  }
}
