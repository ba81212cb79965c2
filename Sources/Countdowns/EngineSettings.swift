import Memory

/// The engine's part of the configuration.
package struct EngineSettings: Equatable, Sendable {
  package struct Limits: Equatable, Sendable {
    package var entities = 20_000_000
    package var entitiesPerUser = 10_000_000
    /// Bytes of resident memory beyond which no entities are added; 0 for no limit.
    package var memory = 0
    /// Bytes of the keys of all countdowns: as many as an arena can address. Not configurable.
    package var keyMemory = KeyArena.maximumBytes
    /// Channels and patterns of one connection.
    package var subscriptions = 100_000
    /// Patterns of all connections of a user. Each event of any user is compared with all of them.
    package var patternsPerUser = 1_000
    /// Bytes of a payload.
    package var payloadLength = 4_096
    /// Bytes of the result of an idempotency key.
    package var resultLength = 65_536
    /// The depth of a tree of scopes.
    package var scopeDepth = 10_000
    /// Direct children of one scope.
    package var scopeChildren = 1_000_000
    /// Events handled at one scope, summed over all connections.
    package var scopeHandlers = 1_000
    /// Pages of one navigation stack.
    package var stackPages = 1_000

    package init() {}
  }

  package var limits = Limits()

  /// The defaults of COUNTDOWN START: 60 steps of one second.
  package var countdownCount: UInt32 = 60
  package var countdownEvery = Interval.seconds(1)
  /// How long a ready countdown is retained, for RESEND, TOKEN and GET.
  package var keepReady = Interval.seconds(600)
  /// The policies that START POLICY can name.
  package var policies: [String: SendPolicy] = [:] {
    didSet { isShadowed = policies.values.contains { $0.shadow != nil } }
  }
  private var isShadowed = false
  /// Whether any policy has a shadow.
  package var hasShadows: Bool { isShadowed }
  /// The limits that policies and THROTTLE TAKE can name.
  package var throttles: [String: LimitRules] = [:]

  /// How long an action waits for its session to open.
  package var keepPending = Interval.seconds(600)

  /// The defaults of HUD SHOW.
  package var presentation = Presentation.Request()
  /// How long a POP that overtook its SHOW is remembered; 0 for not at all.
  package var hudReorder = Interval.zero
  package var maximumLevel = Level.normal
  package var maximumLevelOfScreen: [[UInt8]: Level] = [:]
  package var blocking = BlockingRules()

  /// A swipe back is cancelled after this time without progress.
  package var swipeTimeout = Interval.seconds(10)

  /// The longest time that a load may take before it fails; nil: no limit.
  package var pageTimeout: Interval? = Interval.seconds(30)

  /// How many events the event log keeps, for clients that were disconnected. Fixed at the start.
  package var eventsKept = 100_000
  /// The most bytes of the event log. Fixed at the start.
  package var eventBytes = 64 << 20
  /// Whether each user has a share of the event log. Fixed at the start.
  var eventsHaveUsers = true

  /// The first generation and sequence number: higher than all numbers of earlier runs.
  package var firstGeneration: Int64 = 1

  package init() {}

  package func maximumLevel(of screen: [UInt8]) -> Level {
    maximumLevelOfScreen[screen] ?? maximumLevel
  }
}

/// The current time on both clocks.
package struct Moment: Equatable, Sendable {
  /// The boot clock runs on while the machine sleeps; nobody can set it. Deadlines are on it.
  package var boot: Instant
  /// The wall clock counts from 1970. It can be set, forwards and back.
  package var wall: Instant

  package init(boot: Instant, wall: Instant) {
    self.boot = boot
    self.wall = wall
  }

  static let zero = Moment(boot: .zero, wall: .zero)

  /// The wall clock in milliseconds since 1970, rounded down.
  var unixMilliseconds: Int64 { wall.microseconds / 1_000 }

  /// Returns the time left until a moment of the boot clock, rounded up; 0 if it has passed.
  func milliseconds(until deadline: Instant) -> Int64 {
    max(deadline - boot, .zero).millisecondsRoundedUp
  }

  /// Converts a moment of the boot clock to milliseconds since 1970.
  ///
  /// A future moment is rounded up, so that a client that waits for it is not early. A past one is
  /// rounded down, so that it is never later than `now_unix_ms`.
  func unixMilliseconds(of moment: Instant) -> Int64 {
    unixMilliseconds(ofWall: wall + (moment - boot))
  }

  /// Converts a moment of the wall clock, rounded in the same way.
  func unixMilliseconds(ofWall moment: Instant) -> Int64 {
    moment > wall ? moment.millisecondsRoundedUp : moment.microseconds / 1_000
  }
}

extension Instant {
  /// Whole milliseconds since the clock began, rounded up.
  package var millisecondsRoundedUp: Int64 { (microseconds + 999) / 1_000 }
}

/// The sender of a command: a connection, and the user it belongs to.
package struct Client: Equatable, Sendable {
  package var connection: UInt64
  package var uid: UInt32

  package init(connection: UInt64, uid: UInt32) {
    self.connection = connection
    self.uid = uid
  }
}

/// An error of a call of the engine. The call has changed nothing.
package enum EngineError: Error, Equatable {
  /// The token was accepted with another request.
  case tokenOfAnother
  case notFound
  /// The entity has another generation by now.
  case stale(now: Generation)
  case limit(name: String, value: Int)
  /// The countdown is not counting, so it cannot be paused, resumed or retimed.
  case isReady
  /// Only a countdown with a policy has codes.
  case noPolicy
  /// The policy sets no validity, so the countdown has no codes to try.
  case noCodes(policy: String)
  /// The codes were tried at once, so nobody knows which one a PASS is about.
  case needsGeneration
  /// Work with a lease is named by its generation, as its successor has the same key.
  case leaseNeedsGeneration
  /// The work was begun without LEASE.
  case noLease
  case levelNotAllowed(Level, maximum: Level)
  /// The HUD has the maximum number of holds.
  case tooManyHolds
  /// The change cannot be stored at present: it would be lost if the daemon ended now.
  case readOnly
  case scope(ScopeProblem)
  /// The limits that a request names are not those that it needs.
  case limits(LimitProblem)
  /// The command needs something of one host, such as a connection, but the entity is shared.
  case shared
}

extension EngineSettings {
  var defaultPlan: Countdown.Plan {
    guard let plan = Countdown.Plan(count: countdownCount, every: countdownEvery) else {
      preconditionFailure("the configuration allows no such countdown")
    }
    return plan
  }
}
