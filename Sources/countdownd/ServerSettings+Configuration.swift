import CountdownConfiguration
import CountdownServer
import CountdownStore
import Countdowns
import Glibc

extension ServerSettings {
  /// Converts the configuration to settings of the server.
  init(_ configuration: Configuration, listener: Listener) {
    self.init(listener: listener)
    let limits = configuration.limits
    request.bulkLength = limits.maxBulkLength
    request.inlineLength = limits.maxInlineLength
    request.arguments = limits.maxArguments
    request.requestLength = limits.maxRequestLength
    commandsPerTurn = limits.maxCommandsPerTurn
    connections = limits.maxConnections
    connectionsPerUser = limits.maxConnectionsPerUID
    dispatcher.maxOutput = limits.maxOutput
    dispatcher.maxOutputPerUser = limits.maxOutputPerUID
    dispatcher.access = AccessRules(
      connect: Principals(configuration.access.connect),
      admin: Principals(configuration.access.admin), daemonUser: geteuid())
    dispatcher.slowCommand = Interval(configuration.slowlog.threshold).microseconds
    dispatcher.slowLogLength = configuration.slowlog.length

    engine.limits.entities = limits.maxEntities
    engine.limits.entitiesPerUser = limits.maxEntitiesPerUID
    engine.limits.subscriptions = limits.maxSubscriptions
    engine.limits.patternsPerUser = limits.maxPatternsPerUID
    engine.limits.payloadLength = limits.maxPayloadLength
    engine.limits.scopeDepth = limits.maxScopeDepth
    engine.limits.scopeChildren = limits.maxScopeChildren
    engine.limits.scopeHandlers = limits.maxScopeHandlers
    engine.limits.stackPages = limits.maxStackPages
    let pageTimeout = Interval(configuration.page.timeout)
    engine.pageTimeout = pageTimeout == .zero ? nil : pageTimeout
    engine.swipeTimeout = Interval(configuration.nav.swipeTimeout)
    engine.countdownCount = UInt32(clamping: configuration.countdown.count)
    engine.countdownEvery = Interval(configuration.countdown.every)
    engine.keepReady = Interval(configuration.countdown.keepReady)

    engine.keepPending = Interval(configuration.gate.keepPending)
    engine.eventsKept = configuration.events.keep
    engine.policies = configuration.policies

    let hud = configuration.hud
    engine.presentation.grace = Interval(hud.grace)
    engine.presentation.minimum = Interval(hud.min)
    engine.presentation.fadeIn = Interval(hud.fadeIn)
    engine.presentation.fadeOut = Interval(hud.fadeOut)
    engine.presentation.messageMinimum = Interval(hud.messageMin)
    engine.maximumLevel = Level(hud.maxLevel)
    engine.maximumLevelOfScreen = Dictionary(
      uniqueKeysWithValues: hud.screens.map { (Array($0.key.utf8), Level($0.value.maxLevel)) })
    engine.blocking = BlockingRules(
      paths: hud.blocking.paths, verbs: hud.blocking.verbs, mask: .init(hud.blocking.mask))
    shown = configuration.settings
    state = Store.Options(configuration)
    fleet = FleetSettings(configuration.fleet)
  }
}

extension FleetSettings {
  /// Nil if no fleet is configured.
  fileprivate init?(_ configuration: Configuration.Fleet) {
    guard configuration.engine == .redis else { return nil }
    self = configuration.settings
    timeout = Interval(configuration.timeout)
    maximumClockSkew = Interval(configuration.maxClockSkew)
    func text(_ text: String) -> String? { text.isEmpty ? nil : text }
    username = text(configuration.username)
    passwordFile = text(configuration.passwordFile)
    guard configuration.tls.enabled == .yes else { return }
    var tls = TLS()
    tls.authorities = text(configuration.tls.authorities)
    tls.certificate = text(configuration.tls.certificate)
    tls.key = text(configuration.tls.key)
    self.tls = tls
  }
}

extension Principals {
  fileprivate init(_ named: Configuration.Access.Principals) {
    self.init(users: Set(named.users.map(\.id)), groups: Set(named.groups.map(\.id)))
  }
}

extension Store.Options {
  /// Nil if nothing is persisted.
  fileprivate init?(_ configuration: Configuration) {
    let durability: Durability
    switch configuration.durability {
    case .none: return nil
    case .process: durability = .process
    case .power: durability = .power
    }
    self.init(
      directory: configuration.stateDirectory, durability: durability,
      product: "\(Product.name) \(Product.version)")
    eventLimit = configuration.events.keep
    segmentSize = configuration.log.segmentSize
  }
}

extension Interval {
  /// Rounds up to a microsecond. The configuration allows no duration that would overflow.
  fileprivate init(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    self.init(
      microseconds: seconds * 1_000_000 + (attoseconds + 999_999_999_999) / 1_000_000_000_000)
  }
}

extension Presentation.Mask {
  fileprivate init(_ mask: Configuration.Mask) {
    switch mask {
    case .none: self = .none
    case .clear: self = .clear
    case .black: self = .black
    case .gradient: self = .gradient
    case .custom: self = .custom
    }
  }
}

extension Level {
  fileprivate init(_ level: Configuration.Level) {
    switch level {
    case .normal: self = .normal
    case .statusbar: self = .statusbar
    case .alert: self = .alert
    }
  }
}
