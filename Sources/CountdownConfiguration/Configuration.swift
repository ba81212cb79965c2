import Countdowns

/// The settings of the daemon; initially each has its default.
///
/// `Settings.swift` names each setting and its allowed values; `config/countdownd.yaml` explains
/// them to the operator.
package struct Configuration: Equatable, Sendable {
  package var socket = Socket()
  /// The directory for the state that survives restarts.
  package var stateDirectory = "/var/lib/countdownd"
  package var durability = Durability.process
  package var events = Events()
  package var log = Log()
  package var logLevel = LogLevel.info
  package var access = Access()
  package var countdown = Countdown()
  /// The policies that COUNTDOWN START POLICY can name.
  package var policies: [String: SendPolicy] = [:]
  package var hud = HUD()
  package var gate = Gate()
  package var nav = Navigation()
  package var page = Page()
  package var fleet = Fleet()
  package var limits = Limits()
  package var slowlog = SlowLog()

  package init() {}

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

    package struct Principals: Equatable, Sendable {
      package var users: [Principal] = []
      package var groups: [Principal] = []
    }
  }

  /// What a reply promises about the changes that it reports.
  package enum Durability: String, CaseIterable, Equatable, Sendable {
    /// Nothing is stored.
    case none
    /// Changes survive the end of the process, `kill -9` included.
    case process
    /// Changes survive a power failure.
    case power
  }

  /// The event log, for clients that were disconnected.
  package struct Events: Equatable, Sendable {
    /// The number of newest events to keep.
    package var keep = 100_000
  }

  /// The change log, in the state directory.
  package struct Log: Equatable, Sendable {
    /// The size of a segment, in bytes. Two segments are reserved on the disk.
    package var segmentSize = 16_777_216
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

  /// Defaults of COUNTDOWN START.
  package struct Countdown: Equatable, Sendable {
    package var count = 60
    package var every = Duration.seconds(1)
    /// How long a ready key is retained.
    package var keepReady = Duration.seconds(600)
  }

  /// Defaults of HUD SHOW.
  package struct HUD: Equatable, Sendable {
    package var grace = Duration.zero
    package var min = Duration.zero
    package var fadeIn = Duration.milliseconds(150)
    package var fadeOut = Duration.milliseconds(150)
    /// The shortest display time of info, success and error, unless SHOW has MIN.
    package var messageMin = Duration.seconds(5)
    /// The highest level on screens that `screens` does not list.
    package var maxLevel = Level.normal
    /// Screens with other settings, by key.
    package var screens: [String: Screen] = [:]
    package var blocking = Blocking()
  }

  /// Defaults of GATE CHECK.
  package struct Gate: Equatable, Sendable {
    /// How long an action waits for its session to open.
    package var keepPending = Duration.seconds(600)
  }

  /// Levels of HUDs, lowest first.
  package enum Level: String, CaseIterable, Equatable, Sendable {
    case normal
    case statusbar
    case alert
  }

  package struct Screen: Equatable, Sendable {
    package var maxLevel: Level

    package init(maxLevel: Level) { self.maxLevel = maxLevel }
  }

  /// Which requests block interaction with the screen: HUD SHOW REQUEST without MASK.
  package struct Blocking: Equatable, Sendable {
    /// Exact paths, each the part of the URL from the last `/api/` on.
    package var paths: [String] = []
    /// Words in the last segment of the path.
    package var verbs = [
      "Create", "Add", "Update", "Delete", "Bind", "Submit", "Save", "Login", "Change", "Set",
      "Edit", "Modify", "Cancel", "Send", "Check", "Audit",
    ]
    /// The mask that covers the screen meanwhile.
    package var mask = Mask.custom
  }

  package enum Mask: String, CaseIterable, Equatable, Sendable {
    case none, clear, black, gradient, custom
  }

  /// Defaults of NAV SWIPE.
  package struct Navigation: Equatable, Sendable {
    /// A swipe back is cancelled after this time without progress.
    package var swipeTimeout = Duration.seconds(10)
  }

  /// Defaults of PAGE APPEAR.
  package struct Page: Equatable, Sendable {
    /// How long a load may take; zero for no limit.
    package var timeout = Duration.seconds(30)
  }

  /// What is shared with daemons on other hosts, and how.
  package struct Fleet: Equatable, Sendable {
    package enum Engine: String, CaseIterable, Sendable { case none, redis }

    package var engine = Engine.none
    package var settings = FleetSettings()
    /// How long a command waits for the servers.
    package var timeout = Duration.milliseconds(250)
    /// How far the clocks of the servers may be apart.
    package var maxClockSkew = Duration.milliseconds(500)
    /// The user on the servers. Empty: their default user.
    package var username = ""
    /// The path of the password file and, in `tls`, those of PEM files. Empty: none.
    package var passwordFile = ""
    package var tls = TLS()

    package struct TLS: Equatable, Sendable {
      package var enabled = Switch.no
      package var authorities = ""
      package var certificate = ""
      package var key = ""
    }
  }

  package enum Switch: String, CaseIterable, Sendable { case no, yes }

  /// Lengths are in bytes.
  package struct Limits: Equatable, Sendable {
    package var maxBulkLength = 65_536
    package var maxInlineLength = 65_536
    package var maxArguments = 16_384
    package var maxRequestLength = 1_048_576
    package var maxCommandsPerTurn = 128
    package var maxOutput = 67_108_864
    package var maxOutputPerUID = 268_435_456
    package var maxConnections = 20_000
    package var maxConnectionsPerUID = 10_000
    package var maxEntities = 20_000_000
    package var maxEntitiesPerUID = 10_000_000
    package var maxSubscriptions = 100_000
    package var maxPatternsPerUID = 1_000
    package var maxPayloadLength = 4_096
    package var maxScopeDepth = 10_000
    package var maxScopeChildren = 1_000_000
    package var maxScopeHandlers = 1_000
    package var maxStackPages = 1_000
  }

  package struct SlowLog: Equatable, Sendable {
    /// Commands that take this long or longer are kept.
    package var threshold = Duration.milliseconds(10)
    /// The number of newest commands to keep.
    package var length = 128
  }
}
