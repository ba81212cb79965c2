import Wire

let serverCommands: [CommandSpec] = [
  CommandSpec(
    "DBSIZE", nil, group: .server, [.readOnly, .fast, .afterLoading],
    "Count all entities.", .value(.count)
  ) { call throws(CommandError) in
    call.session.output.integer(Int64(call.dispatcher.engine.entityCount))
  },

  CommandSpec(
    "TIME", nil, group: .server, [.fast, .harmlessAgain],
    "Read the daemon's clock: seconds since 1970, and microseconds.", .value(.list(.text()))
  ) { call throws(CommandError) in
    let wall = call.dispatcher.host.now.wall.microseconds
    call.session.output.array(2)
    call.session.output.bulk(String(wall / 1_000_000))
    call.session.output.bulk(String(wall % 1_000_000))
  },

  CommandSpec(
    "INFO", nil,
    [Parameter("section", .text(), "A section, such as `stats`; `everything` for all.").repeated],
    group: .server, [.harmlessAgain], complexity: "O(commands)",
    "Report the status of the daemon, as text in sections.", .value(.text())
  ) { call throws(CommandError) in
    var sections: [InfoSection] = []
    for index in 1..<call.arguments.count {
      let name = call.text(index).lowercased()
      if ["all", "default", "everything"].contains(name) {
        sections = InfoSection.allCases
      } else if let section = InfoSection(rawValue: name), !sections.contains(section) {
        sections.append(section)
      }
      // As in Redis, an unknown section is not an error: tools ask for sections that Redis has.
    }
    if call.arguments.count == 1 { sections = InfoSection.allCases }
    let isAdmin = call.dispatcher.settings.access.isAdmin(call.session.peer)
    call.session.output.text(call.dispatcher.information(sections, forAdmin: isAdmin))
  },

  CommandSpec(
    "METRICS", nil, group: .server, [.harmlessAgain], complexity: "O(commands)",
    "Report the status of the daemon, as Prometheus text.", .value(.text())
  ) { call throws(CommandError) in
    call.session.output.text(call.dispatcher.metrics())
  },

  CommandSpec(
    "CONFIG", "GET", [.pattern, .pattern.repeated], group: .server, [.admin],
    complexity: "O(settings)", "Read the settings in force whose names match."
  ) { call throws(CommandError) in
    let settings = call.dispatcher.host.configuration
    guard call.arguments.count - 2 <= settings.count else {
      throw call.problem("at most \(settings.count) patterns, one for each setting")
    }
    let patterns = (2..<call.arguments.count).map { Array(call.text($0).lowercased().utf8) }
    let matching = settings.filter { setting in
      patterns.contains { Glob.matches($0, Array(setting.name.utf8)) }
    }
    call.session.output.map(matching.count)
    for (name, value) in matching {
      call.session.output.bulk(name)
      call.session.output.bulk(value)
    }
  },

  CommandSpec(
    "CONFIG", "SET",
    [Parameter("setting", .text(), "The name of the setting."), .settingValue], group: .server,
    [.admin],
    "Set log-level until the next reload or restart.", .ok
  ) { call throws(CommandError) in
    guard call.text(2).lowercased() == "log-level" else {
      throw CommandError(
        "ERR only log-level can be set while the daemon runs; change the configuration and use "
          + "CONFIG RELOAD for other settings")
    }
    guard call.dispatcher.host.setLogLevel(call.text(3).lowercased()) else {
      throw call.problem(
        "'\(quoted(call.arguments[3]))' is not a log level: trace, debug, info, notice, "
          + "warning, error or critical")
    }
    call.ok()
  },

  CommandSpec(
    "CONFIG", "RESETSTAT", group: .server, [.admin],
    "Reset the counters of INFO.", .ok
  ) { call throws(CommandError) in
    call.dispatcher.engine.statistics = EngineStatistics()
    call.dispatcher.statistics = CommandStatistics(commands: call.dispatcher.table.rows.count)
    call.ok()
  },

  CommandSpec(
    "CONFIG", "RELOAD", group: .server, [.admin], complexity: "O(settings)",
    "Reload the configuration, and report what has changed."
  ) { call throws(CommandError) in
    let (dispatcher, slot) = (call.dispatcher, call.session.awaitReply())
    dispatcher.host.reload { outcome in dispatcher.fill(slot) { $0.reply(outcome) } }
  },

  CommandSpec(
    "MONITOR", nil, group: .server, [.admin, .unlogged, .ofConnection],
    "Show every command as it is executed."
  ) { call throws(CommandError) in
    call.dispatcher.startMonitor(call.session)
    call.ok()
  },

  CommandSpec(
    "SLOWLOG", "GET",
    [
      Parameter("count", .integer(-1...Int64.max), "The most commands.", default: "10").optional
    ], group: .server, [.admin, .unlogged],
    complexity: "O(count)", "Read the newest slow commands."
  ) { call throws(CommandError) in
    var count = 10
    if call.arguments.count > 2 {
      let wanted = try call.spec.integer(call.arguments[2], "count", in: -1...Int64(Int32.max))
      count = wanted == -1 ? .max : Int(wanted)
    }
    let entries = call.dispatcher.slowLog.entries.prefix(count)
    call.session.output.array(entries.count)
    for entry in entries {
      call.session.output.array(6)
      call.session.output.integer(entry.id)
      call.session.output.integer(entry.unixSeconds)
      call.session.output.integer(entry.microseconds)
      call.session.output.array(entry.arguments.count)
      for argument in entry.arguments { call.session.output.bulk(argument) }
      call.session.output.bulk(entry.address)
      call.session.output.bulk(entry.name)
    }
  },

  CommandSpec(
    "SLOWLOG", "LEN", group: .server, [.admin], "Count the commands in the slow log.",
    .value(.count)
  ) {
    call throws(CommandError) in
    call.session.output.integer(Int64(call.dispatcher.slowLog.entries.count))
  },

  CommandSpec("SLOWLOG", "RESET", group: .server, [.admin], "Clear the slow log.", .ok) {
    call throws(CommandError) in
    call.dispatcher.slowLog.reset()
    call.ok()
  },

  CommandSpec(
    "SHUTDOWN", nil, [],
    [
      .flag("NOSAVE", "Without effect.", { _, _ in }),
      .flag("SAVE", "Without effect.", { _, _ in }),
    ],
    group: .server, [.admin, .makesRoom], "Stop the daemon, as SIGTERM does.", .special, into: ()
  ) { call, _ throws(CommandError) in
    call.session.isClosing = true
    call.dispatcher.host.shutDown()
  },
]

extension RESPEncoder {
  fileprivate mutating func reply(_ outcome: ReloadOutcome) {
    switch outcome {
    case .refused(let problems):
      error(
        "ERR the configuration is refused, the old one stays: " + problems.joined(separator: "; "))
    case .taken(let changed, let kept):
      map(2)
      bulk("changed" as StaticString)
      array(changed.count)
      for setting in changed {
        array(3)
        bulk(setting.name)
        for value in [setting.old, setting.new] {
          if let value { bulk(value) } else { null() }
        }
      }
      bulk("needs_restart" as StaticString)
      array(kept.count)
      for name in kept { bulk(name) }
    }
  }
}
