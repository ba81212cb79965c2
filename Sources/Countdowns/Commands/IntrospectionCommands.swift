import Wire

let introspectionCommands: [CommandSpec] = [
  CommandSpec(
    "COMMAND", nil, group: .server, [.harmlessAgain], complexity: "O(commands)",
    "List all commands, as COMMAND INFO does."
  ) { call throws(CommandError) in
    let names = call.dispatcher.table.names
    call.session.output.array(names.count)
    for name in names { call.replyInfo(name) }
  },

  CommandSpec(
    "COMMAND", "COUNT", group: .server, [.harmlessAgain], "Count the commands.", .value(.count)
  ) {
    call throws(CommandError) in
    call.session.output.integer(Int64(call.dispatcher.table.names.count))
  },

  CommandSpec(
    "COMMAND", "LIST", [],
    [
      Option(
        "FILTERBY", "MODULE|ACLCAT|PATTERN value", .text(),
        "Which commands: ACLCAT, MODULE or PATTERN, and a value."
      ) { rows, reader, _ throws(CommandError) in
        let filter = try reader.choice() as CommandFilter
        let value = Array(String(decoding: try reader.value()).lowercased().utf8)
        rows.removeAll { filter != .pattern || !Glob.matches(value, Array($0.wireName.utf8)) }
      }
    ],
    group: .server, [.harmlessAgain], complexity: "O(commands)",
    "List the names of all commands, or of those that match a PATTERN.", .value(.list(.text())),
    request: { $0.dispatcher.table.rows },
    handler: { call, rows throws(CommandError) in
      call.session.output.array(rows.count)
      for row in rows { call.session.output.bulk(row.wireName) }
    }),

  CommandSpec(
    "COMMAND", "INFO", [.commandName.repeated], group: .server, [.harmlessAgain],
    complexity: "O(commands)",
    "Describe commands: arity, flags and key positions."
  ) { call throws(CommandError) in
    let given = try call.commandNames()
    let names = given.isEmpty ? call.dispatcher.table.names : given
    call.session.output.array(names.count)
    for name in names { call.replyInfo(name) }
  },

  CommandSpec(
    "COMMAND", "DOCS", [.commandName.repeated], group: .server, [.harmlessAgain],
    complexity: "O(commands)",
    "Document commands: purpose and arguments."
  ) { call throws(CommandError) in
    let known = call.dispatcher.table.names
    // The reply is a map, so each name appears once.
    var seen: Set<String> = []
    let given = try call.commandNames().filter {
      (known.contains($0) || call.dispatcher.table.row($0) != nil) && seen.insert($0).inserted
    }
    let names = call.arguments.count == 2 ? known : given
    call.session.output.map(names.count)
    for name in names { call.replyDocs(name) }
  },

  CommandSpec(
    "COMMAND", "GETKEYS",
    [
      Parameter("command", .text(), "A command."),
      Parameter("argument", .text(), "Its arguments.").repeated,
    ], group: .server, [.harmlessAgain],
    "Find the keys in a command.", .value(.list(.text()))
  ) { call throws(CommandError) in
    let second = call.arguments.count > 3 ? call.arguments[3] : nil
    guard case .found(let index) = call.dispatcher.table.find(call.arguments[2], second) else {
      throw CommandError("ERR unknown command '\(quoted(call.arguments[2]))'")
    }
    let position = call.dispatcher.table.rows[index].keyPosition
    guard position > 0, 2 + position < call.arguments.count else {
      throw CommandError("ERR the command has no key")
    }
    call.session.output.array(1)
    call.session.output.bulk(call.arguments[2 + position])
  },

  CommandSpec(
    "HELP", nil, [.commandName.repeated], group: .server, [.harmlessAgain],
    complexity: "O(commands)",
    "List all commands with their arguments, or those of a name such as ONCE."
  ) { call throws(CommandError) in
    let table = call.dispatcher.table
    let names = try call.commandNames(from: 1)
    var rows = names.isEmpty ? table.rows : []
    for (index, name) in names.enumerated() {
      let named = table.rows.filter { $0.name == name || $0.fullName == name }
      guard !named.isEmpty else {
        throw CommandError("ERR unknown command '\(quoted(call.arguments[1 + index]))'")
      }
      rows += named
    }
    call.session.output.array(rows.count * 2)
    for row in rows {
      call.session.output.bulk(row.usage)
      call.session.output.bulk("    " + row.summary)
    }
  },
]

private enum CommandFilter: String, CaseIterable { case module, aclcat, pattern }

extension CommandSpec {
  /// The name as Redis writes it: `countdown|start`.
  var wireName: String { fullName.lowercased().replacingBlank(with: "|") }
}

extension Call {
  /// Returns the names in the arguments: at most one for each command, as each takes a while.
  fileprivate func commandNames(from first: Int = 2) throws(CommandError) -> [String] {
    let maximum = dispatcher.table.rows.count
    let count = arguments.count - first
    guard count <= maximum else {
      throw problem("at most \(maximum) names, one for each command; these are \(count)")
    }
    return (first..<arguments.count).map { commandName($0) }
  }

