import CountdownCore
import CountdownEngine
import RESP

let clientCommands: [CommandSpec] = [
  CommandSpec("CLIENT", "ID", group: .connection, [.fast], "This connection's id.") {
    call throws(CommandError) in
    call.session.output.integer(Int64(clamping: call.session.client.connection))
  },

  CommandSpec("CLIENT", "INFO", group: .connection, [.fast], "This connection, as in CLIENT LIST.")
  {
    call throws(CommandError) in
    call.session.output.text(call.dispatcher.clientLine(call.session, at: call.now) + "\n")
  },

  CommandSpec(
    "CLIENT", "LIST", "[TYPE normal|pubsub] [ID id ...]", group: .connection, [.admin],
    complexity: "O(connections)", "All connections, a line each."
  ) { call throws(CommandError) in
    var sessions = call.dispatcher.sessions.values.sorted {
      $0.client.connection < $1.client.connection
    }
    var options = call.options(from: 2)
    while let option = try options.next() {
      switch option {
      case "ID":
        var ids: Set<Int64> = []
        repeat { ids.insert(try options.integer(in: 0...Int64.max)) } while options.hasNumber
        sessions.removeAll { !ids.contains(Int64(clamping: $0.client.connection)) }
      case "TYPE":
        let type = try options.choice() as ClientType
        sessions.removeAll { call.dispatcher.type(of: $0) != type }
      default:
        throw options.unknown()
      }
    }
    let lines = sessions.map { call.dispatcher.clientLine($0, at: call.now) + "\n" }
    call.session.output.text(lines.joined())
  },

  CommandSpec(
    "CLIENT", "SETNAME", "name", group: .connection, [.fast],
    "Names this connection, for CLIENT LIST and the log."
  ) { call throws(CommandError) in
    call.session.name = try call.clientName(call.arguments[2])
    call.ok()
  },

  CommandSpec("CLIENT", "GETNAME", group: .connection, [.fast], "This connection's name, or null.")
  { call throws(CommandError) in
    if call.session.name.isEmpty {
      call.session.output.null()
    } else {
      call.session.output.bulk(call.session.name)
    }
  },

  CommandSpec(
    "CLIENT", "SETINFO", "attribute value", group: .connection, [.fast],
    "Tells the client library's name and version: LIB-NAME, LIB-VER."
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
    "CLIENT", "KILL", "[address] [ID id] [ADDR address] [UID uid] [SKIPME yes|no]",
    group: .connection, [.admin, .makesRoom], complexity: "O(connections)",
    "Closes the connections that fit, and tells how many."
  ) { call throws(CommandError) in
    try kill(call)
  },

  CommandSpec(
    "CLIENT", "NO-EVICT", "on|off", group: .connection, [.fast],
    "Accepted for compatibility: nothing is ever evicted."
  ) { call throws(CommandError) in
    call.ok()
  },

  CommandSpec(
    "CLIENT", "NO-TOUCH", "on|off", group: .connection, [.fast],
    "Accepted for compatibility: nothing is ever evicted."
  ) { call throws(CommandError) in
    call.ok()
  },
]

enum ClientType: String, CaseIterable { case normal, pubsub }

private func kill(_ call: Call) throws(CommandError) {
  let host = call.dispatcher.host
  let isOldForm = call.arguments.count == 3
  var victims = Array(call.dispatcher.sessions.values)
  var skipsMe = !isOldForm
  if isOldForm {
    let address = call.text(2)
    victims.removeAll { $0.address != address }
    guard !victims.isEmpty else { throw CommandError("ERR no such client: \(address)") }
  } else {
    var options = call.options(from: 2)
    while let option = try options.next() {
      switch option {
      case "ID":
        let id = try options.integer(in: 0...Int64.max)
        victims.removeAll { Int64(clamping: $0.client.connection) != id }
      case "ADDR":
        let address = String(decoding: try options.value(), as: UTF8.self)
        victims.removeAll { $0.address != address }
      case "UID":
        let uid = try options.integer(in: 0...Int64(UInt32.max))
        victims.removeAll { Int64($0.client.uid) != uid }
      case "SKIPME":
        skipsMe = try options.choice() as YesNo == .yes
      default:
        throw options.unknown()
      }
    }
    guard call.arguments.count > 2 else { throw call.problem("which connections?") }
  }
  if skipsMe { victims.removeAll { $0 === call.session } }
  for victim in victims {
    if victim === call.session {
      victim.isClosing = true
    } else {
      host.close(victim.client.connection, .killed)
    }
  }
  if isOldForm { call.ok() } else { call.session.output.integer(Int64(victims.count)) }
}

private enum YesNo: String, CaseIterable { case yes, no }

extension Call {
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

  /// A line as of Redis's CLIENT LIST, as far as it applies here.
  func clientLine(_ session: Session, at now: Moment) -> String {
    func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
    func seconds(since then: Moment) -> Int64 { (now.boot - then.boot).microseconds / 1_000_000 }
    let id = session.client.connection
    let subscriptions = engine.subscriptions(of: id)
    let command = session.lastCommand.map { table.rows[$0].fullName.lowercased() } ?? ""
    var flags = ""
    if session.isMonitor { flags += "O" }
    if !subscriptions.channels.isEmpty || !subscriptions.patterns.isEmpty { flags += "P" }
    if flags.isEmpty { flags = "N" }
    return "id=\(id) addr=\(session.address) name=\(text(session.name)) "
      + "age=\(seconds(since: session.connectedAt)) idle=\(seconds(since: session.lastActive)) "
      + "flags=\(flags) db=0 sub=\(subscriptions.channels.count) psub=\(subscriptions.patterns.count) "
      + "qbuf=\(host.bufferedInput(of: id)) omem=\(session.pendingOutput) "
      + "tot-cmds=\(session.commands) "
      + "cmd=\(command.replacingBlank(with: "|")) user=default "
      + "uid=\(session.client.uid) pid=\(session.pid) resp=\(session.output.version.rawValue) "
      + "lib-name=\(text(session.libraryName)) lib-ver=\(text(session.libraryVersion))"
  }
}

extension String {
  func replacingBlank(with mark: Character) -> String {
    String(map { $0 == " " ? mark : $0 })
  }
}
