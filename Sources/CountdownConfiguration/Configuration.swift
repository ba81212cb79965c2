import Countdowns

/// What the daemon can be told in its configuration files; as made, every setting has its default.
///
/// `Settings.swift` names each setting and says what is allowed; `config/countdownd.yaml` explains
/// them to the operator.
package struct Configuration: Equatable, Sendable {
  package var socket = Socket()
  /// Where the state is kept over restarts.
  package var stateDirectory = "/var/lib/countdownd"
  package var durability = Durability.process
  package var events = Events()
  package var log = Log()
  package var logLevel = LogLevel.info
  package var access = Access()
  package var countdown = Countdown()
  /// What COUNTDOWN START POLICY can name.
  package var policies: [String: SendPolicy] = [:]
  package var hud = HUD()
  package var gate = Gate()
  package var nav = Navigation()
  package var page = Page()
  package var fleet = Fleet()
  package var limits = Limits()
  package var slowlog = SlowLog()

  package init() {}

  /// The socket the daemon makes when systemd passes none.
  package struct Socket: Equatable, Sendable {
    package var path = "/run/countdownd/countdownd.sock"
    /// Permission bits.
    package var mode: UInt32 = 0o660
  }

  /// Whom the daemon serves. Root, and the user that it runs as, it always does.
  package struct Access: Equatable, Sendable {
    /// Nobody: everybody whom the socket lets in.
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
    /// Nothing is kept.
    case none
    /// They survive the end of the process, `kill -9` included.
    case process
    /// They survive a power failure.
    case power
  }

  /// The event log, for clients that were disconnected.
  package struct Events: Equatable, Sendable {
    /// How many events, the newest.
    package var keep = 100_000
  }

  /// The log of changes, in the state directory.
  package struct Log: Equatable, Sendable {
    /// Of a segment, in bytes. Two of them are reserved on the disk.
    package var segmentSize = 16_777_216
  }

  /// The names are those of swift-log.
  package enum LogLevel: String, CaseIterable, Equatable, Sendable {
    case trace
    case debug
    case info
    case notice
    case warning
    case error
    case critical
  }

  /// What COUNTDOWN START takes when it is not told.
  package struct Countdown: Equatable, Sendable {
    package var count = 60
    package var every = Duration.seconds(1)
    /// How long a ready key is remembered.
    package var keepReady = Duration.seconds(600)
  }

  /// What HUD SHOW takes when it is not told.
  package struct HUD: Equatable, Sendable {
    package var grace = Duration.zero
    package var min = Duration.zero
    package var fadeIn = Duration.milliseconds(150)
    package var fadeOut = Duration.milliseconds(150)
    /// The shortest that info, success and error are shown, unless SHOW says MIN.
    package var messageMin = Duration.seconds(5)
    /// The highest level on screens that `screens` does not list.
    package var maxLevel = Level.normal
    /// What is different on some screens, by the screen's key.
    package var screens: [String: Screen] = [:]
    package var blocking = Blocking()
  }

  /// What GATE CHECK takes when it is not told.
  package struct Gate: Equatable, Sendable {
    /// How long an action waits for its session to open.
    package var keepPending = Duration.seconds(600)
  }

  /// Lowest first.
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
    /// What covers the screen meanwhile.
    package var mask = Mask.custom
  }

  package enum Mask: String, CaseIterable, Equatable, Sendable {
    case none, clear, black, gradient, custom
  }

  /// What NAV SWIPE takes when it is not told.
  package struct Navigation: Equatable, Sendable {
    /// A swipe back is cancelled after this time without progress.
    package var swipeTimeout = Duration.seconds(10)
  }

  /// What PAGE APPEAR takes when it is not told.
  package struct Page: Equatable, Sendable {
    /// How long a load may take; zero: forever.
    package var timeout = Duration.seconds(30)
  }

  /// What is shared with daemons on other hosts, and how.
  package struct Fleet: Equatable, Sendable {
    package enum Engine: String, CaseIterable, Sendable { case none, redis }

    package var engine = Engine.none
    package var settings = FleetSettings()
    /// How long a command waits for the servers, and how far a clock may be off.
    package var timeout = Duration.milliseconds(250)
    package var maxClockSkew = Duration.milliseconds(500)
    /// Files; empty: none.
    package var username = ""
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
    /// How many are kept, the newest.
    package var length = 128
  }
}
