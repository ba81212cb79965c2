import Wire

/// One call of a command: the session, the arguments and the time.
struct Call: ~Escapable {
  let dispatcher: Dispatcher
  let session: Session
  let spec: CommandSpec
  let arguments: Arguments
  let now: Moment

  @_lifetime(copy arguments)
  init(
    dispatcher: Dispatcher, session: Session, spec: CommandSpec, arguments: Arguments, now: Moment
  ) {
    self.dispatcher = dispatcher
    self.session = session
    self.spec = spec
    self.arguments = arguments
    self.now = now
  }

  var engine: Engine { dispatcher.engine }
  var client: Client { session.client }

  /// The index of the first argument after the command's one or two names.
  var first: Int { spec.subcommand == nil ? 1 : 2 }

  func bytes(_ index: Int) -> [UInt8] { Array(arguments[index]) }
  func text(_ index: Int) -> String { String(decoding: arguments[index]) }

  func problem(_ text: String) -> CommandError { .syntax(text, spec) }

  private func problem(_ error: EngineError) -> CommandError {
    let key = arguments.count > first ? quoted(arguments[first]) : ""
    return CommandError(error.text(about: key, spec.group.noun))
  }

  /// Returns a reader of the options from `index` on.
  @_lifetime(copy self)
  func options(from index: Int) -> OptionReader { OptionReader(arguments, spec, from: index) }

  // MARK: Values

  /// Returns the command's key. Throws if it is empty or too long.
  @_lifetime(copy self)
  func key() throws(CommandError) -> Span<UInt8> { try key(arguments[first], "a key") }

  @_lifetime(copy key)
  func key(
    _ key: Span<UInt8>, _ what: String
  ) throws(CommandError) -> Span<UInt8> {
    let longest = EntityRecord.longestKey
    guard key.count >= 1, key.count <= longest else {
      throw CommandError("ERR \(what) has 1 to \(longest) bytes, this one \(key.count)")
    }
    return key
  }

  /// Returns the key of another entity. Throws without the right to change that.
  @_lifetime(copy bytes)
  func key(
    of kind: EntityKind, _ bytes: Span<UInt8>, _ what: String
  ) throws(CommandError) -> Span<UInt8> {
    let key = try key(bytes, what)
    try authorize(kind, key)
    return key
  }

  /// Returns an opaque payload. Throws if it has more than `max-payload-length` bytes.
  func payload(_ bytes: Span<UInt8>, _ what: String) throws(CommandError) -> [UInt8] {
    let maximum = dispatcher.engine.settings.limits.payloadLength
    guard bytes.count <= maximum else {
      throw CommandError(
        "LIMIT max-payload-length is \(maximum), and \(what) has \(bytes.count) bytes")
    }
    return Array(bytes)
  }

  /// Returns an interval. Throws if it is less than a millisecond.
  func lasting(_ interval: Interval, _ what: String) throws(CommandError) -> Interval {
    guard interval >= .milliseconds(1) else { throw problem("\(what) is at least 1ms") }
    return interval
  }

  /// Parses the owner of a new entity, or of entities to be listed.
  func owner(_ bytes: Span<UInt8>, isListed: Bool = false) throws(CommandError) -> Owner {
    if let scope = scope(ownedBy: bytes) {
      if dispatcher.engine.context.isWorkbench { throw problem(.shared) }
      try authorize(.scope, scope, isChange: !isListed)
      return try run { () throws(EngineError) in
        try dispatcher.engine.scopeOwner(scope, at: now)
      }
    }
    switch String(decoding: bytes).lowercased() {
    case "none": return .none
    case "connection":
      let fleet = spec.group.kind.flatMap { kind in
        dispatcher.fleet.flatMap { $0.shares(kind) ? $0 : nil }
      }
      let connection = session.client.connection
      return .connection(fleet?.ownerNumber(of: connection) ?? connection)
    default: throw problem("OWNER '\(quoted(bytes))' is not one of none, connection, scope:ID")
    }
  }

