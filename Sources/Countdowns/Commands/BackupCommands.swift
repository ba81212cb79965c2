import Wire

/// Why a command about the stored state fails, as the text of an error reply.
package struct StateError: Error, Equatable {
  package let text: String
  package init(_ text: String) { self.text = text }
}

let backupCommands: [CommandSpec] = [
  CommandSpec(
    "BACKUP", "BEGIN", group: .server, [.admin, .afterLoading],
    complexity: "O(1); then O(state), beside everything else",
    "Begin a copy of the current state for this connection.", .value(.count)
  ) { call throws(CommandError) in
    let host = call.dispatcher.host
    let connection = call.session.client.connection
    let id = try run { () throws(StateError) in try host.beginBackup(for: connection) }
    call.session.output.integer(id)
  },

  CommandSpec(
    "BACKUP", "SIZE", [copyID], group: .server, [.admin],
    "Return the length of the copy in bytes; null while it is made.", .value(.count.orNull)
  ) { call throws(CommandError) in
    let (id, host) = (try call.backupID(), call.dispatcher.host)
    let connection = call.session.client.connection
    let size = try run { () throws(StateError) in try host.backupSize(id, of: connection) }
    if let size { call.session.output.integer(size) } else { call.session.output.null() }
  },

  CommandSpec(
    "BACKUP", "READ",
    [
      copyID, Parameter("offset", .count, "Where to read."),
      Parameter("count", .integer(1...1_048_576), "The most bytes."),
    ], group: .server, [.admin, .unlogged],
    complexity: "O(count)", "Read up to 1048576 bytes of the copy; none at its end.",
    .value(.bytes())
  ) { call throws(CommandError) in
    let (id, host) = (try call.backupID(), call.dispatcher.host)
    let connection = call.session.client.connection
    let offset = try call.integer(call.arguments[3], "offset", in: 0...Int64.max / 2)
    let count = Int(try call.integer(call.arguments[4], "count", in: 1...1_048_576))
    call.session.output.bulk(
      try run { () throws(StateError) in
        try host.readBackup(id, of: connection, at: offset, count: count)
      })
  },

  CommandSpec(
    "BACKUP", "END", [copyID], group: .server, [.admin],
    "Remove the copy.", .ok
  ) { call throws(CommandError) in
    let (id, host) = (try call.backupID(), call.dispatcher.host)
    let connection = call.session.client.connection
    try run { () throws(StateError) in try host.endBackup(id, of: connection) }
    call.ok()
  },

  CommandSpec(
    "STATE", "ACKNOWLEDGE", group: .server, [.admin, .afterLoading],
    "Acknowledge all damage to the state that was found; return how many findings.",
    .value(.count)
  ) { call throws(CommandError) in
    let (host, client) = (call.dispatcher.host, call.session.client)
    let count = try run { () throws(StateError) in try host.acknowledgeDamage(for: client) }
    call.session.output.integer(Int64(count))
  },
]

private func run<R>(_ body: () throws(StateError) -> R) throws(CommandError) -> R {
  do {
    return try body()
  } catch {
    throw CommandError(error.text)
  }
}

private let copyID = Parameter("id", .count, "The number of the copy, as BEGIN returned it.")

extension Call {
  fileprivate func backupID() throws(CommandError) -> Int64 {
    try integer(arguments[2], "id", in: 0...Int64.max)
  }
}
