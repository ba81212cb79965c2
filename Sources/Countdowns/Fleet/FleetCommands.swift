import Wire

/// Begins a fleet, and moves what was stored before this daemon joined it.
let fleetCommands: [CommandSpec] = [
  CommandSpec(
    "FLEET", "INIT", group: .server, [.admin, .afterLoading],
    "Begin a new fleet; return how many partitions were begun.",
    .value(.count)
  ) { call throws(CommandError) in try call.begin(.initialize) },

  CommandSpec(
    "FLEET", "ACCEPT-LOSS", group: .server, [.admin, .afterLoading],
    "Continue without lost records; return how many partitions were begun.",
    .value(.count)
  ) { call throws(CommandError) in try call.begin(.acceptLoss) },

  CommandSpec(
    "FLEET", "IMPORT",
    [
      Parameter("shared", .text(), "A kind that the fleet shares."),
      Parameter("place", .count, "The place of the record in the store."),
      Parameter("record", .bytes(), "The record, as in a copy of the state.", isSecret: true),
      Parameter(
        "sends", .bytes(), "The place and the record of each page of sends of a limit.",
        isSecret: true
      ).repeated,
    ], group: .server,
    [.admin, .write, .afterLoading, .decidedByFleet],
    "Move a stored entity, hidden since the fleet shares its kind, into the fleet.", .value(.count)
  ) { call throws(CommandError) in
    let moved = try call.hiddenEntity()
    if call.engine.context.isWorkbench {
      call.session.output.integer(try call.engine.adopt(moved, call) ? 1 : 0)
    } else {
      guard let fleet = call.dispatcher.fleet, fleet.shares(moved.key.kind) else {
        throw CommandError("ERR no fleet shares \(moved.key.kind.name)s here")
      }
      try call.run { () throws(EngineError) in try call.engine.checkWritable(.none) }
      fleet.submit(call, about: moved.key)
    }
  },
]

/// A stored entity that a fleet hides.
struct HiddenEntity {
  let key: FleetKey
  let place: UInt32
  let record: ArraySlice<UInt8>
  let generation: Generation
  /// The records of a limit's sends.
  let sends: [ArraySlice<UInt8>]
}

extension Call {
  fileprivate func begin(_ beginning: FleetBeginning) throws(CommandError) {
    guard let fleet = dispatcher.fleet else {
      throw CommandError("ERR this daemon shares nothing; set fleet.engine in the configuration")
    }
    try fleet.begin(beginning, self)
  }

  fileprivate func hiddenEntity() throws(CommandError) -> HiddenEntity {
    let place = try spec.integer(arguments[3], "place", in: 0...Int64(StoredSlots.end - 1))
    guard let entity = Self.hiddenEntity(arguments, at: UInt32(place)) else {
      throw problem("this is no record of a kind that a fleet can share")
    }
    return entity
  }

  /// Returns the entity of the arguments of `FLEET IMPORT`, or nil.
  private static func hiddenEntity(_ arguments: Arguments, at place: UInt32) -> HiddenEntity? {
    let name = String(decoding: arguments[2])
    let record = Array(arguments[4])
    guard let kind = EntityKind.allCases.first(where: { "\($0.name)" == name }), kind.shared != nil,
      !EntityRecord.isSends(record.first),
      let range = EntityRecord.key(of: record.span),
      let generation = kind.behavior.generation(of: record[...])
    else { return nil }
    return HiddenEntity(
      key: FleetKey(kind, Array(record[range])), place: place, record: record[...],
      generation: generation,
      sends: pages(arguments).map { Array(arguments[$0 + 1])[...] })
  }

  /// Returns the places of what follows a limit: the place and the record of each page of sends.
  fileprivate static func pages(_ arguments: Arguments) -> some Sequence<Int> {
    stride(from: 5, to: arguments.count - 1, by: 2)
  }
}

extension Kind {
  /// Returns the generation of a record, or nil if it cannot be read.
  fileprivate static func generation(of record: ArraySlice<UInt8>) -> Generation? {
    guard let range = EntityRecord.key(of: record.span) else { return nil }
    var reader = StateReader(record.dropFirst(range.upperBound), offset: 0)
    reader.format = record.first!
    var state = State.blank(record.span.extracting(range))
    state.state(&reader)
    return reader.hasFailed || reader.bytesLeft > 0 ? nil : state.generation
  }
}

extension Engine {
  /// Adds a hidden entity, unless another one has its key. Returns whether the fleet has it then.
  fileprivate func adopt(_ hidden: HiddenEntity, _ call: Call) throws(CommandError) -> Bool {
    let kind = hidden.key.kind.shared!
    let store = store(of: hidden.key.kind)
    if let index = store.find(hidden.key.key.span) {
      // It was moved before, and nobody has learned of it.
      return store.generation(index) == hidden.generation
    }
    // Its times are on the clock of this host's store; here the servers' clock is the boot clock.
    let host = call.dispatcher.host
    let offset = host.storeOffset - (call.now.boot - host.now.boot).microseconds
    do throws(EntityRecord.Problem) {
      try kind.restore(hidden.record, at: 0, offset: offset, in: self, at: call.now)
      guard hidden.sends.isEmpty || kind.adopt(hidden.sends, 0, offset: offset, in: self)
      else { throw .damaged }
    } catch {
      throw call.problem("the record cannot be read")
    }
    changes.note(EntityRef(hidden.key.kind, 0), isKept: true)
    return true
  }
}

extension Fleet {
  /// Has the store forget an entity that the fleet has now.
  func noteMoved(_ operation: FleetOperation) {
    guard let command = operation.command, command.spec.flags.contains(.decidedByFleet),
      operation.answer.reply == Self.moved
    else { return }
    command.arguments.withArguments { arguments in
      for index in [3] + Call.pages(arguments) {
        guard let place = UInt32(String(decoding: arguments[index])) else { continue }
        dispatcher.host.forgetStored(operation.key.kind, at: place)
      }
    }
    dispatcher.engine.context.copies?.hiddenCount -= 1
  }

  private static let moved = Array(":1\r\n".utf8)
}
