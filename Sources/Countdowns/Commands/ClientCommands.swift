import Wire

let clientCommands: [CommandSpec] = [
  CommandSpec(
    "CLIENT", "ID", group: .connection, [.fast], "Return the id of this connection.", .value(.count)
  ) {
    call throws(CommandError) in
    call.session.output.integer(Int64(clamping: call.session.client.connection))
  },

  CommandSpec(
    "CLIENT", "INFO", group: .connection, [.fast], "Describe this connection, as in CLIENT LIST.",
    .value(.text())
  ) {
    call throws(CommandError) in
    call.session.output.text(call.dispatcher.clientLine(call.session, at: call.now) + "\n")
  },

  CommandSpec(
    "CLIENT", "LIST", [],
    [
      .type,
      Option("ID", "id", .count, "Only these connections.", repeats: true, more: .numbers) {
        filter, reader, call throws(CommandError) in
        guard !filter.hasIDs else { throw call.problem("ID is given twice") }
        filter.hasIDs = true
        var ids: Set<Int64> = []
        repeat { ids.insert(try reader.integer(in: 0...Int64.max)) } while reader.has(.numbers)
        filter.sessions.removeAll { !ids.contains(Int64(clamping: $0.client.connection)) }
      },
    ],
    group: .connection, [.admin], complexity: "O(connections)",
    "List the connections, one line each.", .value(.text()), request: ClientFilter.init
  ) { call, filter throws(CommandError) in
    let sessions = filter.sessions.sorted { $0.client.connection < $1.client.connection }
    let (dispatcher, session) = (call.dispatcher, call.session)
    var lines = ""
    try call.forEach(sessions) { shown, now throws(CommandError) in
      if !shown.isGone { lines += dispatcher.clientLine(shown, at: now) + "\n" }
      try dispatcher.checkLength(
        of: lines.utf8.count, "use TYPE or ID to list fewer connections")
    } finally: {
      session.output.text(lines)
    }
  },

  CommandSpec(
    "CLIENT", "SETNAME",
    [Parameter("name", .text(atMost: TextLimits.clientName), "The name.")], group: .connection,
    [.fast, .ofConnection],
    "Name this connection for CLIENT LIST and the log.", .ok
  ) { call throws(CommandError) in
    call.session.name = try call.clientName(call.arguments[2])
    call.ok()
  },

  CommandSpec(
    "CLIENT", "GETNAME", group: .connection, [.fast], "Return the name of this connection.",
    .value(.text().orNull)
  ) { call throws(CommandError) in
    if call.session.name.isEmpty {
      call.session.output.null()
    } else {
      call.session.output.bulk(call.session.name)
    }
  },

  CommandSpec(
    "CLIENT", "SETINFO",
    [Parameter("attribute", .text(), "LIB-NAME or LIB-VER."), .settingValue], group: .connection,
    [.fast],
    "Set the client library's name or version: LIB-NAME, LIB-VER.", .ok
  ) { call throws(CommandError) in
    let value = try call.clientName(call.arguments[3])
    switch call.text(2).uppercased() {
    case "LIB-NAME": call.session.libraryName = value
    case "LIB-VER": call.session.libraryVersion = value
    default:
      throw call.problem("'\(quoted(call.arguments[2]))' is not one of LIB-NAME, LIB-VER")
    }
    call.ok()
  },

  CommandSpec(
    "CLIENT", "KILL", [Parameter("address", .text(), "An address, as in CLIENT LIST.").optional],
    [
      .number("ID", "id", .count, "The connection with this number.") { session, id, _ in
        Int64(clamping: session.client.connection) == id
      },
      .address("ADDR", "The connections of this address.") { session, _ in session.address },
      .address("LADDR", "The connections to this address of the daemon.") { session, call in
        call.dispatcher.localAddress(of: session)
      },
      .number(
        "UID", "uid", .count, "The connections of this user, by number.", in: userNumbers, isOfUser),
      .number(
        "USER", "uid", .text(), "The connections of this user, by name.", in: userNumbers, isOfUser),
      .type,
      .number(
        "MAXAGE", "seconds", .count, "The connections that are at least so many seconds old.",
        in: 1...Int64.max
      ) { session, age, now in session.connectedAt.seconds(until: now) >= age },
      Option("SKIPME", "yes|no", .text(), "Whether to spare this connection.", default: "yes") {
        filter, reader, _ throws(CommandError) in
        filter.skipsMe = try reader.choice() as YesNo == .yes
      },
    ],
    group: .connection, [.admin, .makesRoom], complexity: "O(connections)",
    "Close the connections that match all filters.", .special,
    optionsStart: startOfFilters, request: ClientFilter.init
  ) { call, filter throws(CommandError) in
    if startOfFilters(call.arguments) == 3 { return try killOne(call) }
    guard call.arguments.count > 2 else { throw call.problem("name at least one filter") }
    if filter.skipsMe { filter.sessions.removeAll { $0 === call.session } }
    let count = Int64(filter.sessions.count)
    try call.kill(filter.sessions) { $0.integer(count) }
  },

  CommandSpec(
    "CLIENT", "REPLY", [Parameter("ON|OFF|SKIP", .text(), "Whether replies are sent.")],
    group: .connection, [.fast, .ofConnection],
    "Turn replies off or on, or skip the next one. Events are still sent."
  ) { call throws(CommandError) in
    let session = call.session
    switch try call.spec.choice(call.arguments[2], "REPLY") as ReplyChoice {
    case .on:
      session.replies = .all
      call.ok()
    case .off: session.replies = .none
    case .skip: if session.replies != .none { session.replies = .allButNext }
    }
  },

  withoutEffect("NO-EVICT"),
  withoutEffect("NO-TOUCH"),
]

