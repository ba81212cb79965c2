import Wire

extension CommandSpec {
  /// Creates a command with options.
  ///
  /// - Parameters:
  ///   - arguments: the parameters before the options.
  ///   - place: returns where the options begin, if not after the positional arguments.
  ///   - uses: returns the keys that it uses without naming them.
  ///   - request: makes the value that the options are read into.
  convenience init<Request>(
    _ name: String, _ subcommand: String? = nil, _ arguments: [Parameter],
    _ options: [Option<Request>], group: Group, _ flags: Flags, complexity: String = "O(1)",
    _ summary: String, _ reply: ReplyForm, optionsStart: OptionsStart? = nil,
    uses: UsedKeys<Request>? = nil,
    request: @escaping @Sendable (Call) throws(CommandError) -> Request,
    handler: @escaping @Sendable (Call, inout Request) throws(CommandError) -> Void
  ) {
    let start = (subcommand == nil ? 1 : 2) + arguments.count
    self.init(
      name, subcommand, arguments + options.map(\.parameter), group: group, flags,
      complexity: complexity, summary, reply, optionsStart: optionsStart
    ) { call throws(CommandError) in
      var read = try request(call)
      try call.read(options, from: optionsStart?(call.arguments) ?? start, into: &read)
      if let uses, call.session.rights != nil { try call.authorize(uses(call, read)) }
      try handler(call, &read)
    }
  }

  /// Creates a command with options whose request does not depend on the call.
  convenience init<Request: Sendable>(
    _ name: String, _ subcommand: String? = nil, _ arguments: [Parameter],
    _ options: [Option<Request>], group: Group, _ flags: Flags, complexity: String = "O(1)",
    _ summary: String, _ reply: ReplyForm, optionsStart: OptionsStart? = nil,
    uses: UsedKeys<Request>? = nil, into request: Request,
    handler: @escaping @Sendable (Call, inout Request) throws(CommandError) -> Void
  ) {
    self.init(
      name, subcommand, arguments, options, group: group, flags, complexity: complexity, summary,
      reply, optionsStart: optionsStart, uses: uses, request: { _ in request }, handler: handler)
  }

  /// Returns the keys that a command uses without naming them: stored from an earlier request, or
  /// the default of an option. It takes the right to change their entities.
  typealias UsedKeys<Request> = @Sendable (Call, Request) -> [(kind: EntityKind, key: [UInt8])]

  // MARK: What most kinds have

  static func get<K: Kind>(_ kind: K.Type, _ summary: String) -> CommandSpec {
    CommandSpec(
      K.commandName, "GET", [K.key], group: .entities(K.kind), [.readOnly, .fast], summary,
      .viewOrNull
    ) { call throws(CommandError) in
      call.reply(call.dispatcher.engine.get(kind, try call.key(), at: call.now))
    }
  }

  static func list<K: Kind>(_ kind: K.Type, _ summary: String) -> CommandSpec {
    CommandSpec(
      K.commandName, "LIST", [],
      K.hasOwners ? listOptions : listOptions.filter { !($0.name == "OWNER") },
      group: .entities(K.kind), [.readOnly], complexity: "O(LIMIT)", summary, .listing,
      into: ListQuery()
    ) { call, query throws(CommandError) in
      query.rights = call.session.rights
      var page = ReplyPage(call.session.output.version)
      let cursor = call.dispatcher.engine.list(kind, query, at: call.now) { view in
        page.append { $0.view(view, for: call.session.rights) }
      }
      call.reply(cursor: "\(cursor)", page)
    }
  }

  /// The form of a reply, and what writes it.
  struct Reply<Result>: Sendable {
    let form: ReplyForm
    let write: @Sendable (Call, Result) -> Void

    init(_ form: ReplyForm, _ write: @escaping @Sendable (Call, Result) -> Void) {
      self.form = form
      self.write = write
    }
  }

  /// Creates a command that calls the engine with its key, and replies with the result.
  ///
  /// - Parameters:
  ///   - more: the parameters between the key and the options.
  ///   - request: makes the value that the options are read into.
  static func call<K: Kind, Request, Result>(
    _ kind: K.Type, _ name: String, _ more: [Parameter] = [], _ options: [Option<Request>] = [],
    _ summary: String, flags: Flags = [.write, .fast], complexity: String = "O(1)",
    uses: UsedKeys<Request>? = nil,
    request: @escaping @Sendable (Call) throws(CommandError) -> Request,
    _ body: @escaping @Sendable (Call, Span<UInt8>, Request) throws(EngineError) -> Result,
    reply: Reply<Result>
  ) -> CommandSpec {
    CommandSpec(
      K.commandName, name, [K.key] + more, options, group: .entities(K.kind), flags,
      complexity: complexity, summary, reply.form, uses: uses, request: request
    ) { call, request throws(CommandError) in
      let key = try call.key()
      reply.write(call, try call.run { () throws(EngineError) in try body(call, key, request) })
    }
  }