  /// Returns the ID of `scope:ID`, which can be any bytes; nil for other owners.
  @_lifetime(copy bytes)
  private func scope(ownedBy bytes: Span<UInt8>) -> Span<UInt8>? {
    let prefix = ("scope:" as StaticString).bytes
    guard bytes.count > prefix.count, bytes.count <= prefix.count + EntityRecord.longestKey,
      String(decoding: bytes.extracting(..<prefix.count)).lowercased() == "scope:"
    else { return nil }
    return bytes.extracting(prefix.count...)
  }

  // MARK: Parts

  /// Calls `body` with each element, a few at a time, so that other clients are served in between.
  /// The arguments of the command do not outlive the first part.
  func forEach<S: Sequence>(
    _ elements: S, in slot: ReplySlot? = nil,
    _ body: @escaping (S.Element, _ now: Moment) throws(CommandError) -> Void,
    finally: @escaping () -> Void = {}
  ) throws(CommandError) {
    try session.execute(ReplySlot.parts(elements, body, finally: finally), in: slot, at: now)
  }

  // MARK: Replies

  func ok() { session.output.simple("OK") }

  /// Runs `body`, and turns its error into an error reply.
  func run<R>(_ body: () throws(EngineError) -> R) throws(CommandError) -> R {
    do {
      return try body()
    } catch {
      if case .limit(let name, let value) = error {
        let key = spec.keyPosition > 0 ? bytes(spec.keyPosition) : nil
        dispatcher.host.note(.limitReached(name, value, by: client, key: key))
      }
      throw problem(error)
    }
  }
}

extension EngineError {
  /// Returns the error's message.
  ///
  /// - Parameters:
  ///   - key: the entity's key, as a part of a message.
  ///   - noun: what the entity is.
  func text(about key: String, _ noun: String) -> String {
    switch self {
    case .notFound:
      return "NOTFOUND no \(noun) '\(key)'"
    case .stale(let now):
      return "STALE '\(key)' has generation \(now.value) now"
    case .limit(let name, let value):
      return "LIMIT \(name) is \(value) and reached"
    case .isReady:
      return "ERR '\(key)' is not counting; COUNTDOWN START or RESEND it first"
    case .noPolicy:
      return "ERR '\(key)' was started without a policy, so its codes are not tracked; "
        + "COUNTDOWN START it with POLICY"
    case .noCodes(let policy):
      return "ERR the policy '\(policy)' of '\(key)' has no validity, so its codes are not "
        + "tracked; set policies.\(policy).validity in the configuration"
    case .needsGeneration:
      return "ERR all codes of '\(key)' were tried at once, with ATTEMPT ANY; give PASS the "
        + "GENERATION of the one that was right"
    case .leaseNeedsGeneration:
      return "ERR '\(key)' was begun with LEASE, so others may have begun it again; give the "
        + "GENERATION that BEGIN replied"
    case .noLease:
      return "ERR '\(key)' was begun without LEASE, so there is nothing to extend; ONCE BEGIN it "
        + "with LEASE"
    case .readOnly:
      return "READONLY state cannot be stored now, and nothing has changed; INFO persistence "
        + "says why"
    case .levelNotAllowed(let level, let maximum):
      return "ERR '\(key)' allows no level above \(maximum.rawValue), so not \(level.rawValue); "
        + "hud.max-level or hud.screens in the configuration can allow it"
    case .tooManyHolds:
      return "LIMIT '\(key)' has \(Presentation.maximumHolds) holds, as many as a HUD can have; "
        + "HUD POP or HUD DISMISS it when the work is done"
    case .scope(let problem):
      return problem.text(about: key)
    case .limits(let problem): return "ERR " + problem.text
    case .tokenOfAnother:
      return "ERR TOKEN was accepted with another request: other limits, another COST or amount; "
        + "give each request a token of its own"
    case .shared:
      return
        "ERR '\(key)' is shared with other hosts, where no scope of this host is; use OWNER "
        + "connection, leave out OWNER, or take the kind out of fleet.kinds"
    }
  }
}

/// Returns a value as a part of a message: short and printable.
func quoted(_ bytes: Span<UInt8>) -> String {
  let maximum = 64
  let text = String(decoding: bytes.extracting(first: maximum))
  return text.printable + (bytes.count > maximum ? "…" : "")
}
