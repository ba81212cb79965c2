import Wire

/// The commands that a client has sent since MULTI, until EXEC or DISCARD.
final class Transaction {
  static let maximumCommands = 1_024
  /// The memory of an argument besides its bytes.
  private static let argumentOverhead = 8

  /// All transactions of a user may take this many times `max-request-length`.
  private static let maximumOfUser = 64

  fileprivate(set) var commands: [KeptArguments] = []
  private(set) var length = 0
  private let user: User?
  /// Whether a command was refused since MULTI, so that EXEC runs none.
  var isRefused = false

  fileprivate init(of user: User?) { self.user = user }

  deinit { user?.queuedBytes -= length }

  fileprivate func append(
    _ arguments: Arguments, atMost maximum: Int, _ spec: CommandSpec
  ) throws(CommandError) {
    guard commands.count < Self.maximumCommands else {
      throw CommandError(
        "LIMIT MULTI takes at most \(Self.maximumCommands) commands; send EXEC and MULTI in between"
      )
    }
    var length = length
    for index in 0..<arguments.count {
      length += arguments[index].count + Self.argumentOverhead
    }
    guard length <= maximum else {
      throw CommandError(
        "LIMIT max-request-length is \(maximum), and '\(spec.fullName)' would exceed it for all "
          + "commands since MULTI; send EXEC and MULTI in between")
    }
    let added = length - self.length
    if let user {
      guard user.queuedBytes + added <= maximum * Self.maximumOfUser else {
        throw CommandError(
          "LIMIT the commands since MULTI of all connections of this user take "
            + "\(maximum * Self.maximumOfUser) bytes, \(Self.maximumOfUser) times max-request-length; send "
            + "EXEC or DISCARD on some")
      }
      user.queuedBytes += added
    }
    self.length = length
    commands.append(KeptArguments(arguments))
  }
}

let transactionCommands: [CommandSpec] = [
  CommandSpec(
    "MULTI", nil, group: .connection, [.fast, .immediate, .ofConnection],
    "Queue the commands that follow, until EXEC.", .ok
  ) { call throws(CommandError) in
    guard call.session.transaction == nil else {
      throw CommandError("ERR MULTI calls cannot be nested; send EXEC or DISCARD first")
    }
    call.session.transaction = Transaction(of: call.session.user)
    call.ok()
  },

  CommandSpec(
    "EXEC", nil, group: .connection, [.immediate, .makesRoom, .ofConnection],
    complexity: "O(queued commands)",
    "Run the queued commands with nothing between them, or none if one was refused."
  ) { call throws(CommandError) in
    let (dispatcher, session) = (call.dispatcher, call.session)
    // Events of transactions wait to be matched, so one begins only once those before have been.
    try session.execute(
      { now throws(CommandError) in
        guard dispatcher.hasDeliveredAll else { return false }
        try dispatcher.runTransaction(of: session, at: now)
        return true
      }, at: call.now)
  },

  CommandSpec(
    "DISCARD", nil, group: .connection, [.fast, .immediate, .makesRoom, .ofConnection],
    "Drop the queued commands.", .ok
  ) { call throws(CommandError) in
    guard call.session.transaction != nil else {
      throw CommandError("ERR DISCARD without MULTI")
    }
    call.session.transaction = nil
    call.ok()
  },

  CommandSpec(
    "WATCH", nil, [.key, .key.repeated], group: .connection, [.fast, .immediate, .ofConnection],
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
    try checkCost(of: transaction)
    session.output.array(transaction.commands.count)
    // Comparing many events with many patterns takes long: that is done afterwards, bit by bit.
    engine.subscriptions.matchesLater = true
    defer { engine.subscriptions.matchesLater = false }
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

// MARK: What EXEC costs

extension Dispatcher {
  /// What the replies of a transaction may take in bytes, as `FieldSize` counts, besides the first
  /// `freeBytes` of each: what a small view takes, so that ordinary commands always pass.
  private static let maximumBytes = 1 << 20
  private static let freeBytes = 4_096

  /// Refuses a transaction whose replies would be so large that they held the loop, judging from
  /// the entities as they are. Stops looking as soon as it is too much.
  private func checkCost(of transaction: Transaction) throws(CommandError) {
    var sizes: [UInt64: ViewSize] = [:]
    var total = 0
    for (index, command) in transaction.commands.enumerated() {
      command.withArguments { arguments in
        total += max(replyBytes(arguments, &sizes) - Self.freeBytes, 0)
      }
      guard total <= Self.maximumBytes else {
        throw CommandError(
          "LIMIT the replies to the commands since MULTI would be too large, from command "
            + "\(index + 1) on; none was run. Send those about large entities without MULTI, or "
            + "fewer at once")
      }
    }
  }

  /// Returns the most bytes of the reply to a queued command.
  ///
  /// - Parameter sizes: of the views so far, by the hash of the entity.
  private func replyBytes(_ arguments: Arguments, _ sizes: inout [UInt64: ViewSize]) -> Int {
    guard case .found(let row) = table.find(arguments[0], arguments.count > 1 ? arguments[1] : nil),
      let kind = table.rows[row].group.kind
    else { return 0 }
    let spec = table.rows[row]
    guard spec.keyPosition > 0, spec.keyPosition < arguments.count else { return 0 }
    let key = arguments[spec.keyPosition]
    let name = kind.hash(of: key)
    var size = sizes[name] ?? ViewSize(bytes: viewBytes(kind, key))
    defer { sizes[name] = size }
    if !spec.flags.contains(.readOnly) {
      let length = (spec.keyPosition + 1..<arguments.count).reduce(0) { $0 + arguments[$1].count }
      size.grow(by: length, kind.behavior.partBytes)
    }
    switch spec.reply {
    case .listing:
      let limit = CommandValues(spec, arguments).options["LIMIT"]?.first
      let views = limit.map { Int(String(decoding: $0, as: UTF8.self)) ?? 1 } ?? 100
      return size.maximum * min(max(views, 1), count(of: kind))
    case .answerOfSeveral:
      let end = spec.optionsStart?(arguments) ?? spec.keyPosition + 1
      return size.maximum * (end - spec.keyPosition)
    default: return size.maximum
    }
  }

  private func viewBytes(_ kind: EntityKind, _ key: Span<UInt8>) -> Int {
    func bytes<K: Kind>(_: K.Type) -> Int {
      K.store(of: engine).find(key).map { K.view($0, in: engine, at: host.now).size.bytes } ?? 1_024
    }
    return bytes(kind.behavior)
  }

  private func count(of kind: EntityKind) -> Int { engine.count(kind) }
}

/// The most bytes that the view of an entity may take between the commands of a transaction.
private struct ViewSize {
  var bytes: Int
  private var longest = 0

  init(bytes: Int) { self.bytes = bytes }

  /// A view has a few texts, each from one command.
  var maximum: Int { bytes + 4 * longest }

  /// - Parameter part: the bytes that a command may add to a list in the view; 0 without lists.
  mutating func grow(by length: Int, _ part: Int) {
    if part > 0 { bytes += length + part } else { longest = max(longest, length) }
  }
}