  /// Creates such a command whose request does not depend on the call.
  static func call<K: Kind, Request: Sendable, Result>(
    _ kind: K.Type, _ name: String, _ options: [Option<Request>],
    _ summary: String, flags: Flags = [.write, .fast], complexity: String = "O(1)",
    uses: UsedKeys<Request>? = nil, into request: Request,
    _ body: @escaping @Sendable (Call, Span<UInt8>, Request) throws(EngineError) -> Result,
    reply: Reply<Result>
  ) -> CommandSpec {
    call(
      kind, name, [], options, summary, flags: flags, complexity: complexity, uses: uses,
      request: { _ in request }, body, reply: reply)
  }

  /// A method of the engine that changes the entity of a key; only in the given generation, if any.
  typealias Change<Result> =
    @Sendable (Engine) -> (Span<UInt8>, Generation?, Moment) throws(EngineError) -> Result

  static func change<K: Kind, Result>(
    _ kind: K.Type, _ name: String, _ summary: String, _ body: @escaping Change<Result>,
    flags: Flags = [.write, .fast], complexity: String = "O(1)", reply: Reply<Result>
  ) -> CommandSpec {
    call(
      kind, name, [.generation({ $0 = $1 })], summary, flags: flags, complexity: complexity,
      into: nil as Generation?,
      { call, key, generation throws(EngineError) in
        try body(call.engine)(key, generation, call.now)
      }, reply: reply)
  }

  /// A `Change` with one more argument before the generation.
  typealias ChangeBy<Argument, Result> =
    @Sendable (Engine) -> (Span<UInt8>, Argument, Generation?, Moment)
    throws(EngineError) -> Result

  /// - Parameters:
  ///   - parameter: the argument after the key.
  ///   - argument: reads that argument.
  static func change<K: Kind, Argument, Result>(
    _ kind: K.Type, _ name: String, _ parameter: Parameter, _ summary: String,
    _ argument: @escaping @Sendable (Call) throws(CommandError) -> Argument,
    _ body: @escaping ChangeBy<Argument, Result>, flags: Flags = [.write, .fast],
    reply: Reply<Result>
  ) -> CommandSpec {
    call(
      kind, name, [parameter], [.generation({ $0.generation = $1 })], summary, flags: flags,
      request: { call throws(CommandError) in
        (argument: try argument(call), generation: nil as Generation?)
      },
      { call, key, request throws(EngineError) in
        try body(call.engine)(key, request.argument, request.generation, call.now)
      }, reply: reply)
  }
}

extension CommandSpec.Reply where Result: EntityView {
  static var view: Self { Self(.view) { $0.reply($1) } }
}

extension CommandSpec.Reply where Result == Bool {
  /// Replies 1, or 0 if nothing was done.
  static var done: Self { Self(.done) { $0.session.output.integer($1 ? 1 : 0) } }
}

extension CommandSpec.Reply {
  /// Replies with the view after a change, and whether and why it was refused.
  static func answer<View: EntityView>() -> Self where Result == (refusal: Reason?, view: View) {
    Self(.answer) { $0.reply($1.view, Answer($1.refusal)) }
  }
}

extension Kind {
  static var commandName: String { name.description.uppercased() }
}

private let listOptions: [Option<ListQuery>] = [
  .text("MATCH", "glob", "Only keys that match the pattern.", { $0.pattern = $1 }, atMost: 1_024),
  Option(
    "OWNER", "none|connection|connection:ID|scope:ID", .owner, "Only entities of that owner."
  ) {
    query, reader, call throws(CommandError) in
    query.owner = try call.listedOwner(try reader.value())
  },
  Option(
    "CURSOR", "c", .integer(0...Int64(UInt32.max)),
    "The cursor of the page before; 0 for the first page, and after the last.", default: "0"
  ) { query, reader, _ throws(CommandError) in
    query.cursor = Int(try reader.integer(in: 0...Int64(UInt32.max)))
  },
  Option("LIMIT", "n", .integer(1...1_000), "The most views on a page.", default: "100") {
    query, reader, _ throws(CommandError) in
    query.limit = Int(try reader.integer(in: 1...1_000))
  },
]

extension Engine {
  /// Returns a page of a listing, as the replies that a client would receive, one after another.
  package func replies(
    listing kind: EntityKind, _ query: ListQuery, at now: Moment
  ) -> (cursor: Int, replies: [UInt8]) {
    func list<K: Kind>(_ kind: K.Type) -> (Int, [UInt8]) {
      var page = ReplyPage(.resp3)
      let cursor = self.list(kind, query, at: now) { view in
        page.append { $0.view(view, for: nil) }
      }
      return (cursor, page.encoder.bytes)
    }
    return list(kind.behavior)
  }
}

extension Call {
  /// Replies with a page of a listing, and the cursor of the next.
  func reply(cursor: String, _ page: ReplyPage) {
    session.output.array(2)
    session.output.bulk(cursor)
    session.output.array(page.count)
    session.output.bytes += page.encoder.bytes
  }

  fileprivate func listedOwner(_ bytes: Span<UInt8>) throws(CommandError) -> Owner {
    let text = String(decoding: bytes).lowercased()
    let prefix = "connection:"
    if text.hasPrefix(prefix), let id = UInt64(text.dropFirst(prefix.count)) {
      return .connection(id)
    }
    guard !text.hasPrefix(prefix) else {
      throw problem(
        "OWNER '\(quoted(bytes))' is not one of none, connection, connection:ID, scope:ID")
    }
    return try owner(bytes, isListed: true)
  }
}
