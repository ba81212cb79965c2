import Wire

/// The daemon's name and version on the wire.
package enum Product {
  package static let name = "countdownd"
  package static let version = ProductVersion.current
}

let connectionCommands: [CommandSpec] = [
  CommandSpec(
    "PING", nil, [message.optional], group: .connection,
    [.fast, .whileSubscribed, .afterLoading, .harmlessAgain],
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
    "ECHO", nil, [message], group: .connection, [.fast, .harmlessAgain], "Reply with the message.",
    .value(.text())
  ) {
    call throws(CommandError) in
    call.session.output.bulk(call.arguments[1])
  },

  CommandSpec(
    "HELLO", nil, [Parameter("protover", .integer(2...3), "The version of the protocol.").optional],
    [
      Option(
        "AUTH", "username password", .text(), "A user and a password; refused, as there are none.",
        isSecret: true
      ) { _, _, _ throws(CommandError) in throw noPassword },
      Option(
        "SETNAME", "clientname", .text(atMost: TextLimits.clientName),
        "The name of this connection."
      ) { request, reader, call throws(CommandError) in
        request.name = try call.clientName(try reader.value())
      },
    ],
    group: .connection, [.fast, .ofConnection], "Choose RESP2 or RESP3, and describe the daemon.",
    .special,
    optionsStart: { min($0.count, 2) }, request: HelloRequest.init,
    handler: { call, request throws(CommandError) in hello(call, request) }),

  CommandSpec(
    "AUTH", nil,
    [
      Parameter("username", .text(), "A user; refused, as there are none.").optional,
      Parameter(
        "password", .text(), "A password; refused, as there are none.", isSecret: true),
    ], group: .connection, [.fast, .unlogged],
    "Refused: there are no passwords."
  ) { call throws(CommandError) in
    throw noPassword
  },

  CommandSpec(
    "QUIT", nil, group: .connection,
    [.fast, .whileSubscribed, .makesRoom, .immediate, .ofConnection],
    "Close the connection.", .ok
  ) { call throws(CommandError) in
    call.ok()
    call.session.isClosing = true
  },

  CommandSpec(
    "RESET", nil, group: .connection,
    [.fast, .whileSubscribed, .unlogged, .makesRoom, .immediate, .ofConnection],
    complexity: "O(subscriptions + scopes)",
    "Reset the connection: RESP2, no subscriptions, no handlers, no name, no MULTI."
  ) { call throws(CommandError) in
    try reset(call)
  },

  CommandSpec(
    "SELECT", nil, [Parameter("index", .integer(0...0), "The number of the database.")],
    group: .connection, [.fast], "Select the only database, 0.", .ok
  ) { call throws(CommandError) in
    guard call.text(1) == "0" else {
      throw CommandError("ERR the only database is 0")
    }
    call.ok()
  },
]

private let message = Parameter("message", .text(), "The text to reply with.")

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

private struct HelloRequest {
  var version: RESPEncoder.Version
  var name: [UInt8]?

  init(_ call: Call) throws(CommandError) {
    version = call.session.output.version
    guard call.arguments.count > 1 else { return }
    switch call.text(1) {
    case "2": version = .resp2
    case "3": version = .resp3
    default: throw CommandError("NOPROTO the protocol versions are 2 and 3")
    }
  }
}

private func hello(_ call: Call, _ request: HelloRequest) {
  let session = call.session
  session.output.version = request.version
  if let name = request.name { session.name = name }
  session.output.map(7)
  session.output.pair("server", Product.name)
  session.output.pair("version", Product.version)
  session.output.pair("proto", Int64(request.version.rawValue))
  session.output.pair("id", Int64(clamping: session.client.connection))
  session.output.pair("mode", "standalone" as StaticString)
  session.output.pair("role", "master" as StaticString)
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
