import Wire

/// The daemon's name and version on the wire.
package enum Product {
  package static let name = "countdownd"
  package static let version = ProductVersion.current
}

let connectionCommands: [CommandSpec] = [
  CommandSpec(
    "PING", nil, "[message]", group: .connection, [.fast, .whileSubscribed, .afterLoading],
    "Reply with PONG, or with the message.", .value(.text())
  ) { call throws(CommandError) in
    let output = call.session
    let message = call.arguments.count > 1 ? call.bytes(1) : nil
    let isSubscribed =
      call.dispatcher.engine.subscriptionCount(
        of: call.session.client.connection) > 0
    if isSubscribed, output.output.version == .resp2 {
      output.output.array(2)
      output.output.bulk("pong" as StaticString)
      output.output.bulk(message ?? [])
    } else if let message {
      output.output.bulk(message)
    } else {
      output.output.simple("PONG")
    }
  },

  CommandSpec(
    "ECHO", nil, "message", group: .connection, [.fast], "Reply with the message.", .value(.text())
  ) {
    call throws(CommandError) in
    call.session.output.bulk(call.arguments[1])
  },

  CommandSpec(
    "HELLO", nil, "[protover] [AUTH username !password] [SETNAME clientname]", group: .connection,
    [.fast], "Choose RESP2 or RESP3, and describe the daemon."
  ) { call throws(CommandError) in
    try hello(call)
  },

  CommandSpec(
    "AUTH", nil, "[username] !password", group: .connection, [.fast, .unlogged],
    "Refused: there are no passwords."
  ) { call throws(CommandError) in
    throw noPassword
  },

  CommandSpec(
    "QUIT", nil, group: .connection, [.fast, .whileSubscribed, .makesRoom, .immediate],
    "Close the connection.", .ok
  ) { call throws(CommandError) in
    call.ok()
    call.session.isClosing = true
  },

  CommandSpec(
    "RESET", nil, group: .connection,
    [.fast, .whileSubscribed, .unlogged, .makesRoom, .immediate],
    complexity: "O(subscriptions + scopes)",
    "Reset the connection: RESP2, no subscriptions, no handlers, no name, no MULTI."
  ) { call throws(CommandError) in
    try reset(call)
  },

  CommandSpec(
    "SELECT", nil, "index", group: .connection, [.fast], "Select the only database, 0.", .ok
  ) { call throws(CommandError) in
    guard call.text(1) == "0" else {
      throw CommandError("ERR the only database is 0")
    }
    call.ok()
  },
]

private let noPassword = CommandError(
  "ERR there are no passwords: the permissions of the socket decide who may connect")

/// A thing that RESET ends. There may be many, so it ends a few at a time.
private enum Ending {
  case channel([UInt8])
  case pattern([UInt8])
  case handling(UInt32)
}

private func reset(_ call: Call) throws(CommandError) {
  let (dispatcher, session) = (call.dispatcher, call.session)
  let client = session.client
  let id = client.connection
  session.transaction = nil
  let endings =
    dispatcher.engine.channels(of: id).map(Ending.channel)
    + dispatcher.engine.patterns(of: id).map(Ending.pattern)
    + dispatcher.engine.scopesOfHandlers(of: client).map(Ending.handling)
  try call.forEach(endings) { ending, _ in
    switch ending {
    case .channel(let name): _ = dispatcher.engine.unsubscribe(id, from: name)
    case .pattern(let name): _ = dispatcher.engine.unsubscribe(id, fromPattern: name)
    case .handling(let scope): dispatcher.engine.unhandleAll(at: scope, by: client)
    }
  } finally: {
    dispatcher.stopMonitor(session)
    dispatcher.host.endBackup(of: id)
    _ = session.waitingTicks.takeAll()
    session.name = []
    session.replies = .all
    session.output.version = .resp2
    session.output.simple("RESET")
  }
}

private func hello(_ call: Call) throws(CommandError) {
  let session = call.session
  var version = session.output.version
  var name: [UInt8]?
  var index = 1
  if call.arguments.count > 1 {
    switch call.text(1) {
    case "2": version = .resp2
    case "3": version = .resp3
    default: throw CommandError("NOPROTO the protocol versions are 2 and 3")
    }
    index = 2
  }
  while index < call.arguments.count {
    switch call.text(index).uppercased() {
    case "AUTH":
      throw noPassword
    case "SETNAME" where index + 1 < call.arguments.count:
      name = try call.clientName(call.arguments[index + 1])
      index += 2
    default:
      throw call.problem("unknown option '\(quoted(call.arguments[index]))'")
    }
  }
  session.output.version = version
  if let name { session.name = name }
  session.output.map(7)
  session.output.field("server", Product.name)
  session.output.field("version", Product.version)
  session.output.field("proto", Int64(version.rawValue))
  session.output.field("id", Int64(clamping: session.client.connection))
  session.output.field("mode", "standalone" as StaticString)
  session.output.field("role", "master" as StaticString)
  session.output.bulk("modules" as StaticString)
  session.output.array(0)
}

extension Call {
  /// Returns a name fit for CLIENT LIST. Throws if it has blanks or control characters.
  func clientName(_ bytes: Span<UInt8>) throws(CommandError) -> [UInt8] {
    guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), bytes.count <= TextLimits.clientName else {
      throw CommandError(
        "ERR a client's name has at most \(TextLimits.clientName) printable characters and no "
          + "blanks")
    }
    return Array(bytes)
  }
}
