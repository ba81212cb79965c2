import Wire

private let clearable = EntityKind.independent.map { "\($0.name)" }

/// Ends many entities at once, for administrators.
let clearCommands: [CommandSpec] = [
  CommandSpec(
    "CLEAR", nil,
    [
      Parameter(
        "kind", .text(),
        "A kind: \(clearable.dropLast().joined(separator: ", ")) or \(clearable.last!)."),
      Parameter("glob", .text(atMost: 1_024), "A glob pattern for keys: `*` `?` `[a-z]` `[^a]`."),
    ], group: .server, [.admin, .write, .afterLoading],
    complexity: "O(entities)",
    "End the entities of a kind whose keys match the pattern, and return how many.",
    .value(.count)
  ) { call throws(CommandError) in
    let name = call.text(1).lowercased()
    guard let kind = EntityKind.independent.first(where: { "\($0.name)" == name }) else {
      let known = clearable.joined(separator: ", ")
      throw call.problem("'\(quoted(call.arguments[1]))' is no kind that can be cleared: \(known)")
    }
    guard call.dispatcher.fleet?.shares(kind) != true else {
      throw CommandError("ERR the fleet shares \(name)s; end them one by one")
    }
    let (session, client, pattern) = (call.session, call.client, call.bytes(2))
    guard pattern.count <= 1_024 else { throw call.problem("a pattern has at most 1024 bytes") }
    let dispatcher = call.dispatcher
    var query = ListQuery()
    (query.pattern, query.limit) = (pattern, 32)
    var count = 0
    let part: ReplySlot.Part = { now throws(CommandError) in
      let keys: [[UInt8]]
      (query.cursor, keys) = dispatcher.engine.keys(of: kind, query, at: now)
      for key in keys {
        do throws(EngineError) {
          dispatcher.engine.journal?.willEnd(kind, key, .cancelled, at: now)
          if try dispatcher.engine.end(kind, key.span, at: now) { count += 1 }
        } catch {
          throw CommandError(
            "READONLY state cannot be stored now; \(count) were ended, the others are as they were")
        }
      }
      guard query.cursor == 0 else { return false }
      dispatcher.host.note(.cleared(count, kind, matching: pattern, by: client))
      session.output.integer(Int64(count))
      return true
    }
    try session.execute(part, at: call.now)
  }
]

extension Engine {
  /// Returns the keys of a page of a listing, and the cursor of the next.
  fileprivate func keys(
    of kind: EntityKind, _ query: ListQuery, at now: Moment
  ) -> (cursor: Int, keys: [[UInt8]]) {
    func list<K: Kind>(_ kind: K.Type) -> (Int, [[UInt8]]) {
      var keys: [[UInt8]] = []
      let cursor = visit(kind, query, at: now) {
        keys.append(K.store(of: self).key($0))
        return true
      }
      return (cursor, keys)
    }
    return list(kind.behavior)
  }

  /// Ends an entity, and returns whether there was one.
  package func end(
    _ kind: EntityKind, _ key: Span<UInt8>, at now: Moment
  ) throws(EngineError) -> Bool {
    try kind.shared?.end(key, in: self, at: now) ?? false
  }
}

extension ExpiringKind where Self: SharedKind {
  static func end(
    _ key: Span<UInt8>, in engine: Engine, at now: Moment
  ) throws(EngineError) -> Bool {
    try engine.cancel(Self.self, key, generation: nil, at: now)
  }
}
