import CountdownStore
import Countdowns
import Wire

/// What `access.admin` is for.
private let admin = {
  let names = CommandTable.all.adminNames
  return "Who may use " + names.dropLast().joined(separator: ", ") + " and \(names.last!)."
}()

/// A row of a table of settings: a name, the allowed values, and a place in what the table is for.
struct Setting<Whole: Sendable>: Sendable {
  /// The keys from the top of the file down, joined by dots.
  let name: String
  /// What it is for; `make docs` writes it into `config/countdownd.yaml`.
  let help: String
  /// Whether it takes effect at a start only, so that a reload keeps the old value.
  let needsRestart: Bool
  /// Its JSON Schema.
  let schema: [RESPValue.Pair]
  let read: @Sendable (inout Whole, ValueReader) -> Void
  /// Names and values for CONFIG GET; several where the operator chooses the names.
  let list: @Sendable (Whole) -> [(name: String, value: String)]
  /// Takes the setting from another configuration.
  let copy: @Sendable (inout Whole, Whole) -> Void

  init<Value>(
    _ name: String, _ path: any WritableKeyPath<Whole, Value> & Sendable,
    _ type: SettingType<Value>, _ help: String = "", needsRestart: Bool = false
  ) {
    self.name = name
    self.help = help
    self.needsRestart = needsRestart
    schema = type.schema
    read = { whole, reader in
      if let value = type.read(whole[keyPath: path], reader) { whole[keyPath: path] = value }
    }
    list = { whole in
      type.list(whole[keyPath: path]).map { (name + $0.suffix, $0.value) }
    }
    copy = { $0[keyPath: path] = $1[keyPath: path] }
  }

  /// A setting that may be absent.
  init<Value>(
    _ name: String, _ path: any WritableKeyPath<Whole, Value?> & Sendable,
    optional type: SettingType<Value>
  ) {
    self.init(name, path, type.optional)
  }
}

extension Setting where Whole == Configuration {
  /// A setting that takes effect at a start only.
  private init<Value>(
    atStart name: String, _ path: any WritableKeyPath<Whole, Value> & Sendable,
    _ type: SettingType<Value>, _ help: String
  ) {
    self.init(name, path, type, help, needsRestart: true)
  }

