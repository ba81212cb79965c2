import Wire

/// Why a command about the stored state fails, as the text of an error reply.
package struct StateError: Error, Equatable {
  package let text: String
  package init(_ text: String) { self.text = text }
}

let backupCommands: [CommandSpec] = [
  CommandSpec(
    "BACKUP", "BEGIN", group: .server, [.admin, .afterLoading, .ofConnection],
    complexity: "O(1); then O(state), beside everything else",
    "Begin a copy of the current state for this connection.", .value(.count)
  ) { call throws(CommandError) in
    let connection = call.session.client.connection
    call.session.output.integer(
      try call.ask { host throws(StateError) in try host.beginBackup(for: connection) })
  },

  CommandSpec(
    "BACKUP", "SIZE", [copyID], group: .server, [.admin],
    "Return the length of the copy in bytes; null while it is made.", .value(.count.orNull)
  ) { call throws(CommandError) in
    let (id, connection) = (try call.backupID(), call.session.client.connection)
    let size = try call.ask { host throws(StateError) in try host.backupSize(id, of: connection) }
    if let size { call.session.output.integer(size) } else { call.session.output.null() }
  },

  CommandSpec(
    "BACKUP", "READ",
    [
      copyID, Parameter("offset", .count, "Where to read."), .maximumBytes,
    ], group: .server, [.admin, .unlogged],
    complexity: "O(count)", "Read up to 1048576 bytes of the copy; none at its end.",
    .value(.bytes())
  ) { call throws(CommandError) in
    let (id, connection) = (try call.backupID(), call.session.client.connection)
    let (offset, count) = try call.part("offset", at: 3)
    call.session.output.bulk(
      try call.ask { host throws(StateError) in
        try host.readBackup(id, of: connection, at: offset, count: count)
      })
  },

  CommandSpec(
    "BACKUP", "END", [copyID], group: .server, [.admin],
    "Remove the copy.", .ok
  ) { call throws(CommandError) in
    let (id, connection) = (try call.backupID(), call.session.client.connection)
    try call.ask { host throws(StateError) in try host.endBackup(id, of: connection) }
    call.ok()
  },

  CommandSpec(
    "STATE", "ACKNOWLEDGE", group: .server, [.admin, .afterLoading],
    "Acknowledge all damage to the state that was found; return how many findings.",
    .value(.count)
  ) { call throws(CommandError) in
    let client = call.session.client
    let count = try call.ask { host throws(StateError) in try host.acknowledgeDamage(for: client) }
    call.session.output.integer(Int64(count))
  },
]

private let copyID = Parameter("id", .count, "The number of the copy, as BEGIN returned it.")

extension Parameter {
  static let maximumBytes = Parameter("count", .integer(1...1_048_576), "The most bytes.")
}

extension Call {
  /// Asks the host for something stored; why it fails is the error reply.
  func ask<R>(
    _ body: (any CommandHost) throws(StateError) -> R
  ) throws(CommandError) -> R {
    do {
      return try body(dispatcher.host)
    } catch {
      throw CommandError(error.text)
    }
  }

  /// Reads where a part begins, and how many bytes it has at most.
  func part(_ name: String, at index: Int) throws(CommandError) -> (start: Int64, count: Int) {
    (
      try spec.integer(arguments[index], name, in: 0...Int64.max / 2),
      Int(try spec.integer(arguments[index + 1], "count", in: 1...1_048_576))
    )
  }

  fileprivate func backupID() throws(CommandError) -> Int64 {
    try spec.integer(arguments[2], "id", in: 0...Int64.max)
  }
}
