/// What the configuration decides for the engine.
package struct EngineSettings: Sendable {
  package struct Limits: Equatable, Sendable {
    package var entities = 20_000_000
    package var entitiesPerUser = 10_000_000
    /// Bytes of the keys of all countdowns. Not in the configuration: it is what can be addressed.
    package var keyMemory = KeyArena.mostBytes
    /// Channels and patterns of one connection.
    package var subscriptions = 100_000
    /// Patterns of all connections of a user: each event of everybody is compared with them.
    package var patternsPerUser = 1_000
    /// Bytes of a payload or a result of a guard.
    package var payloadLength = 4_096
    /// How many scopes there may be one below the other.
    package var scopeDepth = 10_000
    /// Scopes right below one.
    package var scopeChildren = 1_000_000
    /// Events that are handled at one scope, by all connections together.
    package var scopeHandlers = 1_000
    /// Pages of one navigation stack.
    package var stackPages = 1_000

    package init() {}
  }

  package var limits = Limits()

  /// A countdown that START says nothing about: 60 steps of a second.
  package var countdownCount: UInt32 = 60
  package var countdownEvery = Interval.seconds(1)
  /// How long a ready countdown is remembered, for RESEND, TOKEN and GET.
  package var keepReady = Interval.seconds(600)
  /// What START POLICY can name.
  package var policies: [String: SendPolicy] = [:]

  /// How long an action waits for its session to open.
  package var keepPending = Interval.seconds(600)

  /// A HUD that SHOW says nothing about.
  package var presentation = Presentation.Request()
  package var maximumLevel = Level.normal
  package var maximumLevelOfScreen: [[UInt8]: Level] = [:]
  package var blocking = BlockingRules()

  /// A swipe back is cancelled after this time without progress.
  package var swipeTimeout = Interval.seconds(10)

  /// A load fails if it takes longer than this; nil: it may take forever.
  package var pageTimeout: Interval? = Interval.seconds(30)

  /// How many events the event log keeps, for clients that were disconnected. Fixed at the start.
  package var eventsKept = 100_000

  /// The first generation and the first sequence number: beyond all that were given before.
  package var firstGeneration: Int64 = 1

  package init() {}

  package func maximumLevel(of screen: [UInt8]) -> Level {
    maximumLevelOfScreen[screen] ?? maximumLevel
  }
}

/// The present, on both clocks.
package struct Moment: Equatable, Sendable {
  /// Runs on while the machine sleeps; nobody can set it. Deadlines are on this clock.
  package var boot: Instant
  /// Since 1970; can be set, forwards and back.
  package var wall: Instant

  package init(boot: Instant, wall: Instant) {
    self.boot = boot
    self.wall = wall
  }

  /// In milliseconds since 1970, rounded down.
  var unixMilliseconds: Int64 { wall.microseconds / 1_000 }

  /// What is left until a moment of the boot clock, rounded up; 0 if it has passed.
  func milliseconds(until deadline: Instant) -> Int64 {
    max(deadline - boot, .zero).millisecondsRoundedUp
  }

  /// A moment of the boot clock in milliseconds since 1970.
  ///
  /// A moment to come is rounded up, so that a client that waits for it is not early. One that has
  /// come is rounded down, so that it is never later than `now_unix_ms`.
  func unixMilliseconds(of moment: Instant) -> Int64 {
    unixMilliseconds(ofWall: wall + (moment - boot))
  }

  /// The same for a moment of the wall clock.
  func unixMilliseconds(ofWall moment: Instant) -> Int64 {
    moment > wall ? moment.millisecondsRoundedUp : moment.microseconds / 1_000
  }
}

extension Instant {
  /// Whole milliseconds since the clock began, rounded up.
  package var millisecondsRoundedUp: Int64 { (microseconds + 999) / 1_000 }
}

/// Who asks: the connection, and the user it belongs to.
package struct Client: Equatable, Sendable {
  package var connection: UInt64
  package var uid: UInt32

  package init(connection: UInt64, uid: UInt32) {
    self.connection = connection
    self.uid = uid
  }
}

/// A call that cannot be done as it was said. It has changed nothing.
package enum EngineError: Error, Equatable {
  case notFound
  /// It has another generation by now.
  case stale(now: Generation)
  case limit(name: String, value: Int)
  /// Where nothing counts there is nothing to pause, resume or retime.
  case isReady
  /// Only a countdown with a policy has codes.
  case noPolicy
  /// The policy says nothing of how long a code is good, so there are none to be tried.
  case noCodes(policy: String)
  case levelNotAllowed(Level, maximum: Level)
  /// A HUD has as many holds as it can have.
  case tooManyHolds
  /// It would be lost if the daemon ended now, as it cannot be stored.
  case readOnly
  case scope(ScopeProblem)
  /// It belongs to one host, and what it is about to several.
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
