import CountdownStore
import Countdowns

/// A row of the table of settings: a name, the allowed values, and a place in `Configuration`.
struct Setting: Sendable {
  /// The keys from the top of the file down, joined by dots.
  let name: String
  let read: @Sendable (inout Configuration, ValueReader) -> Void
  /// Names and values for CONFIG GET; several where the operator chooses the names.
  let list: @Sendable (Configuration) -> [(name: String, value: String)]
  /// Takes the setting from another configuration.
  let copy: @Sendable (inout Configuration, Configuration) -> Void

  init<Value>(
    _ name: String, _ path: any WritableKeyPath<Configuration, Value> & Sendable,
    _ type: SettingType<Value>
  ) {
    self.name = name
    read = { type.read(&$0[keyPath: path], $1) }
    list = { configuration in
      type.list(configuration[keyPath: path]).map { (name + $0.suffix, $0.value) }
    }
    copy = { $0[keyPath: path] = $1[keyPath: path] }
  }

  /// Whether it takes effect at a start only.
  var needsRestart: Bool {
    name.hasPrefix("socket.") || name.hasPrefix("fleet.")
      || ["state-directory", "durability", "events.keep", "log.segment-size"].contains(name)
  }

  /// All settings, in the order of `config/countdownd.yaml`.
  ///
  /// The lower bounds only exclude values that cannot work; a low limit is the operator's choice.
  static let all: [Setting] = [
    Setting("socket.path", \.socket.path, .socketPath),
    Setting("socket.mode", \.socket.mode, .fileMode),
    Setting("state-directory", \.stateDirectory, .absolutePath),
    Setting("durability", \.durability, .choice()),
    Setting("events.keep", \.engine.eventsKept, .count(0...100_000_000)),
    Setting("log.segment-size", \.segmentSize, .bytes(65_536...1 << 30)),
    Setting("log-level", \.logLevel, .choice()),

    Setting("access.connect.users", \.access.connect.users, .users),
    Setting("access.connect.groups", \.access.connect.groups, .groups),
    Setting("access.admin.users", \.access.admin.users, .users),
    Setting("access.admin.groups", \.access.admin.groups, .groups),

    Setting("countdown.count", \.engine.countdownCount, .count(1...2_147_483_647)),
    Setting("countdown.every", \.engine.countdownEvery, .duration(from: 1)),
    Setting("countdown.keep-ready", \.engine.keepReady, .duration()),

    Setting("policies", \.engine.policies, .policies),

    Setting("hud.grace", \.engine.presentation.grace, .duration()),
    Setting("hud.min", \.engine.presentation.minimum, .duration()),
    Setting("hud.fade-in", \.engine.presentation.fadeIn, .duration()),
    Setting("hud.fade-out", \.engine.presentation.fadeOut, .duration()),
    Setting("hud.message-min", \.engine.presentation.messageMinimum, .duration()),
    Setting("hud.max-level", \.engine.maximumLevel, .choice()),
    Setting("hud.screens", \.engine.maximumLevelOfScreen, .screens),
    Setting("hud.blocking.paths", \.engine.blocking.paths, .paths),
    Setting("hud.blocking.verbs", \.engine.blocking.verbs, .words),
    Setting("hud.blocking.mask", \.engine.blocking.mask, .choice()),

    Setting("gate.keep-pending", \.engine.keepPending, .duration(from: 1)),

    Setting("nav.swipe-timeout", \.engine.swipeTimeout, .duration(from: 1)),

    Setting("page.timeout", \.engine.pageTimeout, .timeout),

    Setting("fleet.engine", \.fleet.engine, .choice()),
    Setting("fleet.name", \.fleet.settings.name, .fleetName),
    Setting("fleet.nodes", \.fleet.settings.nodes, .nodes),
    Setting("fleet.discovery", \.fleet.settings.discovery, .choice()),
    Setting("fleet.sentinel-name", \.fleet.settings.sentinelName, .fleetName),
    Setting("fleet.username", \.fleet.settings.username, .username),
    Setting("fleet.password-file", \.fleet.settings.passwordFile, .optionalPath),
    Setting("fleet.tls.enabled", \.fleet.settings.tls.isEnabled, .noOrYes),
    Setting("fleet.tls.authorities", \.fleet.settings.tls.authorities, .optionalPath),
    Setting("fleet.tls.certificate", \.fleet.settings.tls.certificate, .optionalPath),
    Setting("fleet.tls.key", \.fleet.settings.tls.key, .optionalPath),
    Setting("fleet.kinds", \.fleet.settings.kinds, .sharedKinds),
    Setting("fleet.partitions", \.fleet.settings.partitions, .count(1...1_024)),
    Setting("fleet.replicas", \.fleet.settings.replicas, .replicas),
    Setting("fleet.replica-grace", \.fleet.settings.replicaGrace, .duration(from: 1_000)),
    Setting("fleet.durability", \.fleet.settings.durability, .choice()),
    Setting("fleet.timeout", \.fleet.settings.timeout, .duration(from: 10)),
    Setting("fleet.unreachable", \.fleet.settings.unreachable, .choice()),
    Setting("fleet.reads", \.fleet.settings.reads, .choice()),
    Setting("fleet.max-clock-skew", \.fleet.settings.maximumClockSkew, .duration(from: 1)),

    Setting("limits.max-bulk-length", \.request.bulkLength, .bytes(64...512 << 20)),
    Setting("limits.max-inline-length", \.request.inlineLength, .bytes(64...512 << 20)),
    Setting("limits.max-arguments", \.request.arguments, .count(8...1 << 20)),
    Setting("limits.max-request-length", \.request.requestLength, .bytes(64...1 << 30)),
    Setting("limits.max-commands-per-turn", \.connections.commandsPerTurn, .count(1...1 << 20)),
    Setting("limits.max-output", \.dispatcher.maxOutput, .bytes(1024...1 << 30)),
    Setting("limits.max-output-per-uid", \.dispatcher.maxOutputPerUser, .bytes(1024...1 << 40)),
    Setting("limits.max-connections", \.connections.all, .count(1...1_000_000)),
    Setting(
      "limits.max-connections-per-uid", \.connections.perUser, .count(1...1_000_000)),
    // A table has 2²⁷ places, for entities and for those that have ended but are still stored.
    Setting("limits.max-entities", \.engine.limits.entities, .count(1...67_000_000)),
    Setting("limits.max-entities-per-uid", \.engine.limits.entitiesPerUser, .count(1...67_000_000)),
    Setting("limits.max-subscriptions", \.engine.limits.subscriptions, .count(1...10_000_000)),
    Setting("limits.max-patterns-per-uid", \.engine.limits.patternsPerUser, .count(1...1_000_000)),
    Setting("limits.max-payload-length", \.engine.limits.payloadLength, .bytes(0...1 << 20)),
    Setting("limits.max-result-length", \.engine.limits.resultLength, .bytes(0...1 << 20)),
    Setting("limits.max-scope-depth", \.engine.limits.scopeDepth, .count(1...1_000_000)),
    Setting("limits.max-scope-children", \.engine.limits.scopeChildren, .count(1...100_000_000)),
    Setting("limits.max-scope-handlers", \.engine.limits.scopeHandlers, .count(1...1_000_000)),
    Setting("limits.max-stack-pages", \.engine.limits.stackPages, .count(1...100_000)),

    Setting("slowlog.threshold", \.dispatcher.slowCommand, .duration()),
    Setting("slowlog.length", \.dispatcher.slowLogLength, .count(0...1_000_000)),
  ]

  static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

  /// Returns the keys that `section` may have ("" is the top of the file), in the table's order;
  /// none if there is no such section.
  static func keys(in section: String) -> [String] {
    let prefix = section.isEmpty ? "" : section + "."
    var keys: [String] = []
    for setting in all where setting.name.hasPrefix(prefix) {
      let key = String(setting.name.dropFirst(prefix.count).prefix { $0 != "." })
      if keys.last != key { keys.append(key) }
    }
    return keys
  }
}

extension Configuration {
  /// All settings in force by full name, as CONFIG GET shows them: lengths in bytes, durations in
  /// their largest whole unit, lists joined by commas.
  package var settings: [(name: String, value: String)] {
    Setting.all.flatMap { $0.list(self) }
  }
}
