import Wire

extension CommandSpec {
  /// Creates a command with options.
  ///
  /// - Parameters:
  ///   - positional: the arguments before the options, as in a syntax line.
  ///   - request: makes the value that the options are read into.
  convenience init<Request>(
    _ name: String, _ subcommand: String? = nil, _ positional: String, _ options: [Option<Request>],
    group: Group, _ flags: Flags, complexity: String = "O(1)", _ summary: String,
    request: @escaping @Sendable (Call) throws(CommandError) -> Request,
    handler: @escaping @Sendable (Call, inout Request) throws(CommandError) -> Void
  ) {
    let syntax = [positional] + options.map { $0.isRequired ? $0.syntax : "[\($0.syntax)]" }
    let place =
      (subcommand == nil ? 1 : 2) + positional.split(separator: " ").count
    self.init(
      name, subcommand, syntax.filter { !$0.isEmpty }.joined(separator: " "), group: group, flags,
      complexity: complexity, summary
    ) { call throws(CommandError) in
      var read = try request(call)
      try call.read(options, from: place, into: &read)
      try handler(call, &read)
    }
  }

  /// Creates a command with options whose request does not depend on the call.
  convenience init<Request: Sendable>(
    _ name: String, _ subcommand: String? = nil, _ positional: String, _ options: [Option<Request>],
    group: Group, _ flags: Flags, complexity: String = "O(1)", _ summary: String,
    into request: Request,
    handler: @escaping @Sendable (Call, inout Request) throws(CommandError) -> Void
  ) {
    self.init(
      name, subcommand, positional, options, group: group, flags, complexity: complexity, summary,
      request: { _ in request }, handler: handler)
  }

  // MARK: What most kinds have

  static func get<K: Kind>(_ kind: K.Type, _ summary: String) -> CommandSpec {
    CommandSpec(
      K.commandName, "GET", K.keyName, group: .entities(K.kind), [.readOnly, .fast], summary
    ) { call throws(CommandError) in
      call.reply(call.dispatcher.engine.get(kind, try call.key(), at: call.now))
    }
  }

  static func list<K: Kind>(_ kind: K.Type, _ summary: String) -> CommandSpec {
    CommandSpec(
      K.commandName, "LIST", "",
      K.hasOwners ? listOptions : listOptions.filter { !($0.name == "OWNER") },
      group: .entities(K.kind), [.readOnly], complexity: "O(LIMIT)", summary,
      into: ListQuery()
    ) { call, query throws(CommandError) in
      let page = call.dispatcher.engine.list(kind, query, at: call.now)
      call.reply(cursor: "\(page.cursor)", page.views)
    }
  }

  /// A method of the engine that changes the entity of a key; only in the given generation, if any.
  typealias Change<Result> =
    @Sendable (Engine) -> (Span<UInt8>, Generation?, Moment) throws(EngineError) ->
    Result
  /// A `Change` with one more argument before the generation.
  typealias ChangeBy<Argument, Result> =
    @Sendable (Engine) -> (Span<UInt8>, Argument, Generation?, Moment)
    throws(EngineError) -> Result
  typealias Reply<Result> = @Sendable (Call, Result) -> Void

  /// Makes a command that calls a method of the engine.
  static func change<K: Kind, Result>(
    _ kind: K.Type, _ name: String, _ summary: String, _ body: @escaping Change<Result>,
    flags: Flags = [.write, .fast], complexity: String = "O(1)", reply: @escaping Reply<Result>
  ) -> CommandSpec {
    change(
      kind, name, "", summary, { _ in },
      { engine in
        { key, _, generation, now throws(EngineError) in
          try body(engine)(key, generation, now)
        }
      }, flags: flags, complexity: complexity, reply: reply)
  }

  /// - Parameters:
  ///   - parameter: the name of the argument after the key.
  ///   - argument: reads that argument.
  static func change<K: Kind, Argument, Result>(
    _ kind: K.Type, _ name: String, _ parameter: String, _ summary: String,
    _ argument: @escaping @Sendable (Call) throws(CommandError) -> Argument,
    _ body: @escaping ChangeBy<Argument, Result>, flags: Flags = [.write, .fast],
    complexity: String = "O(1)", reply: @escaping Reply<Result>
  ) -> CommandSpec {
    CommandSpec(
      K.commandName, name, parameter.isEmpty ? K.keyName : "\(K.keyName) \(parameter)",
      [.generation({ $0 = $1 })], group: .entities(K.kind), flags, complexity: complexity, summary,
      into: nil as Generation?
    ) { call, generation throws(CommandError) in
      let value = try argument(call)
      let key = try call.key()
      reply(
        call,
        try call.run { () throws(EngineError) in
          try body(call.dispatcher.engine)(key, value, generation, call.now)
        })
    }
  }
}

/// Replies of commands that change an entity.
extension Call {
  static func view(_ call: Call, _ view: some EntityView) { call.session.output.view(view) }

  /// Replies 1, or 0 if nothing was done.
  static func done(_ call: Call, _ isDone: Bool) { call.session.output.integer(isDone ? 1 : 0) }
}

extension Kind {
  static var commandName: String { name.description.uppercased() }
}

private let listOptions: [Option<ListQuery>] = [
  .text("MATCH", "glob", { $0.pattern = $1 }, atMost: 1_024),
  Option("OWNER", "none|connection|connection:ID|scope:ID") {
    query, reader, call throws(CommandError) in
    query.owner = try call.listedOwner(try reader.value())
  },
  Option("CURSOR", "c") { query, reader, _ throws(CommandError) in
    query.cursor = Int(try reader.integer(in: 0...Int64(UInt32.max)))
  },
  Option("LIMIT", "n") { query, reader, _ throws(CommandError) in
    query.limit = Int(try reader.integer(in: 1...1_000))
  },
]

extension Engine {
  /// Returns a page of a listing, as the replies that a client would receive, one after another.
  package func replies(
    listing kind: EntityKind, _ query: ListQuery, at now: Moment
  ) -> (cursor: Int, replies: [UInt8]) {
    func list<K: Kind>(_ kind: K.Type) -> (Int, [UInt8]) {
      let page = self.list(kind, query, at: now)
      var encoder = RESPEncoder(.resp3)
      for view in page.views { encoder.view(view) }
      return (page.cursor, encoder.bytes)
    }
    return list(kind.behavior)
  }
}

extension Call {
  /// Replies with a page of a listing, and the cursor of the next.
  func reply(cursor: String, _ views: [some EntityView]) {
    session.output.array(2)
    session.output.bulk(cursor)
    session.output.array(views.count)
    for view in views { session.output.view(view) }
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
    return try owner(bytes)
  }
}
