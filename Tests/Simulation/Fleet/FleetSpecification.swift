import Countdowns
import Wire

/// What one daemon alone does with an entity. A fleet must behave as if it were one daemon.
struct FleetSpecification {
  struct Outcome {
    var record: [UInt8]?
    var reply: RESPValue?
    var events: [HeardEvent]
  }

  let settings: EngineSettings
  private let host = ModelHost { Moment(boot: .zero, wall: .zero) }

  init(_ settings: EngineSettings) { self.settings = settings }

  /// Returns the effect of time, and of a command if there is one, on a record.
  ///
  /// - Parameters:
  ///   - generation: the next generation to be assigned.
  ///   - owner: the connection that asks.
  ///   - isThere: whether the owner of something is connected.
  func apply(
    _ words: [String]?, about key: FleetKey, _ record: [UInt8]?, at time: Int64,
    generation: Int64 = 1, by owner: UInt64 = 1,
    isThere: @escaping (UInt64) -> Bool = { _ in true }
  ) -> Outcome {
    var settings = settings
    settings.firstGeneration = generation
    let now = Moment(boot: Instant(microseconds: time), wall: Instant(microseconds: time))
    let engine = Engine(settings: settings, at: now)
    let dispatcher = Dispatcher(engine: engine, host: host)
    let session = Session(
      connection: owner, peer: Peer(uid: ModelDaemon.uid, pid: 1), address: "", at: now)
    session.output.version = .resp3
    dispatcher.open(session)
    engine.decideForFleet(isThere)
    execute(["SUBSCRIBE", key.channel], on: dispatcher, for: session, at: now)
    if let record { precondition(restore(record, key.kind, in: engine, at: now), "no record") }
    while !dispatcher.advance(to: now, budget: 100) {}
    engine.runDue(key, at: now)
    if let words { execute(words, on: dispatcher, for: session, at: now) }
    while !dispatcher.advance(to: now, budget: 100) {}

    var outcome = Outcome(record: record, events: [])
    let batch = ChangeWriter(offset: 0)
    engine.takeChanges(into: batch)
    _ = ChangeEntry.forEach(of: batch.bytes[...]) { entry in
      switch entry {
      case .current(_, _, let bytes): outcome.record = Array(bytes)
      case .gone: outcome.record = nil
      case .events, .clocks: break
      }
    }
    var decoder = ReplyDecoder()
    decoder.feed(session.takeOutput())
    while let value = try? decoder.next() {
      guard case .push(let parts) = value else {
        outcome.reply = value
        continue
      }
      if parts.count == 3, let line = parts[2].string { outcome.events.append(HeardEvent(line)) }
    }
    return outcome
  }

  private func restore(
    _ record: [UInt8], _ kind: EntityKind, in engine: Engine, at now: Moment
  ) -> Bool {
    var entities = StoredEntities()
    entities.append(kind, 0, record.span)
    return engine.restore(entities, offset: 0, at: now).isEmpty
  }

  /// Returns the connections that own the entity of a record, or run its action.
  func owners(of key: FleetKey, _ record: [UInt8]?) -> [UInt64] {
    guard let record else { return [] }
    let now = Moment(boot: .zero, wall: .zero)
    let engine = Engine(settings: settings, at: now)
    engine.decideForFleet { _ in true }
    precondition(restore(record, key.kind, in: engine, at: now), "no record")
    return engine.connections(of: key)
  }

  /// Returns the events that the hosts publish for a change.
  static func events(_ change: FleetChange) -> [HeardEvent] {
    var found: [HeardEvent] = []
    _ = EventCoding.forEach(change.events) { event in
      found += event.encoded().map { [HeardEvent(String(decoding: $0, as: UTF8.self))] } ?? []
      return true
    }
    return found
  }

  /// Returns the generation of a record: the first field after the key.
  static func generation(_ record: [UInt8]?, _ kind: EntityKind) -> Int64? {
    guard let record, record.count > 5 else { return nil }
    func number(_ place: Int, _ size: Int) -> Int64 {
      record[place..<place + size].reduce(0) { $0 << 8 | Int64($1) }
    }
    let place = 5 + Int(number(1, 4))
    return record.count >= place + 8 ? number(place, 8) : nil
  }
}

extension FleetKey {
  var channel: String { "\(kind.name):" + name }
  var name: String { String(decoding: key, as: UTF8.self) }
}