  /// All settings, in the order of `config/countdownd.yaml`.
  ///
  /// The lower bounds only exclude values that cannot work; a low limit is the operator's choice.
  static let all: [Setting] = [
    Setting(
      atStart: "socket.path", \.socket.path, .socketPath,
      "An absolute path of at most 107 bytes."),
    Setting(
      atStart: "socket.mode", \.socket.mode, .fileMode,
      "Permissions in octal. Whoever may connect may use the daemon."),
    Setting(
      atStart: "state-directory", \.stateDirectory, .absolutePath,
      "The directory for the state that survives restarts; an absolute path."),
    Setting(
      atStart: "durability", \.durability, .choice(),
      "What an acknowledged change survives: process (restarts and kill -9), power (power "
        + "failures too; each reply waits for the disk) or none (nothing: the state is in "
        + "memory only)."),
    Setting(
      "on-damage", \.dispatcher.onDamage, .choice(),
      "What happens while damage to the state is not acknowledged (`countdownctl state "
        + "acknowledge`): continue (with what can be read: sends and keys that are lost are "
        + "allowed again) or refuse (all that decides anything is answered with DAMAGED)."),
    Setting(
      atStart: "events.keep", \.engine.eventsKept, .count(0...100_000_000),
      "How many events the event log retains for EVENTS SINCE. Each takes about 60 bytes of "
        + "memory, and of disk if state is stored. Beyond it, the user with the most loses the "
        + "oldest."),
    Setting(
      atStart: "events.max-bytes", \.engine.eventBytes, .bytes(1 << 20...1 << 36),
      "The most bytes of the event log in memory, and of the stored one on disk. Beyond it, the "
        + "user with the most loses the oldest events, and EVENTS SINCE reports that."),
    Setting(
      atStart: "log.segment-size", \.segmentSize, .bytes(65_536...1 << 30),
      "The size of a segment of the log of changes. Two segments are reserved on disk."),
    Setting(
      "log-level", \.logLevel, .choice(),
      "The least severe messages that are logged: trace, debug, info, notice, warning, "
        + "error or critical. `countdownctl log-level` sets it until the next reload."),
    Setting(
      atStart: "log-format", \.logFormat, .choice(),
      "How lines of standard error look: text, or json (an object on each line, for "
        + "containers). Under systemd the journal has fields in any case."),

    Setting(
      "access.connect.users", \.access.connect.users, .users(),
      "Who may connect. Empty: everybody whom the permissions of the socket admit."),
    Setting(
      "access.connect.groups", \.access.connect.groups, .groups(),
      "Who may connect. Empty: everybody whom the permissions of the socket admit."),
    Setting(
      "access.admin.users", \.access.admin.users, .users(), admin),
    Setting(
      "access.admin.groups", \.access.admin.groups, .groups(), admin),

    Setting(
      "access.rules", \.access.rules, .keyRules,
      "Who may read and change which keys, by the name of the rule. Empty: everybody all. With "
        + "rules, what none of them allows is refused, except to root, the user that the daemon "
        + "runs as, and access.admin."),

    Setting(
      "countdown.count", \.engine.countdownCount, .count(1...2_147_483_647),
      "Number of steps; count times every is at most 3650d."),
    Setting(
      "countdown.every", \.engine.countdownEvery, .duration(from: 1),
      "Length of a step."),
    Setting(
      "countdown.keep-ready", \.engine.keepReady, .duration(),
      "How long a ready key is remembered for GET, RESEND and TOKEN."),

    Setting(
      "throttles", \.engine.throttles, .throttles,
      "Limits that policies and THROTTLE TAKE name, by the name of the limit."),
    Setting(
      "policies", \.engine.policies, .policies,
      "How often a verification code may be sent to a key, by the name of the policy."),

    Setting(
      "journal.size", \.journal.size, .bytes(1 << 20...1 << 40, orNone: true),
      "Keep the decisions about countdowns, rate limits and idempotency keys in so many bytes on the "
        + "disk, for `countdownctl journal` and `policy replay`; 0 keeps none."),
    Setting(
      "journal.entries", \.journal.entries, .count(1_000...1_000_000_000),
      "The most entries of the journal. The oldest eighth makes room."),
    Setting(
      "journal.keys", \.journal.keys, .choice(),
      "How the journal has keys: plain, or hmac (hashed with HMAC-SHA256, so that it names nobody)."
    ),
    Setting(
      "journal.secret-file", \.journal.secretFile, .optionalPath,
      "A file whose first line is the secret for hmac, such as a credential of systemd."),

    Setting(
      "hud.grace", \.engine.presentation.grace, .duration(),
      "Show a HUD only if the work takes longer than this."),
    Setting(
      "hud.min", \.engine.presentation.minimum, .duration(),
      "Show a HUD for at least this long, from did-appear."),
    Setting(
      "hud.fade-in", \.engine.presentation.fadeIn, .duration(),
      "How long the client's animations take."),
    Setting(
      "hud.fade-out", \.engine.presentation.fadeOut, .duration(),
      "How long the client's animations take."),
    Setting(
      "hud.message-min", \.engine.presentation.messageMinimum, .duration(),
      "The shortest display time of info, success and error; otherwise 0.06 s for each "
        + "character of the status plus 0.5 s."),
    Setting(
      "hud.reorder", \.engine.hudReorder, .duration(),
      "How long a POP with REQUEST that came before its SHOW, which another connection sent, is "
        + "remembered: that SHOW does not appear. 0: not at all."),
    Setting(
      "hud.max-level", \.engine.maximumLevel, .choice(),
      "The highest level that a HUD may have: normal, statusbar or alert."),
    Setting(
      "hud.screens", \.engine.maximumLevelOfScreen, .screens,
      "Screens with another highest level, by the key of the screen."),
    Setting(
      "hud.blocking.paths", \.engine.blocking.paths, .paths,
      "Exact paths, each the part of the URL from the last /api/ on, such as "
        + "/api/order/Place."),
    Setting(
      "hud.blocking.verbs", \.engine.blocking.verbs, .words,
      "Words in the last segment of the path, such as the Submit of /api/order/SubmitOrder."),
    Setting(
      "hud.blocking.mask", \.engine.blocking.mask, .choice(),
      "How they cover the screen: clear, black, gradient, custom, or none to block nothing."),

    Setting(
      "gate.keep-pending", \.engine.keepPending, .duration(from: 1),
      "How long a pending action waits for its session to open."),

    Setting(
      "nav.swipe-timeout", \.engine.swipeTimeout, .duration(from: 1),
      "A swipe back is cancelled after this time without progress."),

    Setting(
      "page.timeout", \.engine.pageTimeout, .timeout,
      "A load that takes longer has failed; 0 for no limit."),

    Setting(
      atStart: "fleet.engine", \.fleet.engine, .choice(),
      "none (nothing is shared) or redis (Valkey too)."),
    Setting(
      atStart: "fleet.name", \.fleet.settings.name, .fleetName,
      "Tells fleets on the same servers apart; 1 to 64 letters, digits, _, . and -."),
    Setting(
      atStart: "fleet.nodes", \.fleet.settings.nodes, .nodes,
      "The server, the sentinels, or some nodes of the cluster: HOST:PORT."),
    Setting(
      atStart: "fleet.discovery", \.fleet.settings.discovery, .choice(),
      "What the nodes are: single (one server), sentinel or cluster."),
    Setting(
      atStart: "fleet.sentinel-name", \.fleet.settings.sentinelName, .fleetName,
      "What the sentinels call the servers."),
    Setting(
      atStart: "fleet.username", \.fleet.settings.username, .username,
      "The user on the servers; empty: their default user."),
    Setting(
      atStart: "fleet.password-file", \.fleet.settings.passwordFile, .optionalPath,
      "A file whose first line is the password; empty: none."),
    Setting(
      atStart: "fleet.sentinel-username", \.fleet.settings.sentinelUsername, .username,
      "The user on the sentinels; empty: their default user."),
    Setting(
      atStart: "fleet.sentinel-password-file", \.fleet.settings.sentinelPasswordFile, .optionalPath,
      "A file whose first line is the password for the sentinels; an empty file: they have none. "
        + "Not set: fleet.username and its password are sent to them."),
    Setting(
      atStart: "fleet.tls.enabled", \.fleet.settings.tls.isEnabled, .noOrYes,
      "Whether connections are encrypted: no or yes. The servers' names are verified."),
    Setting(
      atStart: "fleet.tls.authorities", \.fleet.settings.tls.authorities, .optionalPath,
      "Certificates of trusted authorities, in PEM; empty: those of the system."),
    Setting(
      atStart: "fleet.tls.certificate", \.fleet.settings.tls.certificate, .optionalPath,
      "The daemon's certificate, in PEM; empty: none."),
    Setting(
      atStart: "fleet.tls.key", \.fleet.settings.tls.key, .optionalPath,
      "The key of that certificate, in PEM."),
    Setting(
      atStart: "fleet.kinds", \.fleet.settings.kinds, .sharedKinds,
      "Kinds that are shared. All others stay local."),
    Setting(
      atStart: "fleet.partitions", \.fleet.settings.partitions, .count(1...1_024),
      "What the records are divided into: fixed for the life of a fleet. With a cluster "
        + "each partition takes a connection of its own."),
    Setting(
      atStart: "fleet.replicas", \.fleet.settings.replicas, .replicas,
      "Which replicas have a change before it is confirmed: all, or a number. With a number lower "
        + "than the replicas that there are, a failover can lose changes. A single server needs 0."),
    Setting(
      atStart: "fleet.replica-grace", \.fleet.settings.replicaGrace, .duration(from: 1_000),
      "With replicas: all, how long changes still wait for a replica that is missing. Less than "
        + "10s is unsafe with Sentinel."),
    Setting(
      atStart: "fleet.durability", \.fleet.settings.durability, .choice(),
      "Where servers have a change before it is confirmed: memory; or disk, which needs "
        + "append-only files (appendfsync always) on all servers, and Redis 7.2 or Valkey."),
    Setting(
      atStart: "fleet.timeout", \.fleet.settings.timeout, .duration(from: 10),
      "How long a command waits for the servers."),
    Setting(
      atStart: "fleet.unreachable", \.fleet.settings.unreachable, .choice(),
      "While the servers cannot be reached: refuse, or local (decide by this host's copies, "
        + "so each host allows as much as all of them together should)."),
    Setting(
      atStart: "fleet.reads", \.fleet.settings.reads, .choice(),
      "What GET reads: engine (the servers) or local (this host's copy, which may be some "
        + "ms old)."),
    Setting(
      atStart: "fleet.mirror", \.fleet.settings.mirror, .choice(),
      "What this host has copies of: all that is shared, or used (what its clients use or watch, "
        + "and the partitions that it keeps). With used, LIST shows those only."),
    Setting(
      atStart: "fleet.max-clock-skew", \.fleet.settings.maximumClockSkew, .duration(from: 1),
      "How far the clocks of the servers may be apart."),

    Setting(
      "limits.max-bulk-length", \.request.bulkLength, .bytes(64...512 << 20),
      "Length of one argument."),
    Setting(
      "limits.max-inline-length", \.request.inlineLength, .bytes(64...512 << 20),
      "Length of an inline command."),
    Setting(
      "limits.max-arguments", \.request.arguments, .count(8...1 << 20),
      "Arguments of one command."),
    Setting(
      "limits.max-request-length", \.request.requestLength, .bytes(64...1 << 30),
      "Length of all arguments of one command together."),
    Setting(
      "limits.max-commands-per-turn", \.connections.commandsPerTurn, .count(1...1 << 20),
      "Commands of one connection in a round before other connections continue."),
    Setting(
      "limits.max-output", \.dispatcher.maxOutput, .bytes(1024...1 << 30),
      "Output that one connection has not read."),
    Setting(
      "limits.max-output-per-uid", \.dispatcher.maxOutputPerUser, .bytes(1024...1 << 40),
      "Output that all connections of one user have not read."),
    Setting(
      "limits.max-connections", \.connections.all, .count(1...1_000_000),
      "Connections of all users. LimitNOFILE= of the service must be 150 higher."),
    Setting(
      "limits.max-connections-per-uid", \.connections.perUser, .count(1...1_000_000),
      "Connections of one user. Keep it lower than the limit of all users."),
    Setting(
      "limits.reserved-connections", \.connections.reserved, .count(0...1_000),
      "Connections beyond these two limits for root, the user that the daemon runs as, and "
        + "access.admin."),
    // A table has 2²⁷ places, for entities and for those that have ended but are still stored.
    Setting(
      "limits.max-entities", \.engine.limits.entities, .count(1...67_000_000),
      "Entities of all kinds and users. Every four sends on record of a limit count as one."),
    Setting(
      "limits.max-entities-per-uid", \.engine.limits.entitiesPerUser, .count(1...67_000_000),
      "Entities of one user. Keep it lower than the limit of all users."),
    Setting(
      "limits.max-memory", \.engine.limits.memory, .bytes(0...1 << 46),
      "Resident memory beyond which no entities are added; 0 for no limit. Keep it below "
        + "MemoryMax= of the service."),
    Setting(
      "limits.max-subscriptions", \.engine.limits.subscriptions, .count(1...10_000_000),
      "Channels and patterns that one connection subscribes to."),
    Setting(
      "limits.max-patterns-per-uid", \.engine.limits.patternsPerUser, .count(1...1_000_000),
      "Patterns that all connections of one user subscribe to. Every event is compared with "
        + "every pattern."),
    Setting(
      "limits.max-payload-length", \.engine.limits.payloadLength, .bytes(0...1 << 20),
      "Length of a PAYLOAD of GATE and DEBOUNCE."),
    Setting(
      "limits.max-result-length", \.engine.limits.resultLength, .bytes(0...1 << 20),
      "Length of a result of ONCE. Keep it lower than max-bulk-length."),
    Setting(
      "limits.max-scope-depth", \.engine.limits.scopeDepth, .count(1...1_000_000),
      "Scopes one below the other."),
    Setting(
      "limits.max-scope-children", \.engine.limits.scopeChildren, .count(1...100_000_000),
      "Scopes directly below one scope."),
    Setting(
      "limits.max-scope-handlers", \.engine.limits.scopeHandlers, .count(1...1_000_000),
      "Events handled at one scope, by all connections."),
    Setting(
      "limits.max-stack-pages", \.engine.limits.stackPages, .count(1...100_000),
      "Pages of one navigation stack."),

    Setting(
      "slowlog.threshold", \.dispatcher.slowCommand, .duration(),
      "Commands that take at least this long are retained; 0 for all commands."),
    Setting(
      "slowlog.length", \.dispatcher.slowLogLength, .count(0...1_000_000),
      "How many commands are retained, newest first."),
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