  /// Returns a name as the table has it: `countdown|start` is `COUNTDOWN START`.
  fileprivate func commandName(_ index: Int) -> String {
    String(text(index).uppercased().map { $0 == "|" ? " " : $0 })
  }

  /// Replies with the ten elements of COMMAND INFO, or null if the command does not exist.
  fileprivate func replyInfo(_ name: String) {
    // A subcommand is asked for as `countdown|start`.
    let family = dispatcher.table.family(name)
    let single = dispatcher.table.row(String(name.map { $0 == "|" ? " " : $0 }))
    guard single != nil || !family.isEmpty else { return session.output.null() }
    replyInfo(
      name.lowercased().replacingBlank(with: "|"), arity: single?.arity ?? -2,
      flags: single?.flags ?? [], keyPosition: single?.keyPosition ?? 0, family: family)
  }

  private func replyInfo(
    _ name: String, arity: Int, flags: CommandSpec.Flags, keyPosition: Int, family: [CommandSpec]
  ) {
    session.output.array(10)
    session.output.bulk(name)
    session.output.integer(Int64(arity))
    let names = CommandSpec.Flags.names.filter { flags.contains($0.0) }
    session.output.set(names.count)
    for (_, flag) in names { session.output.simple(flag) }
    session.output.integer(Int64(keyPosition))
    session.output.integer(Int64(keyPosition))
    session.output.integer(keyPosition > 0 ? 1 : 0)
    session.output.set(0)  // ACL categories
    session.output.array(0)  // tips
    session.output.array(0)  // key specifications
    session.output.array(family.count)
    for row in family {
      replyInfo(
        row.wireName, arity: row.arity, flags: row.flags, keyPosition: row.keyPosition, family: [])
    }
  }

  fileprivate func replyDocs(_ name: String) {
    let family = dispatcher.table.family(name)
    session.output.bulk(name.lowercased().replacingBlank(with: "|"))
    if let single = dispatcher.table.row(name) {
      replyDocs(single, family: family)
    } else {
      let group = family[0].group.name
      session.output.map(4)
      session.output.pair("summary", "A container for \(group) commands.")
      session.output.pair("since", Product.version)
      session.output.pair("group", group)
      replySubcommands(family)
    }
  }

  private func replyDocs(_ row: CommandSpec, family: [CommandSpec]) {
    let parameters = row.parameters
    session.output.map(4 + (parameters.isEmpty ? 0 : 1) + (family.isEmpty ? 0 : 1))
    session.output.pair("summary", row.summary)
    session.output.pair("since", Product.version)
    session.output.pair("group", row.group.name)
    session.output.pair("complexity", row.complexity)
    if !parameters.isEmpty {
      session.output.bulk("arguments" as StaticString)
      session.output.array(parameters.count)
      for parameter in parameters { reply(parameter) }
    }
    if !family.isEmpty { replySubcommands(family) }
  }

  private func replySubcommands(_ family: [CommandSpec]) {
    session.output.bulk("subcommands" as StaticString)
    session.output.map(family.count)
    for row in family {
      session.output.bulk(row.wireName)
      replyDocs(row, family: [])
    }
  }

  /// Replies with one argument, as redis-cli needs it for its hints.
  private func reply(_ parameter: Parameter) {
    var flags: [StaticString] = []
    if parameter.isOptional { flags.append("optional") }
    if parameter.repeats { flags.append("multiple") }
    let type: StaticString =
      if parameter.value.isEmpty {
        "pure-token"
      } else if !parameter.choices.isEmpty {
        "oneof"
      } else if CommandSpec.keyNames.contains(parameter.name) {
        "key"
      } else {
        parameter.type.redisName
      }
    session.output.map(
      3 + (parameter.token == nil ? 0 : 1) + (flags.isEmpty ? 0 : 1)
        + (parameter.help.isEmpty ? 0 : 1))
    session.output.pair("name", parameter.name)
    session.output.pair("type", type)
    if parameter.choices.isEmpty {
      session.output.pair("display_text", parameter.name)
    } else {
      session.output.bulk("arguments" as StaticString)
      session.output.array(parameter.choices.count)
      for choice in parameter.choices {
        session.output.map(3)
        session.output.pair("name", choice)
        session.output.pair("type", "pure-token" as StaticString)
        session.output.pair("token", choice)
      }
    }
    if let token = parameter.token { session.output.pair("token", token) }
    if !parameter.help.isEmpty { session.output.pair("summary", parameter.help) }
    if !flags.isEmpty {
      session.output.bulk("flags" as StaticString)
      session.output.array(flags.count)
      for flag in flags { session.output.simple(flag) }
    }
  }
}

extension ValueType {
  /// The type as `COMMAND DOCS` of Redis calls it.
  fileprivate var redisName: StaticString {
    switch self {
    case .integer, .generation: "integer"
    case .number: "double"
    default: "string"
    }
  }
}
