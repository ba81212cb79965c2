import Wire

/// The commands that a client has sent since MULTI, until EXEC or DISCARD.
final class Transaction {
  static let mostCommands = 1_024
  /// The memory of an argument besides its bytes.
  private static let argumentOverhead = 8

  fileprivate(set) var commands: [KeptArguments] = []
  fileprivate(set) var length = 0
  /// Whether a command was refused since MULTI, so that EXEC runs none.
  var isRefused = false

  fileprivate func append(
    _ arguments: Arguments, atMost most: Int, _ spec: CommandSpec
  ) throws(CommandError) {
    guard commands.count < Self.mostCommands else {
      throw CommandError(
        "LIMIT MULTI takes at most \(Self.mostCommands) commands; send EXEC and MULTI in between")
    }
    var length = length
    for index in 0..<arguments.count {
      length += arguments[index].count + Self.argumentOverhead
    }
    guard length <= most else {
      throw CommandError(
        "LIMIT max-request-length is \(most), and '\(spec.fullName)' would exceed it for all "
          + "commands since MULTI; send EXEC and MULTI in between")
    }
    self.length = length
    commands.append(KeptArguments(arguments))
  }
}

let transactionCommands: [CommandSpec] = [
  CommandSpec(
    "MULTI", nil, group: .connection, [.fast, .immediate],
    "Queue the commands that follow, until EXEC.", .ok
  ) { call throws(CommandError) in
    guard call.session.transaction == nil else {
      throw CommandError("ERR MULTI calls cannot be nested; send EXEC or DISCARD first")
    }
    call.session.transaction = Transaction()
    call.ok()
  },

  CommandSpec(
    "EXEC", nil, group: .connection, [.immediate, .makesRoom], complexity: "O(queued commands)",
    "Run the queued commands with nothing between them, or none if one was refused."
  ) { call throws(CommandError) in
    try call.dispatcher.runTransaction(of: call.session, at: call.now)
  },

  CommandSpec(
    "DISCARD", nil, group: .connection, [.fast, .immediate, .makesRoom],
    "Drop the queued commands.", .ok
  ) { call throws(CommandError) in
    guard call.session.transaction != nil else {
      throw CommandError("ERR DISCARD without MULTI")
    }
    call.session.transaction = nil
    call.ok()
  },

  CommandSpec(
    "WATCH", nil, [.key, .key.repeated], group: .connection, [.fast, .immediate],
    "Refused: GENERATION does this for one entity."
  ) { call throws(CommandError) in
    throw CommandError(
      "ERR WATCH is not supported: each command checks and changes in one step. Pass GENERATION "
        + "to change an entity only if nobody has replaced it")
  },
]

extension CommandSpec {
  /// Whether MULTI can queue it: it replies at once, and takes a bounded time.
  fileprivate var canBeQueued: Bool {
    if group.kind != nil { return subcommand != "LIST" && subcommand != "HELP" }
    return flags.contains(.fast) && ["PING", "ECHO", "TIME", "DBSIZE", "EVENTS"].contains(name)
  }
}

extension Dispatcher {
  /// Queues a command of a session for EXEC.
  @inline(never)
  func queue(
    _ arguments: Arguments, _ spec: CommandSpec, of session: Session
  ) throws(CommandError) {
    if let fleet, fleet.shares(spec) {
      throw CommandError(
        "ERR \(spec.fullName) cannot be queued by MULTI: its servers decide for all hosts, one key "
          + "at a time; send it without MULTI, in redis-py with pipeline(transaction=False)")
    }
    guard spec.canBeQueued else {
      throw CommandError(
        "ERR \(spec.fullName) cannot be queued by MULTI; send it before MULTI or after EXEC")
    }
    try session.transaction?.append(arguments, atMost: settings.maxRequestLength, spec)
    session.output.simple("QUEUED")
  }

  /// Runs the queued commands, and replies with an array of their replies. Events follow it.
  @inline(never)
  fileprivate func runTransaction(of session: Session, at now: Moment) throws(CommandError) {
    guard let transaction = session.transaction else {
      throw CommandError("ERR EXEC without MULTI")
    }
    session.transaction = nil
    guard !transaction.isRefused else {
      throw CommandError(
        "EXECABORT no queued command was run, as one of them was refused; its error says why")
    }
    session.output.array(transaction.commands.count)
    for command in transaction.commands {
      command.withArguments { runQueued($0, for: session, at: now) }
    }
  }

  @inline(never)
  private func runQueued(_ arguments: Arguments, for session: Session, at now: Moment) {
    let start = session.output.bytes.count
    var took: Int64 = 0
    do throws(CommandError) {
      // What is allowed may have changed since it was queued.
      let index = try find(arguments)
      try check(table.rows[index], arguments, session)
      try perform(index, arguments, for: session, at: now, &took)
    } catch {
      refuse(session, error, since: start)
    }
  }
}