private func withoutEffect(_ name: String) -> CommandSpec {
  CommandSpec(
    "CLIENT", name, [Parameter("on|off", .text(), "Without effect.")], group: .connection, [.fast],
    "Accepted without effect: nothing is ever evicted.", .ok
  ) { call throws(CommandError) in
    _ = try call.spec.choice(call.arguments[2], name) as Switch
    call.ok()
  }
}

/// Behind an address there is no filter.
private let startOfFilters: CommandSpec.OptionsStart = { $0.count == 3 ? 3 : 2 }

/// The connections that a command is about: all that match its filters.
private struct ClientFilter {
  var sessions: [Session]
  var hasIDs = false
  var skipsMe = true

  init(_ call: Call) { sessions = Array(call.dispatcher.sessions.values) }
}

private let userNumbers = 0...Int64(UInt32.max)
private let isOfUser = { @Sendable (session: Session, uid: Int64, _: Moment) in
  session.client.uid == uid
}

extension Option<ClientFilter> {
  fileprivate static var type: Option {
    Option(
      "TYPE", "normal|master|replica|slave|pubsub", .text(), "Only connections of this type."
    ) { filter, reader, call throws(CommandError) in
      let type = try reader.choice() as ClientType
      filter.sessions.removeAll { call.dispatcher.type(of: $0) != type }
    }
  }

  fileprivate static func number(
    _ name: String, _ value: String, _ type: ValueType, _ help: String,
    in range: ClosedRange<Int64> = 0...Int64.max,
    _ matches: @escaping @Sendable (Session, Int64, Moment) -> Bool
  ) -> Option {
    Option(name, value, type, help) { filter, reader, call throws(CommandError) in
      let number = try reader.integer(in: range)
      filter.sessions.removeAll { !matches($0, number, call.now) }
    }
  }

  fileprivate static func address(
    _ name: String, _ help: String, _ address: @escaping @Sendable (Session, Call) -> String
  ) -> Option {
    Option(name, "address", .text(), help) { filter, reader, call throws(CommandError) in
      let wanted = String(decoding: try reader.value())
      filter.sessions.removeAll { address($0, call) != wanted }
    }
  }
}

/// The types of clients in Redis. Here a connection is never another server.
enum ClientType: String, CaseIterable { case normal, master, replica, slave, pubsub }

private enum YesNo: String, CaseIterable { case yes, no }

