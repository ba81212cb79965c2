/// A row of the table of settings: a name, the allowed values, and a place in `Configuration`.
struct Setting: Sendable {
  /// The keys from the top of the file down, joined by dots.
  let name: String
  let read: @Sendable (inout Configuration, ValueReader) -> Void
  /// Names and values for CONFIG GET; several where the operator chooses the names.
  let list: @Sendable (Configuration) -> [(name: String, value: String)]

  init<Value>(
    _ name: String, _ path: any WritableKeyPath<Configuration, Value> & Sendable,
    _ kind: Kind<Value>
  ) {
    self.name = name
    read = { kind.read(&$0[keyPath: path], $1) }
    list = { configuration in
      kind.list(configuration[keyPath: path]).map { (name + $0.suffix, $0.value) }
    }
  }

  /// All settings, in the order of `config/countdownd.yaml`.
  ///
  /// The lower bounds only exclude values that cannot work; a low limit is the operator's choice.
  static let all: [Setting] = [
    Setting("socket.path", \.socket.path, .socketPath),
    Setting("socket.mode", \.socket.mode, .fileMode),
    Setting("state-directory", \.stateDirectory, .absolutePath),
    Setting("durability", \.durability, .choice()),
    Setting("events.keep", \.events.keep, .count(0...100_000_000)),
    Setting("log.segment-size", \.log.segmentSize, .bytes(65_536...1 << 30)),
    Setting("log-level", \.logLevel, .choice()),

    Setting("access.connect.users", \.access.connect.users, .users),
    Setting("access.connect.groups", \.access.connect.groups, .groups),
    Setting("access.admin.users", \.access.admin.users, .users),
    Setting("access.admin.groups", \.access.admin.groups, .groups),

    Setting("countdown.count", \.countdown.count, .count(1...2_147_483_647)),
    Setting("countdown.every", \.countdown.every, .duration(from: 1)),
    Setting("countdown.keep-ready", \.countdown.keepReady, .duration()),

    Setting("policies", \.policies, .policies),

    Setting("hud.grace", \.hud.grace, .duration()),
    Setting("hud.min", \.hud.min, .duration()),
    Setting("hud.fade-in", \.hud.fadeIn, .duration()),
    Setting("hud.fade-out", \.hud.fadeOut, .duration()),
    Setting("hud.message-min", \.hud.messageMin, .duration()),
    Setting("hud.max-level", \.hud.maxLevel, .choice()),
    Setting("hud.screens", \.hud.screens, .screens),
    Setting("hud.blocking.paths", \.hud.blocking.paths, .paths),
    Setting("hud.blocking.verbs", \.hud.blocking.verbs, .words),
    Setting("hud.blocking.mask", \.hud.blocking.mask, .choice()),

    Setting("gate.keep-pending", \.gate.keepPending, .duration(from: 1)),

    Setting("nav.swipe-timeout", \.nav.swipeTimeout, .duration(from: 1)),

    Setting("page.timeout", \.page.timeout, .duration()),

    Setting("fleet.engine", \.fleet.engine, .choice()),
    Setting("fleet.name", \.fleet.settings.name, .fleetName),
    Setting("fleet.nodes", \.fleet.settings.nodes, .nodes),
    Setting("fleet.discovery", \.fleet.settings.discovery, .choice()),
    Setting("fleet.sentinel-name", \.fleet.settings.sentinelName, .fleetName),
    Setting("fleet.username", \.fleet.username, .username),
    Setting("fleet.password-file", \.fleet.passwordFile, .optionalPath),
    Setting("fleet.tls.enabled", \.fleet.tls.enabled, .choice()),
    Setting("fleet.tls.authorities", \.fleet.tls.authorities, .optionalPath),
    Setting("fleet.tls.certificate", \.fleet.tls.certificate, .optionalPath),
    Setting("fleet.tls.key", \.fleet.tls.key, .optionalPath),
    Setting("fleet.kinds", \.fleet.settings.kinds, .sharedKinds),
    Setting("fleet.partitions", \.fleet.settings.partitions, .count(1...1_024)),
    Setting("fleet.replicas", \.fleet.settings.replicas, .count(0...5)),
    Setting("fleet.timeout", \.fleet.timeout, .duration(from: 10)),
    Setting("fleet.unreachable", \.fleet.settings.unreachable, .choice()),
    Setting("fleet.reads", \.fleet.settings.reads, .choice()),
    Setting("fleet.max-clock-skew", \.fleet.maxClockSkew, .duration(from: 1)),

    Setting("limits.max-bulk-length", \.limits.maxBulkLength, .bytes(64...512 << 20)),
    Setting("limits.max-inline-length", \.limits.maxInlineLength, .bytes(64...512 << 20)),
    Setting("limits.max-arguments", \.limits.maxArguments, .count(8...1 << 20)),
    Setting("limits.max-request-length", \.limits.maxRequestLength, .bytes(64...1 << 30)),
    Setting("limits.max-commands-per-turn", \.limits.maxCommandsPerTurn, .count(1...1 << 20)),
    Setting("limits.max-output", \.limits.maxOutput, .bytes(1024...1 << 30)),
    Setting("limits.max-output-per-uid", \.limits.maxOutputPerUID, .bytes(1024...1 << 40)),
    Setting("limits.max-connections", \.limits.maxConnections, .count(1...1_000_000)),
    Setting(
      "limits.max-connections-per-uid", \.limits.maxConnectionsPerUID, .count(1...1_000_000)),
    // A table has 2²⁷ places, for entities and for those that have ended but are still stored.
    Setting("limits.max-entities", \.limits.maxEntities, .count(1...67_000_000)),
    Setting("limits.max-entities-per-uid", \.limits.maxEntitiesPerUID, .count(1...67_000_000)),
    Setting("limits.max-subscriptions", \.limits.maxSubscriptions, .count(1...10_000_000)),
    Setting("limits.max-patterns-per-uid", \.limits.maxPatternsPerUID, .count(1...1_000_000)),
    Setting("limits.max-payload-length", \.limits.maxPayloadLength, .bytes(0...1 << 20)),
    Setting("limits.max-scope-depth", \.limits.maxScopeDepth, .count(1...1_000_000)),
    Setting("limits.max-scope-children", \.limits.maxScopeChildren, .count(1...100_000_000)),
    Setting("limits.max-scope-handlers", \.limits.maxScopeHandlers, .count(1...1_000_000)),
    Setting("limits.max-stack-pages", \.limits.maxStackPages, .count(1...100_000)),

    Setting("slowlog.threshold", \.slowlog.threshold, .duration()),
    Setting("slowlog.length", \.slowlog.length, .count(0...1_000_000)),
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