private enum ReplyChoice: String, CaseIterable { case on, off, skip }

/// Executes `CLIENT KILL address`, the old form without filters.
private func killOne(_ call: Call) throws(CommandError) {
  let address = call.text(2)
  let victims = call.dispatcher.sessions.values.filter { $0.address == address }
  guard !victims.isEmpty else {
    throw CommandError("ERR no such client: \(quoted(call.arguments[2]))")
  }
  try call.kill(victims) { $0.simple("OK") }
}

extension Call {
  fileprivate func kill(
    _ victims: [Session], reply: @escaping (inout RESPEncoder) -> Void
  ) throws(CommandError) {
    let (host, session) = (dispatcher.host, session)
    let isMeToo = victims.contains { $0 === session }
    try forEach(victims) { victim, _ in
      if victim !== session { host.close(victim.client.connection, .killed) }
    } finally: {
      reply(&session.output)
      if isMeToo { session.isClosing = true }
    }
  }

  func replyHelp(_ family: String) {
    let rows = dispatcher.table.family(family)
    session.output.array(rows.count * 2 + 1)
    session.output.bulk("\(family) <subcommand> [<arg> ...]. Subcommands are:")
    for row in rows {
      let usage = row.usage.dropFirst(family.count + 1)
      session.output.bulk(String(usage))
      session.output.bulk("    " + row.summary)
    }
  }
}

extension Dispatcher {
  func type(of session: Session) -> ClientType {
    engine.subscriptionCount(of: session.client.connection) > 0 ? .pubsub : .normal
  }

  func localAddress(of session: Session) -> String {
    localAddress(host.transport(of: session.client.connection))
  }

  private func localAddress(_ transport: TransportFacts) -> String {
    // Libraries split a line of CLIENT LIST at blanks and equals signs.
    let path = transport.path.unicodeScalars.map { scalar in
      scalar.value > 0x20 && scalar.value != 0x7F && scalar != "=" ? Character(scalar) : "?"
    }
    return String(path) + ":0"
  }

  /// Returns a line of CLIENT LIST with the fields of Redis 7.2 in their order, and no others:
  /// libraries refuse unknown fields. A field that means nothing here is 0 or -1.
  func clientLine(_ session: Session, at now: Moment) -> String {
    func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
    let id = session.client.connection
    let transport = host.transport(of: id)
    let (channels, patterns) = (engine.channels(of: id).count, engine.patterns(of: id).count)
    let command = session.lastCommand.map { table.rows[$0].wireName } ?? "NULL"
    let flags =
      (session.isMonitor ? "O" : "") + (channels + patterns > 0 ? "P" : "") + "U"
    let input = transport.unreadInput
    let output = session.pendingOutput
    return "id=\(id) addr=\(session.address) laddr=\(localAddress(transport)) "
      + "fd=\(transport.descriptor) name=\(text(session.name)) "
      + "age=\(session.connectedAt.seconds(until: now)) "
      + "idle=\(session.lastActive.seconds(until: now)) flags=\(flags) db=0 "
      + "sub=\(channels) psub=\(patterns) ssub=0 "
      + "multi=\(session.transaction?.commands.count ?? -1) "
      + "qbuf=\(input) qbuf-free=0 argv-mem=0 "
      + "multi-mem=\(session.transaction?.length ?? 0) rbs=0 rbp=0 obl=0 "
      + "oll=\(session.outbound.pieceCount) omem=\(output) tot-mem=\(input + output) "
      + "events=\(session.isBackedUp ? "rw" : "r") cmd=\(command) user=\(session.client.uid) "
      + "redir=-1 resp=\(session.output.version.rawValue) "
      + "lib-name=\(text(session.libraryName)) lib-ver=\(text(session.libraryVersion))"
  }
}

extension Moment {
  /// Returns the whole seconds until `later`, whatever the wall clock does.
  fileprivate func seconds(until later: Moment) -> Int64 {
    (later.boot - boot).microseconds / 1_000_000
  }
}

extension String {
  func replacingBlank(with mark: Character) -> String {
    String(map { $0 == " " ? mark : $0 })
  }
}
